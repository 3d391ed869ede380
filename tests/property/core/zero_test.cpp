#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

constexpr std::uint64_t cases = 400;

/// Largest number of instances of the layers' buffer, of dense and of other ones, that live together in a step.
std::uint64_t most_live(const Program& program, std::uint32_t rank_class, const std::string& what) {
  const auto meant = [&](BufferId b) {
    return program[b].name == "layer." + what || program[b].name == "layer.dense." + what;
  };
  std::uint64_t live = 0, most = 0;
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& r) {
    const auto* alloc = std::get_if<Alloc>(&r.op->action);
    const auto* free = std::get_if<Free>(&r.op->action);
    if (alloc != nullptr && meant(alloc->what)) most = std::max(most, ++live);
    if (free != nullptr && meant(free->what)) --live;
  });
  CHECK(live == 0);
  return most;
}

}  // namespace

// Rajbhandari et al., SC '20, table 1: bf16 weights and gradients, fp32 master and two moments are 2, 2 and 12 bytes of
// each parameter; N ranks shard what the stage cuts. There is no expert axis, along which some parameters are cut
// anyway.
// Without masters and with bf16 moments they are 2, 2 and 4.
TEST_CASE("bytes per parameter are 16, 4 + 12/N, 2 + 14/N and 16/N, or half of it", "[property][zero]") {
  const bool masters = GENERATE(true, false);
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    test::RandomRunLimits limits;
    limits.precision = Precision::bf16;
    limits.zero_stage = static_cast<std::uint32_t>(seed % 4);
    PlannedRun run = test::random_run(seed, limits);
    run.workload.master_weights = masters;
    run.workload.gradient_dtype = DType::bf16;
    run.workload.optimizer.kind = OptimizerKind::adam;
    run.workload.moment_dtype.reset();
    CAPTURE(seed, test::describe(run));
    if (run.plan.mesh.size(Axis::expert) > 1) continue;
    const std::uint64_t n = size(run.plan.mesh, {Axis::data, Axis::context});
    const std::uint64_t stage = n > 1 ? run.plan.zero_stage : 0;
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      const RoleBytes state = totals_of(program, c).state;
      if (run.plan.offload_states != 0U) continue;  // the host's second copy of weights: totals_test.cpp
      const std::uint64_t bytes = state[index(Role::weight)] + state[index(Role::gradient)] +
                                  state[index(Role::master)] + state[index(Role::moment)];
      const std::uint64_t psi = state[index(Role::weight)] / 2 * (stage == 3 ? n : 1);  // with padding
      const std::uint64_t states = masters ? 12 : 4;
      const std::uint64_t whole[] = {4 + states, 4, 2, 0}, shared[] = {0, states, 2 + states, 4 + states};
      CHECK(bytes == psi * whole[stage] + psi * shared[stage] / n);
      CHECK((state[index(Role::master)] > 0) == masters);
    }
  }
}

// Gathered weights are those of one layer, of two while the next is gathered ahead, or of the whole stage when they are
// kept. Whole gradients are those of one bucket.
TEST_CASE("ZeRO-2 and 3 hold whole copies of few layers", "[property][zero]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    test::RandomRunLimits limits;
    limits.zero_stage = static_cast<std::uint32_t>(2 + seed % 2);
    PlannedRun run = test::random_run(seed, limits);
    if (shard_axes_of(run.plan).empty()) continue;
    if (seed % 3 != 0) run.plan.gradient_bucket = 1.0 * byte;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const std::uint64_t layers = test::layers_on(run.plan, c);
      std::uint32_t longest = 0;  // chunk
      for (const std::uint32_t stage : test::stages_on(run.plan, c)) {
        longest = std::max(longest, (*run.plan.stage_layers)[stage]);
      }
      const std::uint64_t gradients = most_live(program, c, "gradients.whole");
      CHECK(gradients <= layers);
      if (run.plan.gradient_bucket->base() == 1.0) CHECK(gradients == 1);
      const std::uint64_t weights = most_live(program, c, "weights.whole");
      if (run.plan.zero_stage == 2) {
        CHECK(weights == 0);
      } else if (!run.plan.reshard_after_forward) {
        CHECK(weights == layers);
      } else {
        CHECK(weights == std::min<std::uint64_t>(longest, 1 + run.plan.prefetch));
      }
    }
  }
}

// In a split pass the copy that lives while input gradients are made has only norms and biases; the whole one lives for
// products, in weight actions.
TEST_CASE("a split pass holds vectors' gradients first, and products' later", "[property][zero]") {
  std::size_t checked = 0;
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    test::RandomRunLimits limits;
    limits.zero_stage = static_cast<std::uint32_t>(2 + seed % 2);
    limits.schedule = seed % 4 < 2 ? ScheduleName::zb_h1 : ScheduleName::v_half;
    const PlannedRun run = test::random_run(seed, limits);
    if (run.plan.mesh.size(Axis::data) == 1) continue;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    for (const Buffer& b : program.buffers) {
      if (b.name != "layer.gradients.first") continue;
      const ParameterTable& table = program.parameter_tables[*b.parameters];
      std::uint64_t vectors = 0;
      for (const ParameterSegment& s : table.segments) vectors += s.decay ? 0 : s.count;
      CHECK(b.count == vectors);
      ++checked;
    }
    for (const Block& block : program.blocks) {
      if (!block.name.starts_with("layer.")) continue;
      for (const View& v : block.views) {
        const std::string& name = program[v.buffer].name;
        if (name == "layer.gradients.whole") CHECK(block.name.find(".weight") != std::string::npos);
        if (name == "layer.gradients.first") CHECK(block.name.find(".backward") != std::string::npos);
      }
    }
  }
  CHECK(checked > 100);
}
