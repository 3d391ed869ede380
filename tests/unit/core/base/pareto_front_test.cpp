#include "core/base/pareto_front.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace orrery;

TEST_CASE("the front has the points that no other betters", "[unit][base]") {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const std::size_t figures = 1 + random() % 3;
    std::vector<std::vector<double>> points(1 + random() % 40);
    for (std::vector<double>& point : points) {
      for (std::size_t k = 0; k < figures; ++k) point.push_back(static_cast<double>(random() % 12));
    }
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool bettered = std::any_of(points.begin(), points.end(), [&](const std::vector<double>& other) {
        bool worse = false, better = false;
        for (std::size_t k = 0; k < figures; ++k) {
          worse = worse || other[k] > points[i][k];
          better = better || other[k] < points[i][k];
        }
        return better && !worse;
      });
      if (!bettered) expected.push_back(i);
    }
    CAPTURE(round, figures);
    CHECK(pareto_front(points) == expected);
  }
  CHECK(pareto_front({}).empty());
  CHECK(pareto_front({{2.0, 1.0}, {1.0, 1.0}, {1.0, 1.0}}) == std::vector<std::size_t>{1, 2});
}
