#pragma once

#include <cstdint>

#include "core/base/units.hpp"
#include "forecast/run_time.hpp"

namespace orrery {

/// Saves of an undisturbed stretch of a run, which begins with an interval of work: a save ends every interval, and
/// the last one ends the run.
class SaveCount {
 public:
  explicit SaveCount(const SavePlan&);

  /// Time from the beginning of the stretch until save `k` ends.
  [[nodiscard]] double end_of(double k) const;
  /// Saves that have ended `x` seconds into the stretch.
  [[nodiscard]] double ended(double x) const;
  /// The last of them that went to storage.
  [[nodiscard]] double to_storage(double saves) const;
  /// Time until `work` is done and saved.
  [[nodiscard]] double time_for(double work) const;

 private:
  double interval_, blocking_, storage_more_, every_;
};

}  // namespace orrery
