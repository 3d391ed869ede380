#include "sim/cost/recalibrate.hpp"

#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/support/tiny_run.hpp"
#include "tests/unit/sim/cost/clusters.hpp"

using namespace orrery;

namespace {

/// One node of four cores, so that four ranks need not take turns.
ClusterSpec cores() {
  ClusterSpec c = round_cluster(1, 4);
  c.device.cores_shared = 4;
  c.device.concurrent_lanes = false;
  return c;
}

Calibration with_rates() {
  Calibration c;
  const RateTable rate{{{1.0}}, {2e9}};
  c.messages = MessageRate{Seconds::of(3e-6), Seconds::of(3e-6), Seconds::of(5e-6), rate, rate, rate};
  return c;
}

Trace played(const PlannedRun& run, const Program& program, const Calibration& calibration) {
  SimulateOptions all;
  all.expand = true;
  all.trace = SimulateOptions::Ranks::all;
  return simulate(run, program, CostModel(*run.cluster, calibration, program.mesh), all).trace;
}

}  // namespace

// The trace of a machine whose prices are those of the calibration times known factors has these factors. Its times are
// whole picoseconds of microseconds, so a thousandth is far above their rounding.
TEST_CASE("factors of a machine are found in its own trace", "[recalibrate]") {
  const Mesh mesh = GENERATE(Mesh{{{Axis::tensor, 4}}}, Mesh{{{Axis::pipeline, 2}, {Axis::tensor, 2}}},
                             Mesh{{{Axis::pipeline, 2}, {Axis::data, 2}}});
  PlannedRun run = test::tiny_run(mesh, 8);
  run.cluster = cores();
  const Program program = lower(run.model, run.workload, run.plan);
  const MeasuredFactors true_ones{3.0, 2.0, 4.0, 50.0};
  const bool has_rates = GENERATE(true, false);
  const Calibration known = has_rates ? with_rates() : Calibration{};
  const Trace trace = played(run, program, scaled(known, *run.cluster, true_ones));
  const MeasuredFactors found = measured_factors(program, run, known, {trace});
  CHECK(found.products == Approx(true_ones.products).epsilon(1e-3));
  CHECK(found.others == Approx(true_ones.others).epsilon(1e-3));
  CHECK(found.latency == Approx(true_ones.latency).epsilon(1e-3));
  CHECK(found.bytes == Approx(true_ones.bytes).epsilon(1e-3));
  // So the step is that of the machine, and that of another plan, too.
  const PlannedRun other = [&] {
    PlannedRun r = test::tiny_run(Mesh{{{Axis::data, 4}}}, 8);
    r.model = run.model;
    r.plan.stage_layers = {static_cast<std::uint32_t>(run.model.layers)};
    r.cluster = run.cluster;
    return r;
  }();
  const Program its = lower(other.model, other.workload, other.plan);
  const auto step = [&](const Calibration& c) {
    return Estimator().step_time(its, CostModel(*other.cluster, c, its.mesh)).base();
  };
  CHECK(step(scaled(known, *run.cluster, found)) == Approx(step(scaled(known, *run.cluster, true_ones))).epsilon(2e-3));
}

TEST_CASE("prices that hold have factors of one, and change no calibration", "[recalibrate]") {
  PlannedRun run = test::tiny_run(Mesh{{{Axis::pipeline, 2}, {Axis::tensor, 2}}}, 8);
  run.cluster = cores();
  const Program program = lower(run.model, run.workload, run.plan);
  const Trace trace = played(run, program, with_rates());
  const MeasuredFactors found = measured_factors(program, run, with_rates(), {trace});
  for (const double factor : {found.products, found.others, found.latency, found.bytes}) {
    CHECK(factor == Approx(1.0).epsilon(1e-6));
  }
  CHECK(scaled(with_rates(), *run.cluster, {}) == with_rates());
}
