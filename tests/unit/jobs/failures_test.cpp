#include <catch2/catch.hpp>

#include <cmath>

#include "tests/unit/jobs/job_examples.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

JobHistory with_failures(const JobWorkload& w, std::string_view policy, double per_s, Microseconds repair,
                         Microseconds interval, std::uint64_t seed = 1, PlaceRule places = PlaceRule::packed) {
  JobSimulation options;
  options.gpus_of_nodes = {4, 4, 3, 2};
  options.places = places;
  options.costs.restart = 1'500'001;
  options.costs.save_interval = interval;
  options.failures = {per_s, repair, seed};
  options.keep_stretches = true;
  return simulate_jobs(w, *find_job_policy(policy), options);
}

}  // namespace

TEST_CASE("GPU time is conserved under failures of nodes, and every job still does its work", "[property][jobs]") {
  for (const JobPolicyRow& row : job_policies()) {
    std::uint64_t failures = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      CAPTURE(row.name, seed);
      const PlaceRule places = seed % 2 == 0 ? PlaceRule::packed : PlaceRule::consolidated;
      JobWorkload w = random_workload(seed, 60);
      for (ClusterJob& job : w.jobs) job.run *= 10;
      // A node fails each 1000 s, so some twenty fail in a workload of some 5000 s.
      const JobHistory h = with_failures(w, row.name, 1e-3, 90'000'000, 20'000'000, seed, places);
      GpuMicroseconds used = 0, stretches = 0;
      for (std::size_t j = 0; j < w.jobs.size(); ++j) {
        const JobProgress& p = h.jobs[j];
        REQUIRE(p.phase == JobPhase::ended);
        REQUIRE(p.work_left == 0);
        used += p.used;
        failures += p.failures;
        // What is neither restart nor undone is the job's own run, to the microsecond.
        REQUIRE(p.used - p.lost - p.undone == GpuMicroseconds{w.jobs[j].run} * w.jobs[j].gpus);
        REQUIRE(p.undone <= GpuMicroseconds{p.failures} * 20'000'000 * w.jobs[j].gpus);
      }
      for (const JobStretch& s : h.stretches) {
        for (const NodeShare& share : s.places) stretches += GpuMicroseconds{s.end - s.begin} * share.gpus;
      }
      CHECK(used == h.busy);
      CHECK(stretches == h.busy);
      CHECK(h.hash == with_failures(w, row.name, 1e-3, 90'000'000, 20'000'000, seed, places).hash);
      CHECK(h.hash != with_failures(w, row.name, 1e-3, 90'000'000, 20'000'000, seed + 1, places).hash);
    }
    CHECK(failures > 20);
  }
}

TEST_CASE("a job goes on from its last checkpoint when a node fails", "[unit][jobs]") {
  // One job on all nodes for 1000 s, checkpoints each 100 s of work: each failure undoes less than that, and the job
  // waits until the node is repaired.
  const JobWorkload w = workload_of({{0, 1000, 13}});
  const JobHistory h = with_failures(w, "fifo", 2e-4, 50'000'000, 100'000'000, 3);
  const JobProgress& p = h.jobs[0];
  REQUIRE(p.failures > 0);
  const auto undone = static_cast<Microseconds>(p.undone / 13), lost = static_cast<Microseconds>(p.lost / 13);
  CHECK(undone > 0);
  CHECK(undone < Microseconds{p.failures} * 100'000'000);
  CHECK(lost <= Microseconds{p.failures} * 1'500'001);
  // The rest of its time it waits for repairs, of nodes that ran it and of nodes that failed while it waited.
  const Microseconds waited = p.end - w.jobs[0].run - undone - lost;
  CHECK(waited >= 50'000'000);
  CHECK(waited <= static_cast<Microseconds>(h.node_failures) * 50'000'000);
}

TEST_CASE("nodes fail as often as they are said to", "[unit][jobs]") {
  // 4 nodes, 2e-4 a second each, a repair of 1 s, some 200,000 s: 160 failures, with a deviation of 13.
  const JobHistory h = with_failures(workload_of({{0, 200'000, 1}}), "fifo", 2e-4, 1'000'000, 1'000'000);
  const double expected = 4 * 2e-4 * seconds_of(h.end);
  CHECK(static_cast<double>(h.node_failures) == Approx(expected).margin(4 * std::sqrt(expected)));
}

TEST_CASE("jobs wait while every node is down, and go on afterwards, under every policy", "[unit][jobs]") {
  // One node, which fails each 500 s and is repaired for 400 s: whole minutes at which policies decide lie within.
  const JobWorkload w = workload_of({{0, 2000, 4}, {10, 1000, 2}});
  for (const JobPolicyRow& row : job_policies()) {
    CAPTURE(row.name);
    JobSimulation options;
    options.gpus_of_nodes = {4};
    options.costs.save_interval = 50'000'000;
    options.failures = {2e-3, 400'000'000, 7};
    const JobHistory h = simulate_jobs(w, *find_job_policy(row.name), options);
    CHECK(h.node_failures > 0);
    for (const JobProgress& p : h.jobs) {
      CHECK(p.phase == JobPhase::ended);
      CHECK(p.work_left == 0);
    }
  }
}

TEST_CASE("the share of time in which enough nodes are up is binomial", "[unit][jobs]") {
  // d = 1e-3 / s x 250 s = 1/4: a node is up for 4/5 of the time.
  const NodeFailures f{1e-3, 250'000'000, 1};
  CHECK(up_share(f, 3, 3) == Approx(0.512));  // 0.8^3
  CHECK(up_share(f, 3, 2) == Approx(0.896));  // 0.512 + 3 x 0.64 x 0.2
  CHECK(up_share(f, 3, 0) == Approx(1.0));
  CHECK(up_share({}, 3, 3) == 1.0);
  CHECK(up_share(f, 1000, 1000) == Approx(std::pow(0.8, 1000)));
}

TEST_CASE("progress is told while no job ends, so that a simulation can be broken off", "[unit][jobs]") {
  // The node fails some 2000 times before the only job ends.
  struct Enough {};
  JobSimulation options;
  options.gpus_of_nodes = {1, 1};
  options.failures = {1e-2, 1'000'000, 1};
  options.costs.save_interval = 1'000'000;
  options.progress = [](std::uint64_t done, std::uint64_t) {
    if (done == 0) throw Enough{};
  };
  CHECK_THROWS_AS(static_cast<void>(simulate_jobs(workload_of({{0, 100'000, 1}}), *find_job_policy("fifo"), options)),
                  Enough);
}
