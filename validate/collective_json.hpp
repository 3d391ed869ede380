#pragma once

#include <nlohmann/json_fwd.hpp>

#include "validate/collective_validation.hpp"

namespace orrery {

/// The comparison as JSON; docs/validate.md names its keys.
[[nodiscard]] nlohmann::ordered_json to_json(const CollectiveValidation&);

}  // namespace orrery
