#pragma once

#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// A time that no plan's step undercuts: the matrix products of forward and backward pass at the devices' peak.
///
///     T = F1 / sum(peak)
///
///     F1    FLOPs of the step's tokens as sequences of one token each (model_flops): all products with weights, and of
///           attention no more than a token's own pair, which every mask keeps
///     peak  of every device, in the workload's precision
///
/// Source: this is the MFU of PaLM (Chowdhery et al., JMLR 24(240), 2023, appendix B) solved for the step where it is
/// 1, without attention. Leaves out: attention, recomputation, all that is no matrix product, communication and
/// bubbles. It holds where no constant of a device is above its peak. 0 where a peak is unknown.
[[nodiscard]] Seconds least_step(const ModelSpec&, const Workload&, const ClusterSpec&);

}  // namespace orrery
