#pragma once

#include <cstddef>
#include <vector>

namespace orrery {

/// The Pareto front of points whose figures are better where they are less: the places, ascending, of the points that
/// no other betters, which is at least as good in all figures and better in one. Equal points are all on it. Requires
/// equally many figures of each point, and none that is no number.
[[nodiscard]] std::vector<std::size_t> pareto_front(const std::vector<std::vector<double>>& points);

}  // namespace orrery
