#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"

namespace orrery {

/// Moments in 8 and 16 bits with scales are kept in blocks of neighbours: 256 of them for codes of a dynamic map (u8,
/// exec/kernels/dynamic_map.hpp), 128 for f8 and f16. A stored number is a multiple of its block's scale, which makes
/// the largest of the block the type's largest number. Each block has two f32 scales, one for the first and one for
/// the second moment.
///
/// Blocks begin where an update's operands begin, and the last may be shorter, so ranks need not agree on anything
/// before they round. Block-wise scales, and blocks of 256 in the library: Dettmers et al., "8-bit optimizers via
/// block-wise quantization", ICLR 2022; bitsandbytes.
[[nodiscard]] constexpr std::uint64_t moment_block(DType type) { return type == DType::u8 ? 256 : 128; }

/// The longest of these blocks.
inline constexpr std::uint64_t longest_moment_block = 256;

/// The number of scales of `count` parameters that are updated together, in blocks of `block`.
[[nodiscard]] constexpr std::uint64_t moment_scales(std::uint64_t count, std::uint64_t block) {
  return block == 0 ? 0 : 2 * ((count + block - 1) / block);
}

/// The value that a scale gives to the largest number of its block; the codes' largest is 1.
[[nodiscard]] constexpr double largest_of(DType type) {
  return type == DType::u8 ? 1.0 : type == DType::f8 ? 448.0 : 65504.0;
}

}  // namespace orrery
