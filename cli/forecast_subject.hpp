#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "cli/search_question.hpp"
#include "core/record/report.hpp"
#include "core/spec/power_spec.hpp"
#include "forecast/checkpoint_size.hpp"
#include "forecast/run_events.hpp"
#include "forecast/step_energy.hpp"

namespace orrery {

/// What a forecast is of: a plan with its step, the bytes of its checkpoint and its energy.
struct ForecastSubject {
  PlannedRun run;
  Report report;  ///< estimate, with prices told
  Seconds step;   ///< headline_step of the report
  CheckpointSize checkpoint;
  std::optional<StepEnergy> energy;
  std::vector<std::string> assumed;        ///< of the workload, where nothing said it
  std::optional<SearchQuestion> question;  ///< that the planner answered with this plan; unset: the plan was given
};

[[nodiscard]] ForecastSubject forecast_subject(const LoadedPlan&, const PowerTable&);
/// The fastest of the plainest plans that fit. A batch or sequence of 0 is assumed; the usual batch is 4 Mi tokens.
/// Refuses (forecast.no-plan) where none fits.
[[nodiscard]] ForecastSubject searched_subject(SearchQuestion, const PowerTable&);
/// The same run on `gpus` devices: a plan with more or fewer replicas of the same batch, or the best plan of a search.
/// Empty where there is none.
[[nodiscard]] std::optional<ForecastSubject> resized_subject(const ForecastSubject&, std::uint32_t gpus,
                                                             const CommonFlags&, const PowerTable&);

/// Time of a step of the same batch with 1, 2 ... replicas missing, over that of all, as the estimate prices the
/// smaller plans; microbatches go to the other replicas. A number that is no whole number of nodes, or has no valid
/// plan, counts as the next smaller one. Ends where three quarters are left. Throws Error when interrupted.
[[nodiscard]] FewerReplicas fewer_replicas(const ForecastSubject&, const CommonFlags&);

}  // namespace orrery
