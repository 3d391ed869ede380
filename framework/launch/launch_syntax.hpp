#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/launch/launch_value.hpp"

namespace orrery {

/// The syntax of a launch file, by the ending of its name, else by its text: a brace begins JSON; a "[table]" line or a
/// "key = value" line is TOML; "#!", a line that begins with "--" or "export", and "NAME=value" are a script; the rest
/// is YAML.
[[nodiscard]] LaunchSyntax launch_syntax_of(const std::string& text, const std::string& file);

/// The values of a JSON text whose root is a table; empty where it is none.
[[nodiscard]] std::optional<std::vector<LaunchValue>> parse_launch_json(std::string_view text);

}  // namespace orrery
