#pragma once

#include "core/program/lower/block_builder.hpp"
#include "core/program/lower/context.hpp"

namespace orrery::lowering {

/// Blocks of one transformer layer, of the embedding and of the head, with
/// their tensor-parallel collectives (Megatron's 1D: column then row; Shoeybi et
/// al. 2019), and with sequence parallelism (Korthikanti et al. 2022) where the
/// plan asks for it.
///
/// The residual stream "hidden" enters a layer as (hidden, 0) and leaves as
/// (hidden, +1); its gradient is one buffer per microbatch, updated in place.
struct ModelBlocks {
  BlockId embedding_forward{}, embedding_backward{};
  BlockId layer_forward{}, layer_backward{};
  BlockId head_forward{}, head_backward{};
  BufferId hidden{}, hidden_gradient{};
};

[[nodiscard]] ModelBlocks build_tensor_1d(Context&);

/// The parts of build_tensor_1d that have their own files.
struct Stream {
  BufferId hidden{}, gradient{};
};
void build_layer(Context&, const Stream&, ModelBlocks&);
void build_embedding(Context&, const Stream&, ModelBlocks&);
void build_head(Context&, const Stream&, ModelBlocks&);

/// A norm's kernels and operands, for layers and head alike.
struct NormSite {
  const Module* module;
  const char* weight;
  const char* bias;  ///< layer norm only
};
void norm_forward(const Context&, BlockBuilder&, Pass, const NormSite&, Operand x, Operand y, Operand stats);
/// Adds the input gradient to `dx` and the weight gradients to the module's.
void norm_backward(const Context&, BlockBuilder&, const NormSite&, Operand dy, Operand x, Operand stats, Operand dx);

/// The weights (read) or gradients (accumulate) of one parameter.
[[nodiscard]] Operand weight_of(const Context&, const Module&, std::string_view slice);
[[nodiscard]] Operand gradient_of(const Context&, const Module&, std::string_view slice);

inline constexpr std::uint8_t tensor_lane = static_cast<std::uint8_t>(Axis::tensor);

}  // namespace orrery::lowering
