#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace orrery {

/// CRC-32 of ISO 3309, as zlib and gzip have it, of `bytes` behind what gave `start`.
///
/// Of two texts of one length that differ in no more than 32 neighbouring bits
/// it is never the same (Peterson and Brown, "Cyclic codes for error
/// detection", Proc. IRE 49(1), 1961), whatever byte was damaged: a stronger
/// promise for what disks do than a longer hash, which only makes it unlikely.
[[nodiscard]] std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t start = 0);

}  // namespace orrery
