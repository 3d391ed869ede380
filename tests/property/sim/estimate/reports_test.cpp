#include <catch2/catch.hpp>

#include <algorithm>

#include "core/program/lower/lower.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/compare.hpp"
#include "core/record/report_file.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/property/sim/estimate/prices.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

ClusterSpec cluster_of(std::uint32_t nodes, std::uint32_t per_node, bool concurrent_lanes, std::uint32_t cores) {
  ClusterSpec c;
  c.name = "test";
  c.device.name = "test device";
  c.device.peak = {{Precision::fp64, 1.0 * teraflop_per_second},
                   {Precision::fp32, 2.0 * teraflop_per_second},
                   {Precision::bf16, 4.0 * teraflop_per_second},
                   {Precision::fp16, 4.0 * teraflop_per_second}};
  c.device.memory = 1.0 * gibibyte;
  c.device.memory_bandwidth = 100.0 * gigabyte_per_second;
  c.device.concurrent_lanes = concurrent_lanes;
  c.device.cores_shared = cores;
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.levels = {{"inside", per_node, 10.0 * gigabyte_per_second, microsecond},
              {"between", nodes, 1.0 * gigabyte_per_second, 10.0 * microsecond}};
  return c;
}

struct Priced {
  PlannedRun run;
  Program program;
  CostModel costs;
};

Priced priced(std::uint64_t seed, std::uint32_t cores) {
  PlannedRun run = test::random_run(seed);
  const auto ranks = static_cast<std::uint32_t>(run.plan.mesh.size());
  // Placements of random runs name devices below the number of ranks; nodes of 4 cut groups in many ways.
  const std::uint32_t per_node = cores > 0 ? ranks : 4;
  run.cluster = cluster_of((ranks + per_node - 1) / per_node, per_node, seed % 2 == 0 && cores == 0, cores);
  Program program = lower(run.model, run.workload, run.plan);
  CostModel costs(*run.cluster, Calibration{}, run.plan.mesh, run.plan.placement);
  return {std::move(run), std::move(program), std::move(costs)};
}

}  // namespace

// Both add up the same whole picoseconds. Dividing by 4 classes or by 16 ranks rounds differently, by at most one part
// in 2^52 for each of a few operations: 1e-14.
TEST_CASE("Estimate and simulate write the same report", "[property][estimate][simulate]") {
  Estimator estimator;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const Priced p = priced(seed, 0);
    CAPTURE(seed, test::describe(p.run));
    const Report e = estimator.estimate(p.run, p.program, p.costs);
    CHECK(e.step_time == estimator.step_time(p.program, p.costs));
    for (const bool expand : {false, true}) {
      CAPTURE(expand);
      const Report s = simulate(p.run, p.program, p.costs, {expand, SimulateOptions::Ranks::none, {}}).report;
      CHECK(e.step_time == s.step_time);
      CHECK(e.compute.base() == Approx(s.compute.base()).epsilon(1e-14));
      CHECK(e.exposed_communication.base() == Approx(s.exposed_communication.base()).epsilon(1e-14));
      CHECK(e.exposed_exchange.base() == Approx(s.exposed_exchange.base()).epsilon(1e-12).margin(1e-20));
      CHECK(e.bubble_fraction == Approx(s.bubble_fraction).epsilon(1e-12).margin(1e-14));  // a difference
      CHECK(e.bubble_fraction >= 0.0);
      CHECK((e.compute + exposed_collectives(e) + e.bubble_fraction * e.step_time).base() ==
            Approx(e.step_time.base()).epsilon(1e-12));
      REQUIRE(e.operations.size() == s.operations.size());
      for (std::size_t o = 0; o < e.operations.size(); ++o) {
        CAPTURE(e.operations[o].name);
        CHECK(e.operations[o].name == s.operations[o].name);
        CHECK(e.operations[o].count == s.operations[o].count);
        CHECK(e.operations[o].time.base() == Approx(s.operations[o].time.base()).epsilon(1e-14));
      }
      CHECK(e.peak_memory_bytes == s.peak_memory_bytes);
      CHECK(e.memory_by_stage == s.memory_by_stage);
      CHECK(e.sent_bytes == s.sent_bytes);
      CHECK(e.tokens_per_s == s.tokens_per_s);
      CHECK(e.model_flops_utilization == s.model_flops_utilization);
      CHECK(e.hardware_flops_utilization == Approx(s.hardware_flops_utilization).epsilon(1e-14));
      CHECK(e.fits == s.fits);
      REQUIRE(e.time_by_stage.size() == s.time_by_stage.size());
      for (std::size_t i = 0; i < e.time_by_stage.size(); ++i) {
        const StageTime& a = e.time_by_stage[i];
        const StageTime& b = s.time_by_stage[i];
        CHECK(a.stage == b.stage);
        CHECK(a.compute.base() == Approx(b.compute.base()).epsilon(1e-14));
        CHECK(a.exposed_communication.base() == Approx(b.exposed_communication.base()).epsilon(1e-14));
        CHECK(a.exposed_exchange.base() == Approx(b.exposed_exchange.base()).epsilon(1e-12).margin(1e-20));
        CHECK((a.compute + exposed_collectives(a) + a.bubble).base() == Approx(e.step_time.base()).epsilon(1e-12));
      }
    }
  }
}

// 14 of 32 bytes remain (docs/formulas/training.md); the number of the step counts beside few parameters.
TEST_CASE("Without masters an update takes less time and memory", "[property][estimate]") {
  test::RandomRunLimits limits;
  limits.precision = Precision::bf16;
  limits.plain = true;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    PlannedRun run = test::random_run(seed, limits);
    run.workload.optimizer = Optimizer{};
    run.workload.gradient_dtype.reset();
    run.workload.moment_dtype.reset();
    run.cluster = cluster_of(1, static_cast<std::uint32_t>(run.plan.mesh.size()), false, 0);
    CAPTURE(seed, test::describe(run));
    double update[2];
    std::uint64_t peak[2];
    for (const bool masters : {false, true}) {
      run.workload.master_weights = masters;
      const Program program = lower(run.model, run.workload, run.plan);
      const Report report =
          estimate(run, program, CostModel(*run.cluster, Calibration{}, run.plan.mesh, run.plan.placement));
      const auto adam = std::find_if(report.operations.begin(), report.operations.end(),
                                     [](const OperationTime& o) { return o.name == "adam_update"; });
      REQUIRE(adam != report.operations.end());
      update[masters ? 1 : 0] = adam->time.base();
      peak[masters ? 1 : 0] = report.peak_memory_bytes;
    }
    CHECK(update[0] < 0.75 * update[1]);
    CHECK(update[0] > 14.0 / 32.0 * update[1]);
    CHECK(peak[0] < peak[1]);
  }
}

// With fewer cores than ranks the estimate divides a node's work by its cores, and the simulation decides which rank
// runs when: it is never faster. 1 ps per op is allowed for whole picoseconds of shared progress.
TEST_CASE("The estimate never exceeds the simulation where ranks share cores", "[property][estimate][simulate]") {
  int slower = 0;
  int only_collectives = 0;
  double idle_estimated = 0;
  double idle_simulated = 0;
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    const Priced p = priced(seed, 2);
    CAPTURE(seed, test::describe(p.run));
    const Report e = estimate(p.run, p.program, p.costs);
    const Simulation s = simulate(p.run, p.program, p.costs, {false, SimulateOptions::Ranks::all, {}});
    const double slack = 1e-12 * static_cast<double>(s.trace.ranks[0].spans.size());
    CHECK(e.step_time.base() <= s.report.step_time.base() + slack);
    CHECK(s.trace.ranks.size() == p.program.mesh.size());
    // All ranks are on one node of two cores. The cores do all ranks' work, whatever stage has more of it.
    const double work = e.compute.base() * static_cast<double>(p.program.mesh.size()) / 2.0;
    if (p.program.mesh.size() > 2) CHECK(e.step_time.base() >= work * (1.0 - 1e-12));
    slower += s.report.step_time > 1.01 * e.step_time ? 1 : 0;
    if (p.run.plan.mesh.size() <= 2 || p.run.plan.mesh.size(Axis::pipeline) > 1) continue;
    // Without a pipeline a rank waits only for collectives, whichever rank holds the cores.
    ++only_collectives;
    idle_estimated = std::max(idle_estimated, e.bubble_fraction);
    idle_simulated = std::max(idle_simulated, s.report.bubble_fraction);
  }
  CHECK(slower > 0);  // the case is there at all
  CHECK(only_collectives > 0);
  // The rest is the end of the step, after a rank's last op: up to the last op of the others that share its core.
  CHECK(idle_estimated <= 0.25);
  CHECK(idle_simulated <= 0.25);
}

TEST_CASE("The same plan gives the same bytes twice", "[property][estimate][simulate]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Priced a = priced(seed, seed % 3 == 0 ? 2 : 0);
    const Priced b = priced(seed, seed % 3 == 0 ? 2 : 0);
    CAPTURE(seed, test::describe(a.run));
    Estimator used;
    (void)used.estimate(priced(seed + 1, 0).run, priced(seed + 1, 0).program, priced(seed + 1, 0).costs);
    // A used estimator and a fresh one agree too, because nothing is left over from the plan before.
    CHECK(write_report(used.estimate(a.run, a.program, a.costs)) == write_report(estimate(b.run, b.program, b.costs)));
    const SimulateOptions options{false, SimulateOptions::Ranks::all, {}};
    const Simulation x = simulate(a.run, a.program, a.costs, options);
    const Simulation y = simulate(b.run, b.program, b.costs, options);
    CHECK(write_chrome_trace(x.trace, a.program) == write_chrome_trace(y.trace, b.program));
    CHECK(write_report(x.report) == write_report(y.report));
  }
}

TEST_CASE("A step too long for picoseconds is refused, not wrapped around", "[estimate]") {
  Priced p = priced(2, 0);
  ClusterSpec slow = *p.run.cluster;
  slow.device.memory_bandwidth = Bandwidth::of(1e-3);  // a byte every 17 minutes
  const CostModel costs(slow, Calibration{}, p.run.plan.mesh, p.run.plan.placement);
  CHECK_THROWS_AS(estimate(p.run, p.program, costs), Error);
  CHECK_THROWS_AS(simulate(p.run, p.program, costs), Error);
}

// A folded trace that is copied to all ranks is the expanded trace, traffic by rank included.
TEST_CASE("Folded and expanded simulations write the same trace of all ranks", "[property][simulate]") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Priced p = priced(seed, 0);
    CAPTURE(seed, test::describe(p.run));
    const Simulation folded = simulate(p.run, p.program, p.costs, {false, SimulateOptions::Ranks::all, {}});
    const Simulation expanded = simulate(p.run, p.program, p.costs, {true, SimulateOptions::Ranks::all, {}});
    CHECK(folded.trace == expanded.trace);
    const Simulation classes = simulate(p.run, p.program, p.costs, {true, SimulateOptions::Ranks::classes, {}});
    REQUIRE(classes.trace.ranks.size() == p.program.classes.size());
    for (const RankTrace& r : classes.trace.ranks) CHECK(r == folded.trace.ranks[index(r.rank)]);
    std::uint64_t sent = 0;
    for (const RankTrace& r : folded.trace.ranks) sent += r.sent_bytes;
    CHECK(sent == folded.report.sent_bytes);
    CHECK(compare(folded.trace, expanded.trace, &p.program).within_tolerance);
  }
}

}  // namespace orrery
