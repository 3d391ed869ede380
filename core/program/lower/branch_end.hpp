#pragma once

#include <optional>

#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {

/// The end of a branch of a layer, from its last product to the stream, and the way back:
///
///     stream' = stream + scale dropout(gamma norm(sum over tensor ranks + bias))
///
/// norm, bias, scale and dropout where the model or the workload has them, and gamma, a weight for each feature, in
/// place of the norm.  Some buffers stand for each other where a
/// step has nothing to do.
struct BranchEnd {
  BufferId out{};   ///< what the last product gives on this rank
  BufferId part{};  ///< its sum, cut by positions: with sequence parallelism
  BufferId mask{};  ///< of dropout
  BufferId normed{}, stats{};
  BufferId dropped{};          ///< gradient before dropout and scale
  BufferId normed_gradient{};  ///< gradient before the norm
  BufferId whole{};            ///< gradient of all positions: with sequence parallelism
  std::optional<NormSite> norm;
  const char* gamma = nullptr;  ///< slice of the weights of features; its result and gradient are those of the norm
  std::uint8_t site = 0;        ///< of dropout
  std::optional<RecomputeModule> module;  ///< which makes the sum again, with the branch
  bool summed = false;                    ///< the branch itself leaves `part`, and its way back takes the gradient so
};

/// Slices of biases that a branch adds; none where null.  Branches side by side end as one, with two of them.
struct BranchBiases {
  const char* of[2] = {};
};

class BranchEnds {
 public:
  explicit BranchEnds(State& c) : c_(c) {}
  /// Sum of every tensor rank's partial products, whole or cut by positions.
  BufferId summed(BlockBuilder&, BufferId partial, BufferId part) const;
  void close(BlockBuilder&, const Module&, const BranchEnd&, const BranchBiases&, Operand residual, Operand out) const;
  /// The gradient of all positions, from that of a rank's own.
  Operand gathered(BlockBuilder&, const BranchEnd&, Operand gradient) const;
  /// From the gradient of the stream behind it to that of the last product, whole.
  Operand open(BlockBuilder&, const Module&, const BranchEnd&, const BranchBiases&, Operand gradient) const;

 private:
  /// From the gradient behind the weights of features to that before them, and their own.
  Operand unscaled(BlockBuilder&, const Module&, const BranchEnd&, Operand dy) const;
  [[nodiscard]] bool drops() const { return c_.workload.hidden_dropout > 0; }
  /// A kernel of the branch with its dropout and scale.
  [[nodiscard]] Kernel kernel(KernelKind, Pass, const BranchEnd&) const;
  State& c_;
};

}  // namespace orrery::lowering
