#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/plan/axis_sizes.hpp"
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

namespace {

/// Bytes that a layer's forward pass leaves less of a microbatch (docs/formulas/memory.md, recomputed modules), on a
/// rank of the one tensor axis.
std::uint64_t dropped_by_norms(const PlannedRun& run, std::uint64_t width, std::uint64_t wide) {
  const Plan& p = run.plan;
  const std::uint64_t tokens = p.microbatch_size * run.workload.sequence_length / p.mesh.size(Axis::context);
  const std::uint64_t rows = p.sequence_parallel ? tokens / p.mesh.size(Axis::tensor) : tokens;
  const std::uint64_t statistics = run.model.norm == Norm::layer_norm ? 2 : 1;
  return 2 * rows * (width * run.model.hidden + wide * statistics);
}
std::uint64_t dropped_by_mlp(const PlannedRun& run, std::uint64_t width, std::uint64_t) {
  const Plan& p = run.plan;
  const std::uint64_t tokens = p.microbatch_size * run.workload.sequence_length / p.mesh.size(Axis::context);
  return width * (is_gated(run.model.activation) ? 3 : 2) * run.model.ffn * tokens / p.mesh.size(Axis::tensor);
}

}  // namespace

// In GPipe all forward passes come first, so what they leave falls by each module's bytes, for each layer and
// microbatch.
TEST_CASE("recomputed modules leave what their closed forms say", "[property][recompute]") {
  using Form = std::uint64_t (*)(const PlannedRun&, std::uint64_t, std::uint64_t);
  const std::pair<unsigned, std::vector<Form>> cases[] = {
      {set_of(RecomputeModule::layernorm), {dropped_by_norms}},
      {set_of(RecomputeModule::mlp), {dropped_by_mlp}},
      {set_of(RecomputeModule::layernorm) | set_of(RecomputeModule::mlp), {dropped_by_norms, dropped_by_mlp}}};
  std::uint32_t runs = 0;
  for (std::uint64_t seed = 1; runs < 40; ++seed) {
    test::RandomRunLimits limits;
    limits.schedule = ScheduleName::gpipe;
    limits.tensor = TensorAlgorithm::one_d;
    limits.recompute = Recompute::none;
    limits.mixture = false;
    limits.plain = true;
    PlannedRun run = test::random_run(300 + seed, limits);
    const bool wide = run.workload.precision == Precision::fp64;
    const std::uint64_t width = wide ? 8 : run.workload.precision == Precision::fp32 ? 4 : 2;
    CAPTURE(seed, test::describe(run));
    const std::vector<std::uint32_t> stages = *run.plan.stage_layers;
    const std::uint64_t microbatches =
        run.workload.global_batch / run.plan.microbatch_size / size(run.plan.mesh, sequence_axes(run.plan));
    const Program kept = lower(run.model, run.workload, run.plan);
    for (const auto& [modules, forms] : cases) {
      PlannedRun other = run;
      other.plan.recompute = Recompute::selective;
      other.plan.recompute_modules = static_cast<RecomputeModules>(modules);
      const Program less = lower(other.model, other.workload, other.plan);
      std::uint64_t bytes = 0;
      for (const Form form : forms) bytes += form(run, width, wide ? 8 : 4);
      for (std::uint32_t stage = 0; stage < stages.size(); ++stage) {
        CAPTURE(modules, stage);
        CHECK(live_before_backward(kept, stage) - live_before_backward(less, stage) ==
              static_cast<std::int64_t>(bytes * stages[stage] * microbatches));
      }
    }
    ++runs;
  }
}

// Activations of experts are dropped alone; a whole mixture keeps only its input.
TEST_CASE("recomputed modules of mixtures leave less", "[property][recompute]") {
  std::uint32_t runs = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    test::RandomRunLimits limits;
    limits.schedule = ScheduleName::gpipe;
    limits.tensor = TensorAlgorithm::one_d;
    limits.recompute = Recompute::none;
    limits.max_ranks = 4;
    limits.expert = 2;
    PlannedRun run = test::random_run(700 + seed, limits);
    if (!run.model.mixture || mixes_kinds(run.model) || run.plan.offload_activations != 0U) continue;
    CAPTURE(seed, test::describe(run));
    const std::uint32_t layers = run.plan.stage_layers->front();
    const std::uint64_t microbatches =
        run.workload.global_batch / run.plan.microbatch_size / size(run.plan.mesh, sequence_axes(run.plan));
    const auto live = [&](unsigned modules) {
      PlannedRun other = run;
      other.plan.recompute = Recompute::selective;
      other.plan.recompute_modules = static_cast<RecomputeModules>(modules);
      return live_before_backward(lower(other.model, other.workload, other.plan), 0);
    };
    const Program kept = lower(run.model, run.workload, run.plan);
    const std::int64_t all = live_before_backward(kept, 0);
    const auto act =
        std::find_if(kept.buffers.begin(), kept.buffers.end(), [](const Buffer& b) { return b.name == "experts.act"; });
    REQUIRE(act != kept.buffers.end());
    const std::int64_t without_act = live(set_of(RecomputeModule::moe_act));
    CHECK(all - without_act == static_cast<std::int64_t>(bytes_of(*act) * layers * microbatches));
    const std::int64_t without_mixture = live(set_of(RecomputeModule::moe));
    CHECK(without_mixture < without_act);
    if (run.model.mixture->shared_ffn > 0) CHECK(without_mixture < live(set_of(RecomputeModule::shared_experts)));
    ++runs;
  }
  CHECK(runs >= 10);
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
