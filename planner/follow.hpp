#pragma once

#include <string>

#include "core/plan/dimension.hpp"

// What has to follow when something of a run is turned, so that the run is valid again. It knows the table's rows and a
// few ways to mend a rule; a row says itself where it applies.

namespace orrery {

/// Makes the mesh cover the cluster and the run valid: as it stands, with more or less data, and where the mesh, the
/// number of devices, the model or the cluster was turned, with the nearest mesh.  What was asked for stays: `turned`;
/// null where that is a model or a cluster.  What no longer applies goes back to its default.  Only the plan changes.
/// False where nothing near is valid; `reason` has the first rule that the run as it stood breaks.
[[nodiscard]] bool settle(const PlannedRun& before, PlannedRun& run, const Dimension* turned, std::string& reason,
                          Dimensions = dimensions());

/// Without the places in the files that it was read from: they belong to the text as written.
[[nodiscard]] PlannedRun unplaced(PlannedRun);

/// Turns one dimension of a run after another, each from the run as it was given.  Model and cluster are copied once
/// for all turns, so that a search may ask for hundreds.  The neighbours of a plan are what turned() gives for each row
/// that a person turns and that applies, and each of values().
class Turner {
 public:
  /// Requires a valid run with a cluster.
  explicit Turner(PlannedRun from, Dimensions = dimensions());

  /// The run with the value in place and what follows from it, until the next call; null where no such run is valid:
  /// `reason` then has the first rule that the plain change breaks, with its numbers.
  [[nodiscard]] const PlannedRun* turned(const Dimension&, std::uint64_t value, std::string& reason);
  [[nodiscard]] const PlannedRun& from() const { return from_; }

 private:
  PlannedRun from_, run_;
  Dimensions table_;
  bool whole_ = false;  ///< run_ differs from from_ in more than its plan
};

}  // namespace orrery
