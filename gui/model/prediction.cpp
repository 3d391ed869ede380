#include "gui/model/prediction.hpp"

#include <chrono>

#include "core/program/lower/lower.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery::gui {

CostModel costs_of(const Prediction& p) {
  const Plan& plan = p.run.plan;
  return CostModel(*p.run.cluster, p.prices->calibration, plan.mesh, plan.placement, plan.collective_algorithm);
}

Prediction predict_live(std::shared_ptr<const PricedRun> given) {
  const auto start = std::chrono::steady_clock::now();
  Prediction out{given, given->run, given->prices, {}, nullptr, {}, {}, false, 0.0};
  const Calibration& calibration = given->prices->calibration;
  PlannedRun& run = out.run;
  ResolvedPlan resolved = resolve(run.plan, run.model, run.workload, *run.cluster, calibration);
  run.plan = std::move(resolved.plan);
  out.resolved = std::move(resolved.resolved);
  const auto program = std::make_shared<const Program>(lower(run.model, run.workload, run.plan));
  out.program = program;
  out.report = estimate(run, *program, costs_of(out));
  tell_prices(out.report, *given->prices);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

Prediction completed(Prediction p) {
  judge_memory(p.report, p.run, *p.program, p.prices->calibration);
  p.tensors = peak_tensors(*p.program);
  p.complete = true;
  return p;
}

Prediction predict(std::shared_ptr<const PricedRun> given) { return completed(predict_live(std::move(given))); }

Simulation simulate_step(const Prediction& p, const std::atomic<bool>& cancelled, bool critical_path) {
  SimulateOptions options;
  options.critical_path = critical_path;
  options.progress.cancelled = &cancelled;
  Simulation out = simulate(p.run, *p.program, costs_of(p), options);
  judge_memory(out.report, p.run, *p.program, p.prices->calibration);
  tell_prices(out.report, *p.prices);
  return out;
}

}  // namespace orrery::gui
