#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// What was put in place of one `auto`, and why.
struct Resolution {
  std::string key;    ///< as in a plan file: "stage_layers"
  std::string value;  ///< as in a plan file
  std::string reason;
  friend bool operator==(const Resolution&, const Resolution&) = default;
};

struct ResolvedPlan {
  Plan plan;                         ///< is_resolved
  std::vector<Resolution> resolved;  ///< in the order of the plan's fields; empty when nothing was auto
  std::optional<Program> program;    ///< that of `plan`, where resolving took one
};

/// Puts a value in place of every `auto` of a plan.
///
///   attention, gradient_bucket, overlap_gradients, parameter_chunk
///                      as complete() says (planner/complete.hpp)
///   stage_layers       from the split whose busiest rank computes least on,
///                      first and last stage a layer longer or shorter as long
///                      as the estimated step is shorter by a thousandth; first
///                      of all, that tensors fit
///   offload_states, offload_parameters, offload_activations
///                      the fewest eighths with which every rank's peak fits the
///                      device, and every node's the host; where several are open,
///                      of those of which none can be less the one with the
///                      least estimated step; all where none fits
///
/// Requires a plan that passes check().  Deterministic; values already set stay.
/// The collective override stays as it is.
[[nodiscard]] ResolvedPlan resolve(const Plan&, const ModelSpec&, const Workload&, const ClusterSpec&,
                                   const Calibration&);

}  // namespace orrery
