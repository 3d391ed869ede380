#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// Whether the closed forms below know all that the plan uses.  Others are lowered and estimated, never bounded.
[[nodiscard]] bool bound_covers(const Plan&);
/// The same with what the model has: layers of experts are not known.
[[nodiscard]] bool bound_covers(const Plan&, const ModelSpec&);
/// Whether Bounder::stage_peaks is the Program's peak, not only a lower bound on it: GPipe and 1F1B with one chunk on
/// each rank, ZeRO 0 and 1.
[[nodiscard]] bool memory_is_exact(const Plan&);

/// Looks at a plan without lowering it.
///
/// Memory in closed form, exact where memory_is_exact, else a lower bound:
///
///     peak(r) = persistent(r) + max((n - 1) K + P_f, n K + P_b)
///
///     n         microbatches in flight before the first backward pass (microbatches_in_flight, stage_memory.hpp)
///     K         live bytes that one forward pass leaves on the rank
///     P_f, P_b  peak inside a forward or a backward pass, from its start
///
/// Several chunks on a rank hold n K each before the first backward pass, which is the last chunk's.  ZeRO-2 and 3 add
/// the whole copies that a layer's block holds.
///
/// Time is a lower bound on `estimate`, the larger of
///   compute  backward_ends (GPipe, 1F1B) or rank_ends over spans of the blocks, then what cannot be hidden of
///            gradient reductions, norm, update and gathers of updated weights;
///   lanes    the work of the busiest collective lane of any rank.
/// With ZeRO-2 and 3 passes also clear gradient copies, and wait for gathers that nothing runs ahead of and, without
/// overlap, for reductions.
/// Leaves out: the loss, step counters, and what ranks wait for beyond the chains that backward_ends looks at.
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

  /// Peak bytes of each pipeline rank.
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
