#pragma once

#include <optional>
#include <string>

#include "core/program/lower/draft.hpp"
#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// One matrix product of a layer or the head and its two gradients, on the
/// sizes of one rank:  y[rows, out] = x[rows, in] W (+ bias).
struct Product {
  const Module* module;
  const char* weight;          ///< slice; stored [in, out], or [out, in] where `transposed`
  const char* bias = nullptr;  ///< slice, or none
  std::uint64_t in, out;
  bool widens;              ///< takes the residual stream; else gives it
  bool transposed = false;  ///< the head, whose matrix is stored like the word table
  Scope scope = Scope::layer_microbatch;
  std::uint64_t rows = 0;  ///< rows on a rank; 0: all tokens
  /// Where these rows begin in the buffer of x (1D alone). That of y has no others.
  std::uint64_t first = 0;
  /// The product, or its input gradient, is added to what another has made: branches side by side (1D alone).
  bool adds = false;
  /// The buffer that holds the weight, and nothing else, while the product runs; without it the module's does (1D
  /// alone).
  BufferId brought = no_buffer;
};

/// A norm's kernels and operands, for layers and head alike.
struct NormSite {
  const Module* module;
  const char* weight;
  const char* bias;  ///< layer norm only
  const char* name;  ///< of its workspaces
  Scope scope = Scope::layer_microbatch;
  std::int8_t layer_shift = 0;  ///< to the layer that has the parameters
};

/// Whether the model's norms have a gamma, and whether they have a beta too.
[[nodiscard]] inline bool norms_shift(const ModelSpec& m) {
  return m.norm_weight && m.norm_bias && m.norm == Norm::layer_norm;
}
/// Whether each word, or class, has a bias in the head.
[[nodiscard]] inline bool has_head_bias(const ModelSpec& m) {
  if (m.architecture == Architecture::vit) return m.image->head_bias;
  return m.architecture == Architecture::bert || m.biases.head;
}
/// Says in the kernel which parameters the norm has.
void note_norm_parameters(const ModelSpec&, Kernel&);
[[nodiscard]] Operand norm_gamma(const State&, const NormSite&);
/// Its gamma and beta, where it has them, or their gradients.
void add_norm_weights(const State&, const NormSite&, OperandArray&);
void add_norm_gradients(const State&, const NormSite&, OperandArray&);
/// Whether the gradient of its gamma lies in the memory of the weights.
[[nodiscard]] bool shares_gradient(const State&, const NormSite&);

/// The activation of a feed-forward layer so wide, with its limit; the backward one with Pass::input_gradient.
[[nodiscard]] Kernel activation_kernel(const State&, Pass, std::uint64_t rows, std::uint64_t width);

/// A tensor-parallel algorithm: what its axes cut, and what ranks do where a single device has a matrix product, a norm
/// or a word table.
///
/// tensor_1d_*.cpp write the compute order of embedding, layer and head once,
/// in these terms; authors of an algorithm add a class and a line in
/// tensor_sharding (docs/tensor-algorithms.md).
class TensorSharding {
 public:
  TensorSharding() = default;
  TensorSharding(const TensorSharding&) = delete;
  TensorSharding& operator=(const TensorSharding&) = delete;
  virtual ~TensorSharding() = default;

  [[nodiscard]] virtual TensorLayout layout() const = 0;

  virtual void forward(State&, BlockBuilder&, const Product&, BufferId x, BufferId y) const = 0;
  /// dx = dy W^T, without the sum over ranks that 1D leaves to its caller.
  virtual void input_gradient(State&, BlockBuilder&, const Product&, Operand dy, BufferId dx) const = 0;
  /// dW += x^T dy
  virtual void weight_gradient(State&, BlockBuilder&, const Product&, BufferId x, Operand dy) const = 0;

  /// y = norm(x) of the residual stream.
  virtual void norm_forward(State&, BlockBuilder&, const NormSite&, Operand x, Operand y, Operand stats) const = 0;
  /// Adds the weight gradients to the module's and the input gradient to `dx`, or
  /// (1D alone) writes its sum with `residual` there.
  virtual void norm_backward(State&, BlockBuilder&, const NormSite&, Operand dy, Operand x, Operand stats, Operand dx,
                             std::optional<Operand> residual) const = 0;

  /// x = the words' rows of the table. x is whole. `tokens` and x are this rank's.
  virtual void embed_forward(State&, BlockBuilder&, BufferId tokens, BufferId x) const = 0;
  virtual void embed_backward(State&, BlockBuilder&, BufferId tokens, BufferId dx) const = 0;
};

// Each in its own file.
[[nodiscard]] const TensorSharding& tensor_1d();
[[nodiscard]] const TensorSharding& tensor_2d();
[[nodiscard]] const TensorSharding& tensor_2_5d();
[[nodiscard]] const TensorSharding& tensor_3d();

[[nodiscard]] const TensorSharding& tensor_sharding(TensorAlgorithm);

/// The weights (read) or gradients (accumulate) of one parameter.
[[nodiscard]] Operand weight_of(const State&, const Module&, std::string_view slice);
[[nodiscard]] Operand gradient_of(const State&, const Module&, std::string_view slice);

/// A flat buffer of its own; `name` is told apart by the caller.
[[nodiscard]] BufferId flat_buffer(State&, std::string name, Role, Scope, DType, std::uint64_t count);

/// Type of a product's arithmetic. The head's is that of its operands, because a loss would suffer in fp8.
[[nodiscard]] inline DType compute_type(const State& s, const Product& p) { return p.transposed ? s.act : s.product; }

/// Rows of x and y on one rank.
[[nodiscard]] inline std::uint64_t rows_of(const State& s, const Product& p) { return p.rows > 0 ? p.rows : s.tokens; }

/// "ffn.up" of "ffn.up.weight": how workspaces of a product are named.
[[nodiscard]] std::string stem(const Product&);

}  // namespace orrery::lowering
