#pragma once

#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {

/// The table of a matrix that is kept in few bits: "base.attention.qkv" of "attention.qkv.weight".
[[nodiscard]] std::string base_module(std::string_view weight);

/// Setup: the matrix, which lies in full where its product finds it, in few bits.
void quantize_base(const State&, BlockBuilder&, const BaseMatrix&);

/// Brings the weight of a product back in full, into memory that lives until the product has run, and says so in the
/// product. Does nothing where the weight is there in full anyway. The pass (forward, or input_gradient) says for which
/// of the two products that read it.
[[nodiscard]] Product with_full_weight(const State&, BlockBuilder&, const Product&, Pass);

}  // namespace orrery::lowering
