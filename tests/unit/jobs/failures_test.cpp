#include <catch2/catch.hpp>

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
