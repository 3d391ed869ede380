#pragma once

#include <cstdint>
#include <optional>

#include "core/base/units.hpp"

namespace orrery {

/// When a run saves so that failures cost it least: every best_steps (forecast/checkpoint_interval.hpp), by the mean
/// time of all saves and that of the steps since the last one, so that a machine that becomes slow loses no more. The
/// first step is saved at once, which measures the first save.
///
/// The time between failures is stated, or measured: a run of T with k failures counts as T / (k + 1), the inverse of
/// the mean rate that is left of all rates by the run so far.
class SavePace {
 public:
  explicit SavePace(std::optional<Seconds> stated) : stated_(stated) {}

  /// Work begins, at first or anew, with the state that is saved.
  void began();
  void step_ended(Seconds took);
  void saved(Seconds took);
  void failed() { ++failures_; }
  void ran(Seconds time) { running_ += time; }

  /// Whether to save now, after a step.
  [[nodiscard]] bool due() const;
  /// Steps from one save to the next, by the mean of all steps. Requires a step and a save.
  [[nodiscard]] std::uint64_t interval() const;

  [[nodiscard]] bool is_stated() const { return stated_.has_value(); }
  [[nodiscard]] Seconds between_failures() const;
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  [[nodiscard]] std::uint64_t saves() const { return saves_; }
  [[nodiscard]] Seconds step() const { return step_time_ / static_cast<double>(steps_); }  ///< mean; requires one
  [[nodiscard]] Seconds save() const { return save_time_ / static_cast<double>(saves_); }  ///< mean; requires one
  [[nodiscard]] Seconds save_time() const { return save_time_; }

 private:
  std::optional<Seconds> stated_;
  Seconds step_time_, save_time_, running_, since_time_;
  std::uint64_t steps_ = 0, saves_ = 0, failures_ = 0, since_ = 0;
};

}  // namespace orrery
