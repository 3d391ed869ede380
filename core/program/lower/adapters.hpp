#pragma once

#include <vector>

#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {

/// The products of a layer, each with the adapter beside it, where the workload trains adapters. Otherwise they are the
/// products of the tensor algorithm, and nothing else.
///
///     u  = x A                       du = s dy B^T         s = alpha / r
///     y  = x W + s u B               dx = dy W^T + du A^T
///     dA += x^T du                   dB += s u^T dy        W has no gradient
///
/// One A serves the matrices that stand side by side in a product (queries, keys and values; gate and up): it has r
/// columns for each. Under tensor parallelism the factor that meets the residual stream is whole on every rank (A where
/// the product widens, B where it narrows), and the other is cut as the product is (B by columns, A by rows). Then du,
/// or u, is a part of a sum over the tensor axis, and so is the gradient of the whole factor. dx, or y,
/// takes such a part along in the sum that the layer makes of it anyway. Source: huggingface/peft,
/// src/peft/tuners/lora/tp_layer.py, which cuts the factors so.
class AdaptedProducts {
 public:
  /// Declares the narrow vectors of each adapted product. They have as many rows as the product of the frozen weights.
  explicit AdaptedProducts(State&);

  void forward(BlockBuilder&, const Product&, BufferId x, BufferId y) const;
  void input_gradient(BlockBuilder&, const Product&, Operand dy, BufferId dx) const;
  /// Makes the gradients of both factors from what input_gradient has made.
  void weight_gradient(BlockBuilder&, const Product&, BufferId x, Operand dy) const;
  /// Whether weight_gradient reads x.
  [[nodiscard]] bool takes_input_again(const Product&) const;

 private:
  struct Narrow {
    const char* weight;  ///< of the product
    BufferId u{}, du{};
  };
  [[nodiscard]] const Narrow* beside(const Product&) const;

  State& c_;
  std::vector<Narrow> narrow_;
};

/// The matrices in a product, which is named by its weight.
struct ProductMatrices {
  std::vector<AdaptedMatrix> of;    ///< in the order of a block's members
  std::uint64_t blocks = 1;         ///< on one rank
  std::uint64_t first_members = 1;  ///< of the first matrix in a block
  std::uint64_t width = 0;          ///< of a member, on one rank
};
[[nodiscard]] ProductMatrices matrices_in(const State&, std::string_view weight);
/// Bits of those that have an adapter, by their place.
[[nodiscard]] std::uint8_t adapted_in(const State&, const ProductMatrices&);

/// The products of a dense layer, by their weights.
inline constexpr const char* layer_products[] = {"attention.qkv.weight", "attention.out.weight", "ffn.up.weight",
                                                 "ffn.down.weight"};

/// "attention.qkv.adapter.a" beside "attention.qkv.weight".
[[nodiscard]] std::string adapter_slice(std::string_view weight, char factor);

}  // namespace orrery::lowering
