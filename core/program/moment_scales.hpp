#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"

namespace orrery {

/// Moments in fp8 and fp16 are multiples of a scale for each block of so many
/// neighbours, the largest of which is the type's largest number: two f32 scales
/// for each block, of the first and of the second moment.
///
/// Blocks begin where an update's operands begin and the last may be shorter, so
/// that ranks agree on nothing before they round.  Block-wise scales: Dettmers et
/// al., "8-bit optimizers via block-wise quantization", ICLR 2022.
inline constexpr std::uint64_t moment_block = 128;

/// Scales of `count` parameters that are updated together.
[[nodiscard]] constexpr std::uint64_t moment_scales(std::uint64_t count) {
  return 2 * ((count + moment_block - 1) / moment_block);
}

/// What a scale makes of the largest of its block.
[[nodiscard]] constexpr double largest_of(DType type) { return type == DType::f8 ? 448.0 : 65504.0; }

}  // namespace orrery
