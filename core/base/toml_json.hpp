#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace orrery {

/// A TOML text that one of our writers made, as JSON: tables as objects in the order of the file, quantities as the
/// texts that they are ("80 GiB"). JSON output therefore has every key of the file, whatever keys are added later.
[[nodiscard]] nlohmann::ordered_json json_of_toml(const std::string& text);

}  // namespace orrery
