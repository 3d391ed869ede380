#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/launch/shell_values.hpp"

namespace orrery {

/// What is known of a condition that is not run.
enum class ShellTruth : std::uint8_t { no, yes, open };

[[nodiscard]] ShellTruth shell_truth(bool);
[[nodiscard]] ShellTruth negated(ShellTruth);
[[nodiscard]] ShellTruth both(ShellTruth, ShellTruth);
[[nodiscard]] ShellTruth either(ShellTruth, ShellTruth);

/// Whether a text is of a pattern with * and ?, as `case` and [[ have them.
[[nodiscard]] bool matches_shell_pattern(std::string_view text, std::string_view pattern);

/// What stands between "[" or "[[" and its end, a && -a || -o apart: "a = b", "-n a", "! 1 -lt 2".
[[nodiscard]] ShellTruth shell_comparison(std::vector<ShellText>);

}  // namespace orrery
