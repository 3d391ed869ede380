#include "core/spec/adapter_names.hpp"

#include <algorithm>

#include "core/spec/adapters.hpp"

namespace orrery {

std::optional<std::uint8_t> matrices_named(const std::vector<std::string>& names, std::string& unknown) {
  std::uint8_t bits = 0;
  for (const std::string& name : names) {
    const auto found = std::find_if(adapted_matrices.begin(), adapted_matrices.end(),
                                    [&](AdaptedMatrix m) { return name_of(m) == name; });
    if (name == "all") {
      bits = Adapters::all_matrices;
    } else if (found != adapted_matrices.end()) {
      bits = static_cast<std::uint8_t>(bits | Adapters::bit(*found));
    } else {
      unknown = name;
      return std::nullopt;
    }
  }
  if (bits == 0) return std::nullopt;
  return bits;
}

std::optional<std::uint8_t> matrices_listed(std::string_view list, std::string& unknown) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view word = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    names.emplace_back(word);
  }
  return matrices_named(names, unknown);
}

std::string matrices_help() { return "The matrices are q, k, v, o, gate, up and down; all stands for all of them."; }

}  // namespace orrery
