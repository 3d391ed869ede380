#include "core/base/nearest.hpp"

#include <algorithm>
#include <array>

namespace orrery {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t most = 64;
  a = a.substr(0, most);
  b = b.substr(0, most);
  // Three rows of the table of prefixes; a swap looks two rows back.
  std::array<std::array<std::size_t, most + 1>, 3> rows{};
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    const auto& before = rows[(i + 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

namespace {

/// In small letters, without the signs that people leave out or put elsewhere: "gpt-3" becomes "gpt3".
std::string plain(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == '.' || c == ' ') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

/// The distance of two plain names.  A name that only lacks its end ("llama"
/// for "llama38b") is near too.
std::size_t distance_of(const std::string& a, const std::string& b) {
  if (a == b) return 0;
  const bool prefix = std::min(a.size(), b.size()) >= 2 && (b.starts_with(a) || a.starts_with(b));
  return prefix ? 1 : edit_distance(a, b);
}

}  // namespace

std::vector<std::string> nearest(std::string_view name, std::vector<std::string> candidates, std::size_t most) {
  const std::string wanted = plain(name);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (std::string& c : candidates) {
    const std::string known = plain(c);
    const std::size_t distance = distance_of(wanted, known);
    if (2 * distance <= std::max(wanted.size(), known.size())) ranked.emplace_back(distance, std::move(c));
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> out;
  for (auto& [distance, c] : ranked) {
    if (out.size() == most) break;
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace orrery
