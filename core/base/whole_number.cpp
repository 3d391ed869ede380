#include "core/base/whole_number.hpp"

#include <charconv>

namespace orrery {

std::optional<std::uint64_t> whole_number(std::string_view text) {
  unsigned shift = 0;
  if (text.ends_with('k') || text.ends_with('K')) shift = 10;
  if (text.ends_with('M')) shift = 20;
  if (shift > 0) text.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr std::uint64_t limit = std::uint64_t{1} << 63;
  if (failure != std::errc{} || end != text.data() + text.size() || value >= limit >> shift) return std::nullopt;
  return value << shift;
}

}  // namespace orrery
