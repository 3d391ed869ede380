#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"
#include "gui/model/run_settings.hpp"
#include "planner/resolve.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/des/simulate.hpp"
#include "sim/memory/live_tensors.hpp"
#include "validate/calibration_choice.hpp"

namespace orrery::gui {

/// A valid plan with its cluster and its prices: everything that a prediction needs.
struct PricedRun {
  PlannedRun run;
  std::shared_ptr<const CalibrationChoice> prices;
  RunSettings settings{};  ///< that the prices follow
};

/// What `orrery estimate` answers, with the same numbers.
struct Prediction {
  std::shared_ptr<const PricedRun> of;  ///< as it was asked for
  PlannedRun run;                       ///< resolved
  std::shared_ptr<const CalibrationChoice> prices;
  std::vector<Resolution> resolved;  ///< what was auto
  std::shared_ptr<const Program> program;
  Report report;
  std::vector<PeakTensors>
      tensors;            ///< tensors of each stage at its peak, as in `orrery estimate --memory`; once complete
  bool complete = false;  ///< what the process holds is in the report too
  double seconds = 0.0;   ///< that the estimate took
};

/// Resolves, lowers and estimates: milliseconds, whatever the cluster.  Requires a run that passes check().
/// Throws Error when ranks wait for each other forever.
[[nodiscard]] Prediction predict_live(std::shared_ptr<const PricedRun>);
/// The same with the memory of the process, for which the allocator is played through a step, and with the tensors of
/// the peaks. It takes ten times as long and more.
[[nodiscard]] Prediction completed(Prediction);
/// Runs both.
[[nodiscard]] Prediction predict(std::shared_ptr<const PricedRun>);

/// The cost model that prices it.
[[nodiscard]] CostModel costs_of(const Prediction&);

/// The answer of `orrery simulate`: one traced rank for each class; where wished, with the critical path and the gains
/// from faster ops. Throws SimulationCancelled once `cancelled` is set.
[[nodiscard]] Simulation simulate_step(const Prediction&, const std::atomic<bool>& cancelled,
                                       bool critical_path = false);

}  // namespace orrery::gui
