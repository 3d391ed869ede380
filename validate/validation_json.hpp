#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "validate/validation.hpp"

namespace orrery {

/// A validation as other programs read it (docs/validate.md): times in
/// seconds, memory in bytes, errors in percent.
[[nodiscard]] nlohmann::ordered_json to_json(const Validation&, std::optional<GroupBy>);

}  // namespace orrery
