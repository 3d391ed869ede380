#include <catch2/catch.hpp>

#include "jobs/least_cost_choice.hpp"
#include "jobs/sia_policy.hpp"
#include "tests/unit/jobs/job_examples.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Least cost by trying every combination.
std::int64_t tried(const std::vector<std::vector<CostedChoice>>& lists, std::size_t from, std::int64_t room) {
  if (room < 0) return 1'000'000'000;
  if (from == lists.size()) return 0;
  std::int64_t best = 1'000'000'000;
  for (const CostedChoice& c : lists[from]) best = std::min(best, c.cost + tried(lists, from + 1, room - c.takes));
  return best;
}

}  // namespace

TEST_CASE("the cheapest choice is that of all combinations", "[property][jobs]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto below = [&](std::uint64_t stream, std::uint64_t i, std::uint64_t most) {
      return static_cast<std::uint32_t>(random_bits(seed, stream, i) % most);
    };
    std::vector<std::vector<CostedChoice>> lists(1 + below(1, 0, 6));
    for (std::size_t i = 0; i < lists.size(); ++i) {
      lists[i].push_back({0, below(2, i, 120)});
      for (std::uint32_t c = 0; c < below(3, i, 5); ++c)
        lists[i].push_back({below(4, 8 * i + c, 9), below(5, 8 * i + c, 150)});
    }
    const std::uint32_t room = below(6, 0, 20);
    const std::vector<std::uint32_t> chosen = least_cost_choice(lists, room);
    std::int64_t cost = 0;
    std::uint32_t takes = 0;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      cost += lists[i][chosen[i]].cost;
      takes += lists[i][chosen[i]].takes;
    }
    CAPTURE(seed);
    REQUIRE(takes <= room);
    REQUIRE(cost == tried(lists, 0, room));
  }
  CHECK(least_cost_choice({}, 3).empty());
  CHECK(least_cost_choice({{{1, 5}, {0, 5}}}, 3) == std::vector<std::uint32_t>{0});  // the earlier of equal ones
}

TEST_CASE("costs and restart factors of Sia", "[unit][jobs]") {
  CHECK(sia_cost(1.0, 1.0) == 100);
  CHECK(sia_cost(4.0, 1.0) == 50);
  CHECK(sia_cost(3.0, 1.0) == 58);  // 1 / sqrt(3) = 0.577
  CHECK(sia_cost(4.0, 0.25) == 100);
  CHECK(sia_cost(4.0, 0.0) == 300'000);
  CHECK(sia_restart_factor(20, 0, 30) == 1.0);
  CHECK(sia_restart_factor(90, 1, 30) == 0.5);  // (90 - 30) / (90 + 30)
  CHECK(sia_restart_factor(90, 4, 30) == 0.0);
}

TEST_CASE("sia shrinks a job for another, and lets it grow again", "[unit][jobs]") {
  // 4 GPUs; speeds 1, 1.8, 3 on 1, 2, 4. a has 4 GPUs x 2 minutes of work and starts at once on 4.
  // b comes at 30 s with 120 s of work on 2, and is looked at at 60 s. Costs: (4, none) 58 + 110 = 168, (2, 2) 75 + 75.
  // a has done 60 of its 120 s; on 2 GPUs it works at 1.8 / 3, b at its full speed until 180 s. By then a has done
  // 60 + 72 > 120: it ends at 60 + 60 x 3 / 1.8 = 160. At 180 b ends.
  JobWorkload w = workload_of({{0, 120, 4}, {30, 120, 2}});
  w.jobs[0].speeds = {{1, 3333}, {2, 6000}, {4, 10000}};
  w.jobs[1].speeds = {{1, 5556}, {2, 10000}, {4, 16667}};
  const JobHistory h = played(w, "sia", {4});
  CHECK(seconds_of(h.jobs[0].end) == Approx(160.0).epsilon(1e-9));
  CHECK(seconds_of(h.jobs[1].end) == Approx(180.0).epsilon(1e-9));
  CHECK(h.jobs[0].stops == 1);
  // 4 GPUs for a minute, then 2 for each.
  CHECK(seconds_of(h.busy) == Approx(240.0 + 200.0 + 240.0).epsilon(1e-9));
}

TEST_CASE("GPU time is conserved when jobs grow and shrink, and no work is lost", "[property][jobs]") {
  JobCosts costs;
  costs.restart = 20 * microseconds_per_second;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
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
    const JobHistory h = played(w, "sia", {8, 4}, PlaceRule::packed, costs);
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
    CHECK(h.hash == played(w, "sia", {8, 4}, PlaceRule::packed, costs).hash);
  }
}
