#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>

#include "core/program/lower/lower.hpp"
#include "core/program/verify.hpp"
#include "core/record/tier_memory.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

/// Bytes that one rank of a class copies in a step.
struct Copied {
  std::uint64_t down = 0, up = 0;
};
Copied copied(const Program& program, std::uint32_t rank_class) {
  Copied bytes;
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& run) {
    const auto* copy = std::get_if<Copy>(&run.op->action);
    if (copy == nullptr) return;
    for (std::uint32_t i = 1; i < run.op->views.count; i += 2) {
      const View& v = run.block->views[run.op->views.first + i];
      (copy->to == Tier::host ? bytes.down : bytes.up) += v.count * size_of(program[v.buffer].dtype);
    }
  });
  return bytes;
}

/// Elements of a rank's modules whose states are in host memory, and of the largest of them.
struct OnHost {
  std::uint64_t all = 0, largest = 0;
};
OnHost on_host(const PlannedRun& run, const Program& program, std::uint32_t rank) {
  const std::uint64_t data = run.plan.mesh.size(Axis::data);
  const std::uint64_t parts = run.plan.zero_stage > 0 ? data : 1;
  OnHost out;
  const auto add = [&](const char* module, std::uint64_t times) {
    for (const ParameterTable& t : program.parameter_tables) {
      if (t.module != module || times == 0) continue;
      out.all += times * (t.count / parts);
      out.largest = std::max(out.largest, t.count / parts);
    }
  };
  const std::vector<std::uint32_t> stages = test::stages_on(run.plan, rank);
  const std::uint32_t eighths = *run.plan.offload_states;
  for (const std::uint32_t s : stages) add("layer", ((*run.plan.stage_layers)[s] * eighths + 7) / 8);
  if (eighths < 8) return out;
  const auto holds = [&](std::size_t stage) { return std::find(stages.begin(), stages.end(), stage) != stages.end(); };
  if (holds(0)) add("embedding", 1);
  if (holds(run.plan.stage_layers->size() - 1)) add("head", 1);
  return out;
}

}  // namespace

// Per parameter that the host updates: its gradient down and its weight up, 2 + 2 bytes with 16-bit gradients (Ren et
// al., ATC 2021: 2M and 2M); in host memory the states, the weight, and the gradients of one module at a time.
TEST_CASE("offloaded states move and take what the closed form says", "[property][offload]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    PlannedRun run = test::random_run(seed);
    const std::uint64_t moments = static_cast<std::uint64_t>(optimizer_moments(run.workload));
    const bool masters = has_master_weights(run.workload);
    if (moments == 0 && !masters) continue;
    if (has_trust_ratio(run.workload)) continue;  // those update on the device alone
    run.plan.offload_states = static_cast<std::uint32_t>(1 + seed % 8);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const std::uint64_t g = size_of(gradient_dtype(run.workload)), w = size_of(weight_dtype(run.workload));
    const std::uint64_t st = size_of(state_dtype(run.workload));
    const bool factor = run.workload.clip_norm || run.workload.precision == Precision::fp16;
    const std::uint64_t scalars = factor ? 24 : 8;  // the step count; multiplier and skip
    const std::vector<TierBytes> peaks = tier_peaks(program);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const OnHost host = on_host(run, program, c);
      const Copied bytes = copied(program, c);
      CHECK(bytes.down == host.all * g + scalars);
      CHECK(bytes.up == host.all * w);
      const std::uint64_t states = host.all * (w + (masters ? st : 0) + moments * st);
      CHECK(peaks[c][index(Tier::host)] == states + host.largest * g + scalars);
      CHECK(peaks[c][index(Tier::disk)] == 0);
      const ClassTotals totals = totals_of(program, c);
      for (std::size_t tier = 0; tier < tier_count; ++tier) CHECK(peaks[c][tier] == totals.peak[tier]);
    }
  }
}

TEST_CASE("the device holds fewer states, and the rest is as without", "[property][offload]") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (run.plan.offload_states == 0U) continue;
    CAPTURE(seed, test::describe(run));
    const Program with = lower(run.model, run.workload, run.plan);
    REQUIRE(verify(with).empty());
    run.plan.offload_states = 0;
    const Program without = lower(run.model, run.workload, run.plan);
    for (std::uint32_t c = 0; c < with.classes.size(); ++c) {
      const ClassTotals a = totals_of(with, c), b = totals_of(without, c);
      CHECK(a.peak[index(Tier::device)] < b.peak[index(Tier::device)]);
      CHECK(a.collectives == b.collectives);
      CHECK(a.message_bytes == b.message_bytes);
    }
  }
}
