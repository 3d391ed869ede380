#include "planner/study/tensor_layer_time.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "sim/cost/collective_cost.hpp"
#include "sim/cost/group_shape.hpp"
#include "sim/cost/kernel_cost.hpp"

namespace orrery {
namespace {

constexpr double element_bytes = 2.0;

/// Whole parts of `total`, at least 1: a share that does not divide is rounded up.
std::uint64_t share(std::uint64_t total, std::uint64_t parts) { return (total + parts - 1) / parts; }

class LayerPrice {
 public:
  LayerPrice(const TensorGrid& grid, const LayerShape& layer, const ClusterSpec& cluster,
             const Calibration& calibration)
      : grid_(grid),
        layer_(layer),
        cluster_(cluster),
        collectives_(cluster, calibration),
        kernels_(cluster.device, calibration) {
    for (const LinearShape& l : linears()) price(l);
    attention();
  }
  [[nodiscard]] TensorLayerTime time() const { return time_; }

 private:
  [[nodiscard]] std::array<LinearShape, 4> linears() const {
    const std::uint64_t t = layer_.sequences * layer_.positions;
    const std::uint64_t h = layer_.hidden;
    return {{{t, h, 3 * h, false}, {t, h, h, true}, {t, h, 4 * h, false}, {t, 4 * h, h, true}}};
  }

  /// A collective among every set of `members` devices `stride` apart.
  void communicate(Collective::Kind kind, double elements, std::uint64_t stride, std::uint64_t members,
                   double times = 1.0) {
    if (members < 2) return;
    const Bytes payload = Bytes::of(elements * element_bytes);
    Seconds slowest;
    const std::uint64_t p = grid_.devices();
    for (std::uint64_t first = 0; first < p; ++first) {
      if ((first / stride) % members != 0) continue;
      std::vector<std::uint32_t> devices;
      for (std::uint64_t i = 0; i < members; ++i) devices.push_back(static_cast<std::uint32_t>(first + i * stride));
      slowest = std::max(slowest, collectives_.choose(kind, payload, group_shape(devices, cluster_)).time);
    }
    time_.communication += times * slowest;
  }

  void gemm(std::uint64_t rows, std::uint64_t columns, std::uint64_t depth, double times = 1.0) {
    time_.compute += times * kernels_.gemm({rows, columns, depth, false, false}, DType::f16);
  }
  /// Y = X W, dX = dY W^T, dW = X^T dY on blocks of these sizes.
  void three_products(std::uint64_t t, std::uint64_t k, std::uint64_t n, double times = 1.0) {
    gemm(t, n, k, times);
    gemm(t, k, n, times);
    gemm(k, n, t, times);
  }

  void price(const LinearShape& l) {
    const std::uint64_t q = grid_.side;
    const double x = static_cast<double>(l.tokens) * static_cast<double>(l.inputs);
    const double w = static_cast<double>(l.inputs) * static_cast<double>(l.outputs);
    const double y = static_cast<double>(l.tokens) * static_cast<double>(l.outputs);
    using Kind = Collective::Kind;
    switch (grid_.mode) {
      case TensorMode::one_d:
        if (l.by_rows) {
          three_products(l.tokens, share(l.inputs, q), l.outputs);
        } else {
          three_products(l.tokens, l.inputs, share(l.outputs, q));
        }
        communicate(Kind::all_reduce, l.by_rows ? y : x, 1, q);
        return;
      case TensorMode::two_d:
      case TensorMode::two_and_half_d: {
        const double steps = static_cast<double>(q);
        const double blocks = static_cast<double>(q * q);
        const double block_x = x / (blocks * static_cast<double>(grid_.depth));
        const double block_w = w / blocks;
        three_products(share(l.tokens, q * grid_.depth), share(l.inputs, q), share(l.outputs, q), steps);
        communicate(Kind::broadcast, block_x, 1, q, steps);  // X W: X along rows
        communicate(Kind::broadcast, block_w, q, q, steps);  //      W along columns
        communicate(Kind::broadcast, block_w, q, q, steps);  // dY W^T: W along columns,
        communicate(Kind::reduce, block_x, 1, q, steps);     //         dX summed along rows
        communicate(Kind::broadcast, block_x, 1, q, steps);  // X^T dY: X along rows,
        communicate(Kind::reduce, block_w, q, q, steps);     //         dW summed along columns
        communicate(Kind::all_reduce, block_w, q * q, grid_.depth);
        return;
      }
      case TensorMode::three_d: {
        const double gathered = static_cast<double>(q * q);
        three_products(share(l.tokens, q), share(l.inputs, q), share(l.outputs, q));
        // Weights travel over stride 1, inputs over q, outputs over q^2.
        communicate(Kind::all_gather, x / gathered, q, q);
        communicate(Kind::all_gather, w / gathered, 1, q);
        communicate(Kind::reduce_scatter, y / gathered, q * q, q);
        communicate(Kind::all_gather, y / gathered, q * q, q);
        communicate(Kind::reduce_scatter, x / gathered, q, q);
        communicate(Kind::reduce_scatter, w / gathered, 1, q);
        return;
      }
    }
  }

  /// Heads are cut over the columns of the grid, sequences over the rest.
  void attention() {
    const std::uint64_t cut_heads = grid_.side;
    const std::uint64_t cut_sequences = grid_.devices() / grid_.side;
    Kernel k;
    k.compute = DType::f16;
    k.batch = static_cast<std::uint32_t>(share(layer_.sequences, cut_sequences));
    k.heads = static_cast<std::uint32_t>(share(layer_.heads, cut_heads));
    k.kv_heads = k.heads;
    k.head_dim = static_cast<std::uint32_t>(layer_.hidden / layer_.heads);
    k.rows = k.batch * layer_.positions;
    const Bytes touched = Bytes::of(4.0 * element_bytes * static_cast<double>(k.rows) * k.heads * k.head_dim);
    k.kind = KernelKind::attention_flash_forward;
    time_.compute += kernels_.attention(k, touched);
    k.kind = KernelKind::attention_flash_backward;
    time_.compute += kernels_.attention(k, 2.0 * touched);
  }

  TensorGrid grid_;
  LayerShape layer_;
  const ClusterSpec& cluster_;
  CollectiveCost collectives_;
  KernelCost kernels_;
  TensorLayerTime time_;
};

}  // namespace

TensorLayerTime tensor_layer_time(const TensorGrid& grid, const LayerShape& layer, const ClusterSpec& cluster,
                                  const Calibration& calibration) {
  ORRERY_ASSERT(cluster.devices() >= grid.devices(), cluster.devices(), grid.devices());
  return LayerPrice(grid, layer, cluster, calibration).time();
}

}  // namespace orrery
