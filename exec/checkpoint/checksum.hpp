#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace orrery {

/// CRC-32 of ISO 3309, as zlib and gzip have it, of `bytes` after the bytes that gave `start`.
///
/// Two texts of one length that differ in no more than 32 neighbouring bits never have the same one (Peterson and
/// Brown, "Cyclic codes for error detection", Proc. IRE 49(1), 1961), whatever byte was damaged. This is a stronger
/// promise against disk errors than that of a longer hash, which only makes equal values unlikely.
[[nodiscard]] std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t start = 0);

}  // namespace orrery
