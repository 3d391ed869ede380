#include "core/base/pareto_front.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace orrery {

std::vector<std::size_t> pareto_front(const std::vector<std::vector<double>>& points) {
  // A better point then stands before each one that it betters.
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return points[a] < points[b]; });
  std::vector<std::size_t> front;
  for (const std::size_t place : order) {
    const std::vector<double>& point = points[place];
    const bool bettered = std::any_of(front.begin(), front.end(), [&](std::size_t other) {
      return points[other] != point &&
             std::equal(points[other].begin(), points[other].end(), point.begin(), std::less_equal<>());
    });
    if (!bettered) front.push_back(place);
  }
  std::sort(front.begin(), front.end());
  return front;
}

}  // namespace orrery
