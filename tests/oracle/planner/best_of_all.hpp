#pragma once

#include <cstddef>
#include <optional>

#include "core/plan/plan.hpp"
#include "sim/cost/cost_model.hpp"
#include "tests/oracle/planner/small_space.hpp"

namespace orrery::test {

struct BestOfAll {
  std::optional<Plan> plan;  ///< empty: none fits
  Picoseconds step = 0;
  std::size_t valid = 0, fitting = 0;
};
/// The shortest estimated step of all plans of the space that fit. Where a plan fits with all layers recomputed but not
/// with none, it looks for the fewest, one layer after another.
[[nodiscard]] BestOfAll best_of_all(const SmallSpace&);

}  // namespace orrery::test
