#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

// Closed forms of tensor parallelism: what the four published ways to cut a
// linear layer Y[T, N] = X[T, K] W[K, N] move and keep, forward and backward.
// Counts are elements received, summed over all devices, when every collective
// moves the least that it can (a ring, a pipelined broadcast); they are exact
// whole numbers, so a Program's counts can be held to them without tolerance.
// Bytes, latencies and overlap are not in them.

/// The ways to cut a linear layer over p devices.
///   one_d           p columns, then p rows (Shoeybi et al., Megatron-LM, 2019)
///   two_d           q x q blocks, p = q^2: SUMMA (Xu et al., Optimus, arXiv 2104.05343)
///   two_and_half_d  d copies of a q x q grid, p = d q^2 (Wang et al., Tesseract, arXiv 2105.14500)
///   three_d         q x q x q, p = q^3 (Bian et al., arXiv 2105.14450)
enum class TensorMode : std::uint8_t { one_d, two_d, two_and_half_d, three_d };
[[nodiscard]] std::string_view name_of(TensorMode);  ///< "1D", "2D", "2.5D", "3D"

/// A grid of devices of one mode.
struct TensorGrid {
  TensorMode mode = TensorMode::one_d;
  std::uint64_t side = 1;   ///< q; the p devices themselves in 1D
  std::uint64_t depth = 1;  ///< d; 1 but in 2.5D

  [[nodiscard]] std::uint64_t devices() const;
  friend bool operator==(const TensorGrid&, const TensorGrid&) = default;
};

/// The grid of `mode` on `devices`: 2D needs a square, 3D a cube; 2.5D takes
/// the largest depth d <= q with d q^2 devices (d = q moves no more than any
/// smaller d while T is large against K; d = 1 is 2D).  Empty where there is none.
[[nodiscard]] std::optional<TensorGrid> tensor_grid(TensorMode, std::uint64_t devices);

/// X[tokens, inputs] W[inputs, outputs].
struct LinearShape {
  std::uint64_t tokens = 0;
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
  /// 1D: cut by rows (its output is summed) rather than by columns (its input's gradient is).
  bool by_rows = false;
};

/// Elements received by all devices in each of the three products of a linear layer.
struct TensorVolume {
  std::uint64_t forward = 0;
  std::uint64_t input_gradient = 0;
  std::uint64_t weight_gradient = 0;
  std::uint64_t depth = 0;  ///< 2.5D: summing the weight gradient over the copies

  [[nodiscard]] std::uint64_t total() const { return forward + input_gradient + weight_gradient + depth; }
  friend bool operator==(const TensorVolume&, const TensorVolume&) = default;
  friend TensorVolume operator+(const TensorVolume& a, const TensorVolume& b) {
    return {a.forward + b.forward, a.input_gradient + b.input_gradient, a.weight_gradient + b.weight_gradient,
            a.depth + b.depth};
  }
};

/// Volume of one linear layer.
///
///     1D    2 (p - 1) S_X by columns (backward), 2 (p - 1) S_Y by rows (forward)
///     2D    (q - 1) (S_X + S_W)                       in each of three products
///     2.5D  (q - 1) (S_X + d S_W)                     in each, and 2 (d - 1) S_W over the depth
///     3D    (q - 1) (S_X + S_W + S_Y)                 forward; the same backward
///
///     S_X = T K, S_W = K N, S_Y = T N     p, q, d  as in TensorGrid
///
/// In 3D's backward pass the weight's share (q - 1) S_W counts to the weight
/// gradient, the rest to the input gradient; the gathered input and weight are
/// taken as kept (see LayerActivations::gathered).
/// Source: derived from the block moves of the papers at TensorMode.  Leaves
/// out biases, and the norms, embedding and loss around the layer.
[[nodiscard]] TensorVolume linear_volume(const TensorGrid&, const LinearShape&);

/// Volume of the four linear layers of a transformer layer of width h and T
/// tokens: h -> 3h, h -> h, h -> 4h, 4h -> h.
///
///     1D    8 (p - 1) T h
///     2D    3 (q - 1) (7 T h + 12 h^2)
///     2.5D  3 (q - 1) (7 T h + 12 d h^2) + 24 (d - 1) h^2
///     3D    2 (q - 1) (16 T h + 12 h^2)
///
/// Source: linear_volume, summed.  1D moves the narrow side of each pair only,
/// the others also the 4h-wide one: the fair comparison is by layer.
[[nodiscard]] TensorVolume layer_volume(const TensorGrid&, std::uint64_t tokens, std::uint64_t hidden);

/// Collectives that one linear layer waits for, forward and backward: 1 in 1D,
/// 6 q in 2D and 2.5D (one more over the depth), 6 in 3D.
[[nodiscard]] std::uint64_t linear_collectives(const TensorGrid&);

/// Elements that each device holds of one linear layer.  Whole numbers where
/// the grid divides the three sizes.
struct LinearMemory {
  std::uint64_t weights = 0;
  std::uint64_t saved_input = 0;       ///< X for the backward pass, as the mode cuts it
  std::uint64_t gathered_input = 0;    ///< 3D, when gathered X is kept in place of its shard; else saved_input
  std::uint64_t gathered_weights = 0;  ///< 3D, the gathered W that is kept beside it; else 0
  std::uint64_t panels = 0;            ///< copies of blocks that one product works on: 2D and 2.5D two of each, 3D the
                                       ///< gathered X and W and the product before it is scattered
  friend bool operator==(const LinearMemory&, const LinearMemory&) = default;
};

/// Memory of one linear layer on one device.
///
///                    weights      saved input                         panels, forward
///     1D             S_W / p      S_X by columns, S_X / p by rows     none
///     2D             S_W / q^2    S_X / q^2                           2 (S_X + S_W) / q^2
///     2.5D           S_W / q^2    S_X / (d q^2)                       2 (S_X / d + S_W) / q^2
///     3D             S_W / q^3    S_X / q^3                           (S_X + S_W + S_Y) / q^2
///     3D, gathered   S_W / q^3    S_X / q^2, and S_W / q^2            the same
///
/// Source: derived from the layouts of the papers at TensorMode; panels double
/// buffered, so that the next step's broadcasts run beside a product.
[[nodiscard]] LinearMemory linear_memory(const TensorGrid&, const LinearShape&);

/// A transformer layer's shape, for its activations.
struct LayerShape {
  std::uint64_t sequences = 1;  ///< of a microbatch
  std::uint64_t positions = 1;
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;
};

/// Bytes that one layer keeps on each device for its backward pass.
struct LayerActivations {
  double saved = 0.0;     ///< shards where the mode cuts all tensors
  double gathered = 0.0;  ///< 3D, when the gathered inputs and weights are kept in place of their shards
};

/// Saved activations of a layer, 16 bits, one byte for each dropout mask, unfused attention.
///
///     1D                s b h (10 + 24 / p + 5 a s / (h p))
///     2D, 2.5D, 3D      s b h (34 + 5 a s / h) / p
///     3D, gathered      s b h (20 + 5 a s / h) / p + (14 s b h + 24 h^2) / q^2
///
/// Source: 1D, Korthikanti et al., "Reducing activation recomputation in large
/// transformer models", MLSys 2023; the others derived from it: every tensor is
/// cut p ways.  Leaves out SUMMA's panels and what lies outside the layers.
[[nodiscard]] LayerActivations layer_activations(const TensorGrid&, const LayerShape&);

}  // namespace orrery
