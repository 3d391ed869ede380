#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
/// Only the first 64 bytes of each are looked at.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// Up to `most` of the candidates, nearest first, equal distances in order of the alphabet. Candidates that share less
/// than half of their letters are left out. Capitals, '-', '_', '.' and spaces do not count, and a name without its end
/// is one edit away: "GPT-3" is near "gpt3-175b".
[[nodiscard]] std::vector<std::string> nearest(std::string_view name, std::vector<std::string> candidates,
                                               std::size_t most = 3);

}  // namespace orrery
