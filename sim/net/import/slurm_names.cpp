#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "sim/net/import/slurm_switches.hpp"

namespace orrery::importing {
namespace {

constexpr std::size_t most_names = 65536;

}  // namespace

std::optional<std::vector<std::string>> slurm_names(std::string_view text, Position where, Source& source) {
  std::vector<std::string> out;
  const auto wrong = [&](const char* what) {
    source.error(where, "import.hostlist", fmt::format("the list \"{}\" cannot be read", brief(text)),
                 {what, "n[0-3,7],m1 would be right."});
    return std::nullopt;
  };
  for (std::size_t i = 0; i < text.size();) {
    std::string prefix;
    while (i < text.size() && text[i] != '[' && text[i] != ',' && text[i] != ']') prefix += text[i++];
    if (i == text.size() || text[i] == ',') {
      if (prefix.empty()) return wrong("A name is empty.");
      out.push_back(prefix);
      ++i;
      continue;
    }
    const std::size_t end = text.find(']', i);
    if (text[i] == ']' || end == std::string_view::npos) return wrong("A bracket has no other one.");
    std::string_view ranges = text.substr(i + 1, end - i - 1);
    i = end + 1;
    std::string suffix;
    while (i < text.size() && text[i] != ',' && text[i] != '[') suffix += text[i++];
    if (i < text.size() && text[i] == '[') return wrong("Lists in two brackets of one name are not read.");
    ++i;
    while (!ranges.empty()) {
      const std::size_t comma = std::min(ranges.find(','), ranges.size());
      const std::string_view range = ranges.substr(0, comma);
      ranges.remove_prefix(std::min(comma + 1, ranges.size()));
      const std::size_t dash = std::min(range.find('-'), range.size());
      const std::string_view low = range.substr(0, dash), high = dash < range.size() ? range.substr(dash + 1) : low;
      const auto digits = [](std::string_view t) {
        return !t.empty() && t.size() < 8 &&
               std::all_of(t.begin(), t.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
      };
      if (!digits(low) || !digits(high)) return wrong("A range is not two numbers.");
      const unsigned long first = std::stoul(std::string(low)), last = std::stoul(std::string(high));
      if (first > last) return wrong("A range runs downwards.");
      if (last - first + out.size() > most_names) return wrong("It has more than 65,536 names.");
      for (unsigned long n = first; n <= last; ++n) {
        out.push_back(fmt::format("{}{:0{}}{}", prefix, n, low.size(), suffix));
      }
    }
  }
  return out;
}

}  // namespace orrery::importing
