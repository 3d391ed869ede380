#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "core/record/lifecycle.hpp"
#include "exec/checkpoint/generations.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

/// Flags of `run` about changing the plan while it trains.
struct AdaptFlags {
  std::optional<std::string> tolerance;   ///< "0.15"
  std::optional<std::string> slow_links;  ///< "20 MB/s"
  std::uint64_t slow_from = 1;
};
void declare_adaptation(Command&, AdaptFlags&);
/// The tolerance, where --adapt is given. Throws mistakes in these flags.
[[nodiscard]] std::optional<double> adapt_tolerance(const AdaptFlags&);
/// What --slow-links asks for. Throws the mistake where it is no rate.
[[nodiscard]] std::optional<SlowLinks> slow_links_of(const AdaptFlags&);

/// Changes the plan of a run between two steps where that saves time. Of rank 0, or of all ranks that are threads.
///
/// It compares the median of the last five steps with the prediction. Where they differ by more than the tolerance, it
/// fits the calibration to the run's own trace (sim/cost/recalibrate.hpp) and searches again. The plan changes where
/// the step gets shorter by more than the tolerance and the gain over the steps left exceeds the cost. Otherwise the
/// plan stays, and the measured step is the new prediction. After a change, steps are compared with what was predicted
/// for the new plan, so that a wrong prediction can lead to another search and change.
///
///     predicted step = estimate of the plan x measured step / estimate of the plan so far, both as fitted
///     gain = (measured step - predicted step) x steps left
///     cost = setup of the run + 2 x time to take the state (as measured)
///
/// The next search comes after ten times as long as the last one took. State goes through memory of rank 0, as a
/// checkpoint does, so every element is the same.
class Adaptation {
 public:
  /// `now` is the plan in use; what is put there is what the ranks run next. `options` are those of the whole run.
  /// `measured` is the run on the machine that it is measured on.
  Adaptation(double tolerance, LoadedPlan& now, RunOptions& options, PlannedRun measured, const CommonFlags&);

  /// Trains to the end. `segment` trains under the plan in use; `tell` is called after each with the plan that follows,
  /// or null.
  RunResult train(const std::function<RunResult()>& segment, const std::function<void(const LoadedPlan*)>& tell);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  struct Told {
    AdaptationEvent event;
    std::optional<double> took_s, then_s;  ///< the change, and the median of steps since
  };
  void on_event(const RunEvent&, const std::function<void(const RunEvent&)>& inner);
  void begin(const RunEvent&);
  void step_ended(const RunEvent&);
  void decide(const RunEvent&, double measured);
  [[nodiscard]] bool weigh(const RunEvent&, AdaptationEvent&);
  void interrupt(AdaptationEvent&);
  void take_over();

  double tolerance_;
  LoadedPlan& now_;
  RunOptions& options_;
  PlannedRun measured_;
  CalibrationChoice prices_;
  std::uint64_t warmup_, steps_, first_step_;
  std::uint64_t done_ = 0;  ///< steps
  double predicted_ = 0.0;  ///< s, of a step
  std::int64_t began_at_ = 0, changes_at_ = 0, next_search_ = 0;
  double setup_s_ = 0.0;
  struct Step {
    double took = 0.0;
    Trace trace;
  };
  std::deque<Step> window_;
  bool fresh_ = true;  ///< the next step is the first under its plan
  std::atomic<bool> hand_over_{false};
  std::optional<LoadedPlan> next_;
  std::unique_ptr<FileSystem> state_;
  std::vector<Told> told_;
};

}  // namespace orrery
