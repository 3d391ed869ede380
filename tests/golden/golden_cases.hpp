#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"

namespace orrery::test {

/// Plans whose Programs stand as text under tests/golden/lowered: one per
/// feature that shapes the list, as small as it can be.
struct GoldenCase {
  std::string name;
  PlannedRun run;
};

[[nodiscard]] std::vector<GoldenCase> golden_cases();
[[nodiscard]] std::string golden_path(const GoldenCase&);

}  // namespace orrery::test
