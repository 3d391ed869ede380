#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// Whether the closed forms below know what the plan uses: pipeline, data and
/// tensor axes, ZeRO 0 and 1, GPipe and 1F1B with one chunk per rank.  Others are lowered and estimated, never bounded.
[[nodiscard]] bool bound_covers(const Plan&);

/// Looks at a plan without lowering it.
///
/// Memory is exact: the Program's peak on every stage, in closed form.
///
///     peak(s) = persistent(s) + max((n - 1) K + P_f, n K + P_b)
///
///     n         microbatches in flight: min(m, p - s) in 1F1B, m in GPipe
///     K         live bytes that one forward pass leaves on the stage
///     P_f, P_b  peak inside a forward or a backward pass, from its start
///
/// Time is a lower bound on `estimate`: the pipeline bound of backward_ends
/// over spans of the six blocks, then what cannot be hidden of gradient
/// reductions, norm, update and (ZeRO-1) weight gathers.
/// Leaves out: the loss, step counters, and what stages wait for beyond the
/// chains that backward_ends looks at.
///
/// The price of a layer's, embedding's and head's blocks is worked out once per
/// choice that changes it and remembered, so a plan costs about as many steps
/// as it has stages.  Looking at plans of one mesh in a row is fastest.  Use
/// one Bounder per thread.
class Bounder {
 public:
  Bounder(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&);
  ~Bounder();
  Bounder(Bounder&&) noexcept;
  Bounder& operator=(Bounder&&) noexcept;

  // All require a resolved plan that passes check() with model, workload and cluster, and that bound_covers().

  /// The Program's peak bytes on each stage.
  [[nodiscard]] std::vector<std::uint64_t> stage_peaks(const Plan&);
  /// The largest of them.
  [[nodiscard]] std::uint64_t peak_memory(const Plan&);
  /// At most the step time of estimate().
  [[nodiscard]] Picoseconds step_time(const Plan&);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One look with storage of its own.
[[nodiscard]] Seconds bound(const Plan&, const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&);

}  // namespace orrery
