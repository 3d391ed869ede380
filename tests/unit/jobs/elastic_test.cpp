#include <catch2/catch.hpp>

#include "jobs/change_gpus.hpp"
#include "jobs/gavel_policy.hpp"
#include "jobs/marginal_policy.hpp"
#include "jobs/pollux_policy.hpp"
#include "tests/unit/jobs/job_examples.hpp"

using namespace orrery;
using namespace orrery::test;
using Ends = std::vector<double>;

TEST_CASE("Gavel's shares use all GPUs, and no job has more than one that is cut short", "[property][jobs]") {
  // What fits these laws is the one max-min solution: whoever has less than all its time has the most GPU time.
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<std::uint32_t> gpus;
    std::uint64_t demand = 0;
    for (std::uint64_t i = 0; i <= random_bits(seed, 1, 0) % 12; ++i) {
      gpus.push_back(1 + static_cast<std::uint32_t>(random_bits(seed, 2, i) % 16));
      demand += gpus.back();
    }
    const std::uint64_t room = 1 + random_bits(seed, 3, 0) % 40;
    const std::vector<double> shares = gavel_shares(gpus, room);
    double used = 0.0, most = 0.0;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      used += shares[i] * gpus[i], most = std::max(most, shares[i] * gpus[i]);
    CAPTURE(seed);
    REQUIRE(used == Approx(static_cast<double>(std::min(demand, room))).epsilon(1e-12));
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      REQUIRE((shares[i] > 0.0 && shares[i] <= 1.0));
      REQUIRE((shares[i] == 1.0 || shares[i] * gpus[i] == Approx(most).epsilon(1e-12)));
    }
  }
  CHECK(gavel_shares({}, 4).empty());
}

TEST_CASE("jobs take turns of six minutes under gavel", "[unit][jobs]") {
  // One GPU, two jobs of 1000 s: a to 360, b to 720, a to 1080, b to 1440; a ends 280 s later, and b after the round.
  CHECK(ends_of(played(workload_of({{0, 1000, 1}, {0, 1000, 1}}), "gavel", {1})) == Ends{1720, 2080});
  // The level is 4/3 GPUs for each of three jobs.
  const JobHistory h = played(workload_of({{0, 3600, 4}, {0, 3600, 2}, {0, 3600, 2}}), "gavel", {4});
  GpuMicroseconds large = 0;
  for (const JobStretch& s : h.stretches) {
    if (s.job == 0 && s.begin < 3600 * microseconds_per_second) large += s.end - s.begin;
  }
  CHECK(seconds_of(large) ==
        1080.0);  // three of ten turns in an hour: its share of the time is 1/3, that of the others 2/3
}

TEST_CASE("costs of Pollux, and speeds between numbers of GPUs", "[unit][jobs]") {
  CHECK(pollux_cost(1.0, 1.0) == 999'001);
  CHECK(pollux_cost(2.0, 0.5) == 999'001);
  CHECK(pollux_cost(0.0, 1.0) == 1'000'000'000);
  const std::vector<JobSpeed> speeds = {{2, 100}, {4, 180}, {8, 300}};
  CHECK(speed_between(speeds, 1) == 50.0);
  CHECK(speed_between(speeds, 3) == 140.0);
  CHECK(speed_between(speeds, 8) == 300.0);
  CHECK(speed_between(speeds, 20) == 300.0);
  std::vector<JobSpeed> few = speeds;
  limit_growth(few, 0);
  CHECK(few == std::vector<JobSpeed>{{2, 100}});
  few = speeds;
  limit_growth(few, 2);
  CHECK(few.size() == 2);
}

TEST_CASE("a job doubles its GPUs from minute to minute under pollux", "[unit][jobs]") {
  // 100 s of work on 4 GPUs: a minute on 1 does 15, a minute on 2 does 30, and 55 s on 4 the rest.
  JobWorkload w = workload_of({{0, 100, 4}});
  w.jobs[0].speeds = {{1, 2500}, {2, 5000}, {4, 10000}};
  const JobHistory h = played(w, "pollux", {4});
  CHECK(ends_of(h) == Ends{175});
  CHECK(h.jobs[0].stops == 2);
}

TEST_CASE("jobs on several nodes stay apart under pollux", "[unit][jobs]") {
  // Three nodes of 2: a has one and a half, and b finds two GPUs on one node that a is not on; c takes what a leaves.
  const JobWorkload w = workload_of({{0, 60, 3}, {0, 60, 3}});
  CHECK(ends_of(played(w, "sia", {2, 2, 2})) == Ends{60, 60});
  CHECK(ends_of(played(w, "pollux", {2, 2, 2})) == Ends{60, 120});
  CHECK(ends_of(played(workload_of({{0, 60, 3}, {0, 60, 1}}), "pollux", {2, 2})) == Ends{60, 60});
}

TEST_CASE("marginal gives GPUs where they bring an end nearest, and takes them back", "[unit][jobs]") {
  CHECK(marginal_worth(0.0, 100.0, 1.0) == 10'000'000);
  CHECK(marginal_worth(100.0, 100.0, 1.0) == 5'000'000);
  CHECK(marginal_worth(0.0, 100.0, 0.0) == 0);
  CHECK(marginal_worth(0.0, 0.0, 1.0) == 1'000'000'000);
  // At 10 s a has 90 s of work left, worth 1/90 a second on its 4 GPUs and 0.7/90 on 2; b is worth 1/10 on 2 and
  // 1.5/10 on 4. So b has all until it ends at 10 + 10/1.5.
  JobWorkload w = workload_of({{0, 100, 4}, {10, 10, 2}});
  w.jobs[0].speeds = {{1, 4000}, {2, 7000}, {4, 10000}};
  w.jobs[1].speeds = {{1, 6000}, {2, 10000}, {4, 15000}};
  const JobHistory h = played(w, "marginal", {4});
  CHECK(seconds_of(h.jobs[1].end) == Approx(10 + 10 / 1.5).epsilon(1e-6));
  CHECK(seconds_of(h.jobs[0].end) == Approx(100 + 10 / 1.5).epsilon(1e-6));

  // With a restart of a minute a still stops, since b on 2 beside a on 2 costs a its minute too, and pays on 4 GPUs.
  JobCosts costs;
  costs.restart = 60 * microseconds_per_second;
  const JobHistory slow = played(w, "marginal", {4}, PlaceRule::packed, costs);
  CHECK(seconds_of(slow.jobs[0].lost) == 240.0);
}

TEST_CASE("marginal does not stop a job for a gain that the restart eats", "[unit][jobs]") {
  // a runs on 2 of 4 GPUs beside b. When b ends, a has 20 s left; on 4 GPUs 10 s and a restart of 30 s.
  JobWorkload w = workload_of({{0, 60, 2}, {0, 40, 2}});
  w.jobs[0].speeds = {{2, 10000}, {4, 20000}};
  JobCosts costs;
  costs.restart = 30 * microseconds_per_second;
  CHECK(ends_of(played(w, "marginal", {4}, PlaceRule::packed, costs)) == Ends{60, 40});
  costs.restart = 5 * microseconds_per_second;
  CHECK(ends_of(played(w, "marginal", {4}, PlaceRule::packed, costs)) == Ends{55, 40});
}

TEST_CASE("a job that falls behind an equal share has GPUs under marginal", "[unit][jobs]") {
  // One GPU; short jobs come without end, each shorter than what a has left. Under srtf a would end last.
  std::vector<ShortJob> jobs = {{0, 100, 1}};
  for (int i = 0; i < 60; ++i) jobs.push_back({10 * i, 10, 1});
  const JobWorkload w = workload_of(jobs);
  CHECK(ends_of(played(w, "srtf", {1}))[0] == 700.0);
  CHECK(ends_of(played(w, "marginal", {1}))[0] < 600.0);
}

TEST_CASE("GPU time is conserved when jobs grow and shrink, and no work is lost", "[property][jobs]") {
  JobCosts costs;
  costs.restart = 20 * microseconds_per_second;
  for (const char* policy : {"sia", "pollux", "marginal"}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(policy, seed);
      JobWorkload w = random_workload(seed, 40);
      for (ClusterJob& job : w.jobs) {
        job.run *= 20;
        // Amdahl with a tenth that does not scale, so that every number of GPUs is worth less than its share.
        for (const std::uint32_t gpus : {1U, 2U, 4U, 8U}) {
          const auto amdahl = [](double g) { return 1.0 / (0.1 + 0.9 / g); };
          if (gpus == 4 && job.gpus != 4) continue;
          job.speeds.push_back({gpus, std::llround(1e4 * amdahl(gpus) / amdahl(job.gpus))});
        }
        if (job.gpus != 1 && job.gpus != 2 && job.gpus != 4 && job.gpus != 8) job.speeds.clear();
      }
      const JobHistory h = played(w, policy, {8, 4}, PlaceRule::packed, costs);
      GpuMicroseconds used = 0, stretches = 0;
      for (const JobProgress& p : h.jobs) {
        REQUIRE(p.phase == JobPhase::ended);
        REQUIRE(p.work_left == 0);
        used += p.used;
      }
      std::vector<GpuMicroseconds> work(w.jobs.size());
      for (const JobStretch& s : h.stretches) {
        std::uint32_t gpus = 0;
        for (const NodeShare& share : s.places) gpus += share.gpus;
        stretches += GpuMicroseconds{s.end - s.begin} * gpus;
        for (const JobSpeed& speed : speeds_of(w.jobs[s.job])) {
          if (speed.gpus == gpus) work[s.job] += GpuMicroseconds{s.end - s.begin} * speed.speed;
        }
      }
      CHECK(used == h.busy);
      CHECK(stretches == h.busy);
      // Stretches without restarts would do at least the job's work.
      for (std::size_t j = 0; j < w.jobs.size(); ++j) CHECK(work[j] >= GpuMicroseconds{w.jobs[j].run} * full_speed);
      CHECK(h.hash == played(w, policy, {8, 4}, PlaceRule::packed, costs).hash);
    }
  }
}
