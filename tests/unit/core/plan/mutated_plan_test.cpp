#include <catch2/catch.hpp>

#include "core/base/random.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/verify.hpp"
#include "core/spec/spec_check.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

// Changes one number or choice to another that may or may not be valid.
void mutate(PlannedRun& run, std::uint64_t seed, std::uint64_t step) {
  const auto draw = [&](std::uint64_t what, std::uint64_t n) { return random_bits(seed, 100 + step, what) % n; };
  Plan& plan = run.plan;
  const auto small = static_cast<std::uint32_t>(draw(1, 6));
  switch (draw(0, 14)) {
    case 0:
      if (!plan.mesh.axes.empty()) plan.mesh.axes[draw(2, plan.mesh.axes.size())].size = small;
      break;
    case 1: plan.microbatch_size = small; break;
    case 2:
      if (plan.stage_layers) (*plan.stage_layers)[draw(2, plan.stage_layers->size())] = small;
      break;
    case 3: run.model.layers = 1 + draw(2, 8); break;
    case 4: run.model.kv_heads = 1 + draw(2, 8); break;
    case 5: run.model.heads = 1 + draw(2, 8); break;
    case 6: run.model.ffn = 1 + draw(2, 40); break;
    case 7: run.workload.sequence_length = 1 + draw(2, 20); break;
    case 8: run.workload.global_batch = 1 + draw(2, 20); break;
    case 9: plan.sequence_parallel = !plan.sequence_parallel; break;
    case 10: plan.recompute = static_cast<Recompute>(draw(2, 3)); break;
    case 11: plan.attention = static_cast<AttentionKernel>(draw(2, 2)); break;
    case 12: plan.zero_stage = static_cast<std::uint32_t>(draw(2, 3)); break;
    case 13:
      if (plan.recompute_layers) (*plan.recompute_layers)[draw(2, plan.recompute_layers->size())] = small;
      break;
  }
}

}  // namespace

TEST_CASE("A mutated plan is either refused, or lowers to a Program that verifies") {
  int refused = 0;
  int lowered = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    test::RandomRunLimits limits;
    limits.max_ranks = 8;
    PlannedRun run = test::random_run(seed, limits);
    for (std::uint64_t step = 0; step <= seed % 3; ++step) mutate(run, seed, step);
    CAPTURE(test::describe(run));
    Diagnostics found;
    const bool specs = check_model(run.model, found) && check_workload(run.workload, found);
    check(run.plan, run.model, run.workload, nullptr, found);
    if (!specs || !found.empty()) {
      ++refused;
      CHECK(!render(found).empty());
      continue;
    }
    if (run.plan.mesh.size() > 32) continue;  // valid, but slow to verify
    ++lowered;
    const std::vector<Violation> broken = verify(lower(run.model, run.workload, run.plan));
    INFO(render(broken));
    REQUIRE(broken.empty());
  }
  // Most mutations break a rule; enough do not.
  CHECK(refused > 100);
  CHECK(lowered > 100);
}
