#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/record/report.hpp"
#include "core/spec/reliability_spec.hpp"
#include "forecast/checkpoint_time.hpp"
#include "forecast/run_sample.hpp"
#include "forecast/run_time.hpp"

namespace orrery {

/// Events after which no other simulated run begins, and one by itself is given up: an answer takes a second or two.
inline constexpr std::uint64_t most_forecast_events = 20'000'000;

/// What a forecast starts from: a step, and what happens around it.
struct ForecastInputs {
  double tokens = 0.0;  ///< to train on
  double tokens_per_step = 1.0;
  Seconds step;  ///< healthy
  std::optional<StepInterval> step_interval;
  std::uint64_t gpus = 1, nodes = 1;
  std::uint32_t gpus_per_node = 1;
  std::optional<ReliabilitySpec> reliability;  ///< unset: failures are not counted
  std::optional<CheckpointTime> checkpoint;    ///< unset: unknown
  std::vector<std::string> unknown;            ///< keys without which the checkpoint's time is open
  std::optional<std::uint64_t> save_every;     ///< steps; unset: the best
  FewerReplicas fewer;
  std::uint64_t runs = 1000;  ///< to simulate; 0: 20 where no closed form holds, else none
  std::uint64_t seed = 1;
};

/// What a change of one input by a tenth, for the better, saves.
struct Knob {
  std::string name;        ///< "step time", "restart"
  double value = 0.0;      ///< of the input, in `unit`
  std::string unit;        ///< "s", "per day"
  double days_each = 0.0;  ///< derivative of the days by the input, per unit
  double tenth_days = 0.0;
};

/// A whole run.
struct Forecast {
  std::uint64_t steps = 0;
  Seconds work;  ///< of healthy steps
  RunHazards hazards;
  SavePlan saves;
  std::uint64_t save_every = 0;  ///< steps; 0: nothing fails, or a save's time is unknown
  std::optional<Seconds> best, young, daly;
  std::vector<std::string> unknown;     ///< keys without which failures cannot be counted
  bool by_events = false;               ///< the ledger is the mean of simulated runs: no closed form holds
  std::optional<RunLedger> ledger;      ///< mean; unset: unknown, or never_ends
  bool never_ends = false;              ///< no time is known at which it ends: see mean_needed and given_up
  std::optional<Seconds> mean_needed;   ///< of a run that never ends: time between failures for half of the time
  std::optional<RunSample> sample;      ///< unset: none was simulated, or none ended
  std::uint64_t given_up = 0;           ///< simulated runs that did not end within most_forecast_events
  bool saves_pile_up = false;           ///< saves come faster, as --save-every says, than they are written
  std::optional<Seconds> low, high;     ///< wall time, eight in ten
  std::optional<double> mean_down;      ///< nodes under repair
  std::optional<std::uint64_t> spares;  ///< for 99 % of the time
  std::vector<Knob> knobs;              ///< most worth first

  [[nodiscard]] double share() const { return ledger ? effective_share(*ledger) : 1.0; }
  [[nodiscard]] Seconds wall() const { return ledger ? ledger->wall() : work; }
};

/// The forecast of a run. Closed form where it holds (expected_run); where nodes may be missing, bursts come, or copies
/// are kept both in memory and in storage, the mean of simulated runs.
///
///     steps = ceil(tokens / tokens of a step)        work = steps x step
///     saves: every best_steps, or more where a save beside the steps takes longer to write; at the end at least
///     eight in ten: ln of the bounds is the root of the summed squares of ln of the step's and of the failures' bounds
///
/// Deterministic. Progress counts simulated runs.
[[nodiscard]] Forecast forecast_run(const ForecastInputs&, const WorkProgress& = {});

/// The mean time between failures at which half of the time would be work, all else equal.
[[nodiscard]] Seconds mean_for_half(Seconds step, const SavePlan&, const RunHazards&);

}  // namespace orrery
