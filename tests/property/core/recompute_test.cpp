#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

/// Live bytes of a rank class when it runs its first op after setup and forward.
std::int64_t live_before_backward(const Program& program, std::uint32_t rank_class) {
  std::int64_t live = 0;
  bool forward = true;
  const auto count = [&](const OpRun& run) {
    forward = forward && run.block->pass != Pass::input_gradient;
    if (!forward) return;
    if (const auto* alloc = std::get_if<Alloc>(&run.op->action)) {
      live += static_cast<std::int64_t>(bytes_of(program[alloc->what]));
    } else if (const auto* free = std::get_if<Free>(&run.op->action)) {
      live -= static_cast<std::int64_t>(bytes_of(program[free->what]));
    }
  };
  for_each_op(program, program.classes[rank_class].setup, count);
  for_each_op(program, program.classes[rank_class].step, count);
  return live;
}

}  // namespace

// In GPipe all forward passes come first. What they leave is linear in the number of recomputed layers, and falls by
// the same bytes for each.
TEST_CASE("kept activations are linear in the number of recomputed layers", "[property][recompute]") {
  std::uint32_t lines = 0;
  for (std::uint64_t seed = 1; lines < 60; ++seed) {
    test::RandomRunLimits limits;
    limits.schedule = ScheduleName::gpipe;
    PlannedRun run = test::random_run(seed, limits);
    if (run.plan.zero_stage == 3 || run.model.layers < 3 || mixes_kinds(run.model)) continue;
    if (run.plan.recompute == Recompute::none) run.plan.recompute = Recompute::full;
    CAPTURE(seed, test::describe(run));
    const std::vector<std::uint32_t> stages = *run.plan.stage_layers;
    for (std::uint32_t stage = 0; stage < stages.size(); ++stage) {
      std::vector<std::int64_t> live;
      for (std::uint32_t n = 0; n <= stages[stage]; ++n) {
        run.plan.recompute_layers = std::vector<std::uint32_t>(stages.size(), 0);
        (*run.plan.recompute_layers)[stage] = n;
        live.push_back(live_before_backward(lower(run.model, run.workload, run.plan), stage));
      }
      for (std::size_t n = 2; n < live.size(); ++n) {
        CAPTURE(stage, n);
        CHECK(live[n - 1] - live[n] == live[0] - live[1]);
      }
      CHECK(live[0] > live[1]);
      ++lines;
    }
  }
}

TEST_CASE("all counts or none are the plan without counts", "[property][recompute]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (run.plan.recompute == Recompute::none) continue;
    CAPTURE(seed, test::describe(run));
    Plan all = run.plan, none = run.plan;
    all.recompute_layers.reset();
    run.plan.recompute_layers = run.plan.stage_layers;
    CHECK(lower(run.model, run.workload, run.plan) == lower(run.model, run.workload, all));
    none.recompute = Recompute::none;
    none.recompute_layers.reset();
    run.plan.recompute_layers = std::vector<std::uint32_t>(run.plan.stage_layers->size(), 0);
    CHECK(lower(run.model, run.workload, run.plan) == lower(run.model, run.workload, none));
  }
}
