#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"

namespace orrery {

/// Moments in fp8 and fp16 are kept in blocks of this many neighbours, as multiples of a scale that makes the largest
/// of a block the type's largest number. Each block has two f32 scales, one for the first and one for the second
/// moment.
///
/// Blocks begin where an update's operands begin, and the last may be shorter, so ranks need not agree on anything
/// before they round. Block-wise scales: Dettmers et al., "8-bit optimizers via block-wise quantization", ICLR 2022.
inline constexpr std::uint64_t moment_block = 128;

/// The number of scales of `count` parameters that are updated together.
[[nodiscard]] constexpr std::uint64_t moment_scales(std::uint64_t count) {
  return 2 * ((count + moment_block - 1) / moment_block);
}

/// The value that a scale gives to the largest number of its block.
[[nodiscard]] constexpr double largest_of(DType type) { return type == DType::f8 ? 448.0 : 65504.0; }

}  // namespace orrery
