#include "forecast/checkpoint_interval.hpp"

#include <catch2/catch.hpp>

#include <cmath>

#include "tests/unit/forecast/interval_rows.hpp"

using namespace orrery;
using orrery::test::interval_rows;
using orrery::test::IntervalRow;

namespace {

/// The principal branch of Lambert's function, by bisection of w e^w = z over [-1, 0]: another way than the library's.
double lambert(double z) {
  double low = -1.0, high = 0.0;
  for (int i = 0; i < 200; ++i) {
    const double w = 0.5 * (low + high);
    (w * std::exp(w) < z ? low : high) = w;
  }
  return low;
}

double efficiency(const IntervalRow& r, double interval) {
  return saved_efficiency(Seconds::of(interval), Seconds::of(r.save), Seconds(), Seconds::of(r.mean),
                          std::exp(-r.restart / r.mean));
}

}  // namespace

TEST_CASE("the best interval is M (1 + W0(-e^(-1 - C / M)))", "[forecast]") {
  for (const IntervalRow& r : interval_rows) {
    CAPTURE(r.mean, r.save);
    const double best = best_interval(Seconds::of(r.save), Seconds::of(r.mean)).base();
    // The bisection ends within 1e-16 of w; near w = -1 its equation is flat, and 1e-16 / (1 + w) is left.
    CHECK(best == Approx(r.mean * (1.0 + lambert(-std::exp(-1.0 - r.save / r.mean)))).epsilon(1e-9));
    CHECK(best == Approx(r.best).margin(0.51));  // the table has whole seconds
    CHECK(young_interval(Seconds::of(r.save), Seconds::of(r.mean)).base() == Approx(r.young).margin(0.51));
    CHECK(daly_interval(Seconds::of(r.save), Seconds::of(r.mean)).base() == Approx(r.daly).margin(0.51));
    CHECK(efficiency(r, best) == Approx(r.efficiency).margin(0.5e-4 + 1e-9));  // four digits
  }
}

TEST_CASE("no interval near the best one is better", "[forecast]") {
  for (const IntervalRow& r : interval_rows) {
    const double best = best_interval(Seconds::of(r.save), Seconds::of(r.mean)).base();
    CHECK(efficiency(r, best) > efficiency(r, 0.99 * best));
    CHECK(efficiency(r, best) > efficiency(r, 1.01 * best));
  }
}

TEST_CASE("the best interval keeps its digits where a save costs next to nothing, and where it costs an age",
          "[forecast]") {
  const Seconds mean = Seconds::of(1e4);
  // The series is sqrt(2 x) (1 - sqrt(2 x) / 3 + ...) in tau / M with x = C / M; the next term is of order x. Terms of
  // 1.4e-6 cancel down to x, so 1e-16 of them is 1.4e-10 of it.
  const double x = 1e-12;
  const double root = std::sqrt(2.0 * x);
  CHECK(best_interval(x * mean, mean) / mean == Approx(root * (1.0 - root / 3.0)).epsilon(1e-9));
  CHECK(best_interval(Seconds(), mean) == Seconds());
  // e^-21 is left of 1 where a save takes 20 times the mean: (1 - u) e^(u + x) = 1 has u = 1 - e^(-1 - x) nearly.
  CHECK(best_interval(20.0 * mean, mean) / mean ==
        Approx(1.0 - std::exp(-22.0 + std::exp(-21.0) / std::exp(1.0))).epsilon(1e-8));
}

TEST_CASE("the best number of steps is whole, at least one, and next to the best interval", "[forecast]") {
  const Seconds save = Seconds::of(60), mean = Seconds::of(10008);
  const std::uint64_t steps = best_steps(Seconds::of(100), save, mean);
  CHECK((steps == 10 || steps == 11));  // 1056 s
  CHECK(best_steps(Seconds::of(1e6), save, mean) == 1);
  CHECK(best_steps(Seconds::of(1), Seconds(), mean) == 1);
}

TEST_CASE("two levels waste what Young's formula gives for each", "[forecast]") {
  // 0.1 of the failures need storage: M1 = 10000 / 0.9, M2 = 100000. sqrt(2 1 11111.1) = 149.07, sqrt(2 60 100000) =
  // 3464.1; waste is tau / M of each: 0.013416 + 0.034641.
  const TwoLevelIntervals two = two_level_intervals(Seconds::of(1), Seconds::of(60), Seconds::of(10000), 0.1);
  CHECK(two.memory.base() == Approx(149.0712));
  CHECK(two.storage.base() == Approx(3464.1016));
  CHECK(two.waste == Approx(0.0134164 + 0.0346410).epsilon(1e-5));
}
