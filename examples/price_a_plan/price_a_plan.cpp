#include <iostream>

#include "core/plan/plan_file.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/resolve.hpp"
#include "sim/estimate/estimate.hpp"
#include "validate/calibration_choice.hpp"

// price_a_plan MODELS PLAN.toml: the step time of a plan, as `orrery estimate` predicts it.
int main(int count, char** values) {
  using namespace orrery;
  if (count != 3) return 2;
  const Library library(values[1]);
  Diagnostics wrong;
  std::optional<PlannedRun> run = read_plan_file(values[2], library, std::nullopt, wrong);
  std::optional<CalibrationChoice> prices;
  if (run && run->cluster) prices = choose_calibration({}, library, *run->cluster, run->workload.precision, wrong);
  if (!prices) {
    std::cerr << render(wrong);
    return 2;
  }
  run->plan = resolve(run->plan, run->model, run->workload, *run->cluster, prices->calibration).plan;
  const Program program = lower(run->model, run->workload, run->plan);
  const CostModel costs(*run->cluster, prices->calibration, run->plan.mesh, run->plan.placement,
                        run->plan.collective_algorithm);
  const Report report = estimate(*run, program, costs);
  std::cout << report.step_time.in(second) << " s\n";
}
