#pragma once

#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "planner/study/tensor_volumes.hpp"

namespace orrery {

/// Time of one transformer layer, forward and backward, cut in one of the
/// tensor-parallel modes, from the prices that estimate and simulate use.
struct TensorLayerTime {
  Seconds compute;        ///< matrix products and flash attention of the busiest device
  Seconds communication;  ///< of all collectives, one after the other
  /// Nothing overlaps; everything that can does (each device computes or communicates all the time).
  [[nodiscard]] Seconds serial() const { return compute + communication; }
  [[nodiscard]] Seconds overlapped() const { return compute < communication ? communication : compute; }
};

/// Devices are taken in order: rows of the grid have stride 1, columns stride
/// q, the depth stride q^2, so a row shares a node first.  Collectives cost
/// what CollectiveCost says for the slowest group of their kind: in 1D four
/// all-reduces of T h; in 2D and 2.5D q broadcasts (or reductions) along rows
/// and q along columns for each of the three products, and one all-reduce of
/// the weight gradients over the depth; in 3D all-gathers of X and W and a
/// reduce-scatter of Y, and the same backward.
///
/// Leaves out norms and other elementwise kernels, which all modes share, and
/// other traffic on the links.  16-bit elements.  Requires a cluster of
/// grid.devices() devices.
[[nodiscard]] TensorLayerTime tensor_layer_time(const TensorGrid&, const LayerShape&, const ClusterSpec&,
                                                const Calibration&);

}  // namespace orrery
