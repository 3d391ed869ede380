#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/live_memory.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"
#include "sim/bound/bound.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {

/// Looks for the fewest recomputed layers with which a plan fits.  Keeps its storage.
///
/// Every pipeline rank's counts run from none to all of its layers (recompute_one_more), and its memory depends on
/// those alone: the first that fit on each rank are, in every stage, at most those of any counts that fit.  A layer
/// that is recomputed adds operations to the passes of its stage and takes none away, and with the order of operations
/// fixed the estimate is a longest path: so no counts that fit have a shorter step (docs/planner.md).
class FewestRecomputed {
 public:
  /// Sets the counts of the plan, which has recompute_layers, and `program` to the plan's; false where its tensors do
  /// not fit in `capacity` even with all layers.  Begins with what the bounder says that it needs at least; where that
  /// is not exact the Program decides.
  [[nodiscard]] bool find(Plan&, Program& program, const ModelSpec&, const Workload&, std::uint64_t capacity, Bounder&);

  /// Gives every stage whose process does not fit one recomputed layer after the other until all do, and `program` to
  /// the plan.  False where a stage has none left.
  [[nodiscard]] static bool raise(PlannedRun&, Program& program, const Calibration&, const MemoryRules&);

 private:
  LiveMemory memory_;
};

}  // namespace orrery
