#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {

/// A plan that differs from another in one decision.
struct PlanChange {
  std::string dimension;  ///< "recompute", "microbatch_size", "mesh", ...
  std::string from;
  std::string to;
  Plan plan;  ///< resolved; passes check()
  // Filled by whoever looks at it.
  Seconds step_time;
  MemoryVerdict memory;
};

/// Every valid plan that differs from `plan` in one decision, in a fixed order:
/// recomputation, attention, sequence parallelism, eighths in host memory (where the cluster says what its hosts hold,
/// or the plan has some), ZeRO 0 to 3 (with resharding, prefetch and chunks of parameters in stage 3), overlap,
/// schedule (all but that of a file, on as many chunks as it asks for) and number of chunks, how attention is cut over
/// the context axis, zigzag and inner rings, kept operands of 3D, microbatch size, stage
/// split (the space's family), order of axes, and moves of a factor from one
/// mesh axis to another (pipeline, data, tensor, and replica and context where
/// the mesh has them).  Where the number of stages changes they are split anew;
/// choices that lose their axis go with it, counts of recomputed layers follow the stages, and a chunk of parameters
/// that no longer suits becomes one for each layer. Requires a resolved plan that passes check().
[[nodiscard]] std::vector<PlanChange> single_changes(const Plan&, const ModelSpec&, const Workload&, const ClusterSpec&,
                                                     const Calibration&);

/// "recompute none -> full"
[[nodiscard]] std::string describe(const PlanChange&);

}  // namespace orrery
