#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/study/study.hpp"

namespace orrery {

/// A study with every figure as it is printed ("text") and, where it is one,
/// as a number ("value"); keys as in StudyResult.
[[nodiscard]] nlohmann::ordered_json to_json(const StudyResult&);

}  // namespace orrery
