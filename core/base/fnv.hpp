#pragma once

#include <cstdint>
#include <string_view>

namespace orrery {

/// FNV-1a, 64 bits (Fowler, Noll and Vo; RFC 9923): the same number for the same bytes on every machine. `before` is
/// the hash of the text that comes before, so fnv1a(b, fnv1a(a)) is the hash of a followed by b.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t before = 0xcbf29ce484222325ULL) {
  for (const char c : text) before = (before ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return before;
}

}  // namespace orrery
