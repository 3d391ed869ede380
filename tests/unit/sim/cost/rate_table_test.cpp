#include <catch2/catch.hpp>
#include <cmath>

#include "core/record/calibration.hpp"

using namespace orrery;

// Logarithms and exponentials lose a few units in the last place.
static bool close(double a, double b) { return std::abs(a - b) <= 1e-13 * std::abs(b); }

TEST_CASE("A rate table gives its own values at grid points", "[rate-table]") {
  const RateTable table{{{1, 8, 64}, {2, 4}}, {1, 2, 3, 4, 5, 6}};
  CHECK(close(interpolate(table, 1, 2), 1));
  CHECK(close(interpolate(table, 8, 4), 4));
  CHECK(close(interpolate(table, 64, 2), 5));
  CHECK(close(interpolate(table, 64, 4), 6));
}

TEST_CASE("A rate table follows power laws between grid points exactly", "[rate-table]") {
  // f(x, y, z) = 3 x^0.5 y^-1 z^2 is linear in all logarithms.
  const auto f = [](double x, double y, double z) { return 3 * std::sqrt(x) / y * z * z; };
  RateTable table{{{1, 10, 100}, {2, 32}, {5, 7, 11}}, {}};
  for (const double x : table.axes[0]) {
    for (const double y : table.axes[1]) {
      for (const double z : table.axes[2]) table.values.push_back(f(x, y, z));
    }
  }
  CHECK(close(interpolate(table, 3, 8, 6), f(3, 8, 6)));
  CHECK(close(interpolate(table, 99, 31, 10.5), f(99, 31, 10.5)));
}

TEST_CASE("Outside its grid a rate keeps the value of the border", "[rate-table]") {
  const RateTable table{{{10, 100}}, {5, 50}};
  CHECK(close(interpolate(table, 1), 5));
  CHECK(close(interpolate(table, 0), 5));
  CHECK(close(interpolate(table, 1e9), 50));
  CHECK(close(interpolate(RateTable{{{10}}, {7}}, 3), 7));
}
