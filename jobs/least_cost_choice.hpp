#pragma once

#include <cstdint>
#include <vector>

namespace orrery {

/// A thing to choose: what it takes, and what it costs.
struct CostedChoice {
  std::uint32_t takes = 0;
  std::int64_t cost = 0;
};

/// One choice of each list, so that what they take is at most `room` and their cost is least: a multiple-choice
/// knapsack, exact by dynamic programming in O(choices x room). Of equal choices in a list the
/// earlier is taken; ties between lists are settled from the last list to the first. Requires a choice in each list
/// that takes nothing. Returns the index in each list.
[[nodiscard]] std::vector<std::uint32_t> least_cost_choice(const std::vector<std::vector<CostedChoice>>&,
                                                           std::uint32_t room);

}  // namespace orrery
