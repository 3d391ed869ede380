#include <catch2/catch.hpp>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "core/record/rates.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

PlannedRun draw(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.tensor = TensorAlgorithm::one_d;
  limits.predictions = true;
  return test::random_run(seed, limits);
}

}  // namespace

TEST_CASE("Programs with prediction modules are sound, and read back from their text", "[property][prediction]") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    INFO(render(verify(program)));
    REQUIRE(verify(program).empty());
    Diagnostics diagnostics;
    const auto back = read_program(write_program(program), "memory", diagnostics);
    REQUIRE(back);
    CHECK(*back == program);
  }
}

// Copies of the word table and padding do not count; biases that move experts' scores are not trained.
TEST_CASE("Programs hold the parameters of the model and of its modules", "[property][prediction]") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    CHECK(parameter_elements(lower(run.model, run.workload, run.plan)) ==
          parameter_count(run.model) + run.model.prediction_modules * prediction_module_parameter_count(run.model));
  }
}

// On one rank along every axis that cuts products, without recomputation and dropped tokens, the Program's products are
// those that reports count. Each module costs its layer, the two halves of the projection and the head.
TEST_CASE("Prediction modules cost the FLOPs that reports count", "[property][prediction]") {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 450; ++seed) {
    PlannedRun run = draw(seed);
    if (run.plan.recompute != Recompute::none || run.plan.mesh.size(Axis::tensor) > 1 ||
        run.plan.mesh.size(Axis::context) > 1 || run.model.mixture) {
      continue;
    }
    CAPTURE(seed, test::describe(run));
    CHECK(program_flops(lower(run.model, run.workload, run.plan)) == Approx(model_flops(run.model, run.workload)));
    ++checked;
  }
  CHECK(checked > 20);
}

// The last stage has the modules and, if it is not the first rank, a copy of the word table whose gradient is summed
// with the first's: one all-reduce of the table's part over both, tied or not.
TEST_CASE("The word table's gradient is summed over the stages that read it", "[property][prediction]") {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 320; ++seed) {
    const PlannedRun run = draw(seed);
    const StageMap map = stage_map(run.plan);
    const std::uint32_t last = map.rank(map.stages() - 1);
    if (last == 0 || map.two_way() || run.plan.zero_stage > 0) continue;
    CAPTURE(seed, test::describe(run));
    const Program p = lower(run.model, run.workload, run.plan);
    const std::uint64_t table = padded_vocabulary(run.plan, run.model) / run.plan.mesh.size(Axis::tensor) *
                                run.model.hidden * size_of(gradient_dtype(run.workload));
    for (const std::uint32_t rank : {0U, last}) {
      std::uint64_t payload = 0;
      for (const CollectiveTotal& t : totals_of(p, rank).collectives) {
        if (p[t.group].axes == AxisList{Axis::pipeline} && p[t.group].members.size() == 2) payload += t.payload;
      }
      CHECK(payload == table);
    }
    ++checked;
  }
  CHECK(checked > 20);
}

}  // namespace orrery
