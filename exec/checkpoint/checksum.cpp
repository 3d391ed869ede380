#include "exec/checkpoint/checksum.hpp"

#include <zlib.h>

namespace orrery {

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t start) {
  if (bytes.empty()) return start;
  return static_cast<std::uint32_t>(::crc32_z(start, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace orrery
