#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

bool is_logits(const Buffer& b) { return b.name == "logits" || b.name == "prediction.logits"; }

std::uint64_t bytes_of_logits(const Program& program) {
  const auto at = std::find_if(program.buffers.begin(), program.buffers.end(), is_logits);
  return bytes_of(*at);
}

/// Most bytes of logits at one time, in the order of the step.
std::uint64_t most_logits(const Program& program, std::uint32_t rank_class) {
  std::uint64_t live = 0, most = 0;
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& run) {
    const auto bytes = [&](BufferId b) { return is_logits(program[b]) ? bytes_of(program[b]) : 0; };
    if (const auto* alloc = std::get_if<Alloc>(&run.op->action)) live += bytes(alloc->what);
    if (const auto* free = std::get_if<Free>(&run.op->action)) live -= bytes(free->what);
    most = std::max(most, live);
  });
  return most;
}

/// Sums over the parts of the vocabulary.
struct Messages {
  std::uint64_t count = 0, bytes = 0;
};
Messages sums_of_logits(const Program& program, std::uint32_t rank_class) {
  Messages out;
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& run) {
    const auto* c = std::get_if<Collective>(&run.op->action);
    if (c == nullptr || c->kind != Collective::Kind::all_reduce) return;
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = run.block->views[run.op->views.first + i];
      if (program[v.buffer].name.find("logits.") != std::string::npos)
        bytes += v.count * size_of(program[v.buffer].dtype);
    }
    out.count += bytes > 0 ? 1 : 0;
    out.bytes += bytes;
  });
  return out;
}

double flops(const Program& program) { return total_flops(program).executed; }

/// 1D, and no images.
PlannedRun run_of(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.tensor = TensorAlgorithm::one_d;
  limits.predictions = seed % 4 == 0;
  return test::random_run(seed, limits);
}

}  // namespace

// One of n pieces lives at a time, and none lives between a forward and its backward pass. What is computed and the
// bytes that ranks sum stay the same.
TEST_CASE("logits in n pieces take the n-th part of their memory and nothing else", "[property][loss]") {
  std::size_t runs = 0, cut = 0, less = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    PlannedRun run = run_of(seed);
    CAPTURE(seed, test::describe(run));
    run.plan.loss_chunks = 1;
    const Program whole = lower(run.model, run.workload, run.plan);
    const std::uint64_t positions = run.workload.sequence_length / run.plan.mesh.size(Axis::context);
    for (std::uint32_t n = 2; n <= positions; ++n) {
      if (positions % n != 0) continue;
      run.plan.loss_chunks = n;
      const Program program = lower(run.model, run.workload, run.plan);
      CAPTURE(n);
      CHECK(bytes_of_logits(program) * n == bytes_of_logits(whole));
      CHECK(flops(program) == Approx(flops(whole)).epsilon(1e-12));
      for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
        const std::uint64_t before = most_logits(whole, c);
        CHECK(most_logits(program, c) == (before > 0 ? bytes_of_logits(program) : 0));
        const Messages one = sums_of_logits(whole, c), many = sums_of_logits(program, c);
        CHECK(many.count == n * one.count);
        CHECK(many.bytes == one.bytes);
        const std::uint64_t peak = totals_of(program, c).peak[index(Tier::device)];
        less += peak < totals_of(whole, c).peak[index(Tier::device)] ? 1 : 0;
        cut += one.count > 0 ? 1 : 0;
      }
      if (n != 2 && n != positions) continue;
      const std::vector<Violation> found = verify(program);
      INFO(render(found));
      REQUIRE(found.empty());
      Diagnostics none;
      if (seed % 10 == 0) CHECK(read_program(write_program(program), "memory", none) == program);
      ++runs;
    }
  }
  CHECK(runs > 200);
  CHECK(cut > 100);
  CHECK(less > 200);
}

// 262144 words and 32768 positions are 32 GiB of logits in fp32.
TEST_CASE("the logits of a long context and a large vocabulary shrink to the n-th part", "[property][loss]") {
  ModelSpec model = test::tiny_llama({.layers = 2, .vocabulary = 262144, .positions = 32768});
  Workload workload;
  workload.global_batch = 1;
  workload.sequence_length = 32768;
  workload.precision = Precision::bf16;
  Plan plan;
  plan.mesh.axes = {{Axis::data, 1}};
  plan.stage_layers = {{2}};
  plan.gradient_bucket = gibibyte;
  plan.overlap_gradients = false;
  plan.attention = AttentionKernel::flash;
  for (const std::uint32_t n : {1U, 2U, 16U, 64U}) {
    plan.loss_chunks = n;
    const Program program = lower(model, workload, plan);
    CHECK(most_logits(program, 0) == (32ULL << 30) / n);
    CHECK(totals_of(program, 0).peak[index(Tier::device)] < (32ULL << 30) / n + (1ULL << 30));
  }
}
