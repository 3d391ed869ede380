#include <catch2/catch.hpp>

#include <cmath>

#include "forecast/checkpoint_interval.hpp"
#include "forecast/run_sample.hpp"
#include "tests/unit/forecast/interval_rows.hpp"

using namespace orrery;

TEST_CASE("events agree with the closed form within 0.1 % at ten million failures", "[forecast]") {
  for (const test::IntervalRow& r : test::interval_rows) {
    CAPTURE(r.mean, r.save, r.restart);
    RunHazards h;
    h.node_failures = 1.0 / r.mean;
    h.restart = Seconds::of(r.restart);
    const SavePlan plan{best_interval(Seconds::of(r.save), Seconds::of(r.mean)), Seconds::of(r.save), {}, 1, {}};
    const Seconds work = std::ceil(1e5 * r.efficiency * r.mean / plan.interval.base()) * plan.interval;
    const RunSample sample = sample_runs(work, plan, h, {}, 100, 11);
    CHECK(sample.failures * 100.0 == Approx(1e7).epsilon(0.002));
    const double expected = expected_run(work, plan, h)->wall().base();
    CHECK(sample.mean.wall().base() == Approx(expected).epsilon(0.001));
  }
}
