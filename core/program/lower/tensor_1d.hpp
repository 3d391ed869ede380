#pragma once

#include "core/program/lower/draft.hpp"
#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Megatron's 1D tensor parallelism (column then row; Shoeybi et al. 2019), and
/// sequence parallelism (Korthikanti et al. 2022) where the plan asks for it:
/// forward and backward blocks of the embedding, of one layer and of the head,
/// with compute on local shapes and a seam wherever a tensor's layout changes.
///
/// The residual stream "hidden" enters a layer as (hidden, 0) and leaves as
/// (hidden, +1); its gradient is one buffer per microbatch, updated in place.
void build_tensor_1d(State&);

/// The parts of build_tensor_1d that have their own files.
void build_layer(State&);
void build_embedding(State&);
void build_head(State&);

/// A norm's kernels and operands, for layers and head alike.
struct NormSite {
  const Module* module;
  const char* weight;
  const char* bias;  ///< layer norm only
};
void norm_forward(const State&, BlockBuilder&, const NormSite&, Operand x, Operand y, Operand stats);
/// Adds the input gradient to `dx` and the weight gradients to the module's.
void norm_backward(const State&, BlockBuilder&, const NormSite&, Operand dy, Operand x, Operand stats, Operand dx);

/// The weights (read) or gradients (accumulate) of one parameter.
[[nodiscard]] Operand weight_of(const State&, const Module&, std::string_view slice);
[[nodiscard]] Operand gradient_of(const State&, const Module&, std::string_view slice);

}  // namespace orrery::lowering
