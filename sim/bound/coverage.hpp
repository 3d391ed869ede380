#pragma once

#include "core/plan/plan.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

// What the closed forms of sim/bound know.

/// Whether they know all that the plan uses.  Others are lowered and estimated, never bounded.
[[nodiscard]] bool bound_covers(const Plan&);
/// The same with model and workload: what is in host memory is known of some alone.
[[nodiscard]] bool bound_covers(const Plan&, const ModelSpec&, const Workload&);
/// Whether they know the model's layers in host memory: causal decoders without prediction modules, whose layers are
/// all dense or all mixtures, under optimizers that sum nothing over ranks.
[[nodiscard]] bool bound_covers_offload(const ModelSpec&, const Workload&);
/// Whether backward_ends knows the plan's pipeline: GPipe and 1F1B with one chunk on each rank.
[[nodiscard]] bool is_plain(const Plan&);
/// Whether Bounder::stage_peaks is the Program's peak, not only a lower bound on it: plain pipelines, ZeRO 0 and 1.
[[nodiscard]] bool memory_is_exact(const Plan&);
/// The same with what the optimizer does: Adafactor's sums over rows and columns, while it updates, are not known.
[[nodiscard]] bool memory_is_exact(const Plan&, const Workload&);

}  // namespace orrery
