#include "core/base/checkpoint_interval.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace orrery;

namespace {

/// The share of time that is kept work, as docs/formulas/failures.md derives it.
long double kept(long double m, long double c, long double r, long double tau) {
  return tau / (m * std::exp(r / m) * std::expm1((tau + c) / m));
}

/// The root of e'(tau) = 0, (1 - u) e^(u + c/m) = 1 with u = tau/m, by halving an interval: no Lambert W.
long double halved(long double m, long double c) {
  long double low = 0.0L, high = 1.0L;
  for (int i = 0; i < 200; ++i) {
    const long double u = (low + high) / 2.0L;
    (std::log1p(-u) + u + c / m > 0.0L ? low : high) = u;
  }
  return m * low;
}

Seconds s(double seconds) { return Seconds::of(seconds); }

}  // namespace

// W(1) is the omega constant (OEIS A030178).
TEST_CASE("Lambert's W undoes w e^w on its principal branch", "[unit][checkpoint-interval]") {
  CHECK(lambert_w0(0.0) == 0.0);
  CHECK(lambert_w0(1.0) == Approx(0.5671432904097838).epsilon(1e-14));
  CHECK(lambert_w0(std::exp(1.0)) == Approx(1.0).epsilon(1e-14));
  CHECK(lambert_w0(-std::exp(-1.0)) == Approx(-1.0).epsilon(1e-7));  // half of the digits are left
  for (double w = -0.99; w < 50.0; w += 0.0371) {
    CAPTURE(w);
    // z is rounded by 1e-16; W' = W / (z (1 + W)) tells by how much that moves w.
    CHECK(std::abs(lambert_w0(w * std::exp(w)) - w) <= 1e-14 * (std::abs(w) + 1.0 / (1.0 + w)));
  }
}

// Figures: M, C and tau* in seconds. tau* is worked out by halving, and was found beforehand to the second.
TEST_CASE("the best interval between checkpoints is the root of the derivative", "[unit][checkpoint-interval]") {
  struct Row {
    double m, c, tau;
  };
  for (const Row& row : {Row{10008, 60, 1056}, Row{11124, 30, 797}, Row{11124, 5, 330}, Row{6480, 60, 842},
                         Row{1800, 120, 580}, Row{27000, 120, 2466}}) {
    CAPTURE(row.m, row.c);
    CHECK(std::abs(optimal_interval(s(row.m), s(row.c)).base() - row.tau) < 0.6);
  }
  // From saves that take no time to those that take a thousand times M.
  for (double x = 1e-12; x < 1000.0; x *= 3.7) {
    const long double exact = halved(1000.0L, 1000.0L * x);
    CAPTURE(x, static_cast<double>(exact));
    CHECK(optimal_interval(s(1000.0), s(1000.0 * x)).base() == Approx(static_cast<double>(exact)).epsilon(1e-9));
  }
  CHECK(optimal_interval(s(100.0), s(0.0)).base() == 0.0);
}

TEST_CASE("no other interval keeps more, whatever a restart takes", "[unit][checkpoint-interval]") {
  for (const double c : {0.01, 1.0, 30.0, 500.0}) {
    for (const double r : {0.0, 20.0, 900.0}) {
      const double tau = optimal_interval(s(600.0), s(c)).base();
      for (const double other : {0.5, 0.9, 0.99, 1.01, 1.1, 2.0}) {
        CAPTURE(c, r, other);
        CHECK(kept(600.0L, c, r, tau) > kept(600.0L, c, r, tau * other));
      }
    }
  }
}

TEST_CASE("of whole steps the best number is taken, at least one", "[unit][checkpoint-interval]") {
  for (const double step : {0.001, 0.3, 7.0, 21.0, 40.0, 5000.0}) {
    const std::uint64_t n = steps_between_saves(s(600.0), s(2.0), s(step));
    CAPTURE(step, n);
    REQUIRE(n >= 1);
    const auto at = [&](std::uint64_t steps) {
      return kept(600.0L, 2.0L, 0.0L, static_cast<long double>(steps) * step);
    };
    CHECK(at(n) >= at(n + 1));
    if (n > 1) CHECK(at(n) >= at(n - 1));
  }
  CHECK(steps_between_saves(s(1.0), s(1e6), s(1.0)) == 1);
}
