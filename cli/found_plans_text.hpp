#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "planner/search.hpp"

namespace orrery {

/// How many of the found plans are shown.
struct TableSize {
  std::size_t columns = 80;
  std::size_t most_plans = 3;
  bool all_rows = false;  ///< every decision and figure
};

/// The plans that a search found, best first. It shows side by side what each decides and what is predicted for it, a
/// line for each of the others that says why it loses, and the memory of the best plan's stages.
[[nodiscard]] std::string found_plans_text(const std::vector<FoundPlan>&, const Workload&, const TableSize&);

}  // namespace orrery
