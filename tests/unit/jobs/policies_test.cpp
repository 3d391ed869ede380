#include <catch2/catch.hpp>

#include "tests/unit/jobs/job_examples.hpp"

// Small workloads whose schedules are worked out by hand. Ends are in seconds.

using namespace orrery;
using namespace orrery::test;
using Ends = std::vector<double>;

TEST_CASE("fifo waits for the first in line, fjf does not", "[unit][jobs]") {
  // 4 GPUs. a has 3 of them for 10 s, b wants 4, c wants 1 for 5 s.
  const JobWorkload w = workload_of({{0, 10, 3}, {1, 10, 4}, {2, 5, 1}});
  CHECK(ends_of(played(w, "fifo", {4})) == Ends{10, 20, 25});
  CHECK(ends_of(played(w, "fjf", {4})) == Ends{10, 20, 7});
}

TEST_CASE("easy lets jobs pass that do not delay the first in line, and no others", "[unit][jobs]") {
  // 4 GPUs. a has 2 for 10 s; b wants 4 and is reserved for 10 s. c (8 s from 2 on) ends in time, d (9 s) would not.
  CHECK(ends_of(played(workload_of({{0, 10, 2}, {1, 10, 4}, {2, 8, 1}, {2, 9, 1}}), "easy", {4})) ==
        Ends{10, 20, 10, 29});
  // b wants 3 and leaves one GPU, on which d may run as long as it likes.
  CHECK(ends_of(played(workload_of({{0, 10, 2}, {1, 10, 3}, {2, 8, 1}, {2, 90, 1}}), "easy", {4})) ==
        Ends{10, 20, 10, 92});
}

TEST_CASE("lpjf passes over the job behind one that starts, until the next event", "[unit][jobs]") {
  // All three fit. a starts, b is passed over, c starts; b starts when a ends.
  CHECK(ends_of(played(workload_of({{0, 5, 1}, {0, 5, 1}, {0, 6, 1}}), "lpjf", {4})) == Ends{5, 10, 6});
}

TEST_CASE("sjf, srtf and srsf preempt by GPUs, by time and by GPU time", "[unit][jobs]") {
  // 4 GPUs. a: 4 GPUs, 10 s. b comes at 2: 2 GPUs, 9 s: more time than the 8 s that a has left, but less GPU time.
  const JobWorkload w = workload_of({{0, 10, 4}, {2, 9, 2}});
  CHECK(ends_of(played(w, "sjf", {4})) == Ends{19, 11});
  CHECK(ends_of(played(w, "srtf", {4})) == Ends{10, 19});
  CHECK(ends_of(played(w, "srsf", {4})) == Ends{19, 11});
  CHECK(played(w, "sjf", {4}).jobs[0].stops == 1);
}

TEST_CASE("a job goes down a queue at exactly its threshold", "[unit][jobs]") {
  // One GPU. a runs 4000 s; b comes at 100. Inside a queue jobs that run go first, so b starts when a has had 3250 s.
  // Then b is alone in the first queue and ends at 3250 + 1000; a goes on.
  const JobWorkload w = workload_of({{0, 4000, 1}, {100, 1000, 1}});
  CHECK(ends_of(played(w, "las", {1})) == Ends{5000, 4250});
  CHECK(ends_of(played(w, "2d-las", {1})) == Ends{5000, 4250});
  // On two GPUs each second counts twice for 2d-las: 1625 s.
  const JobWorkload two = workload_of({{0, 4000, 2}, {100, 1000, 2}});
  CHECK(ends_of(played(two, "las", {2})) == Ends{5000, 4250});
  CHECK(ends_of(played(two, "2d-las", {2})) == Ends{5000, 2625});
}

TEST_CASE("a stopped job pays its restart, on its GPUs, each time that it goes on", "[unit][jobs]") {
  const JobWorkload w = workload_of({{0, 10, 4}, {2, 3, 4}});
  JobCosts costs;
  costs.restart = 7 * microseconds_per_second;
  const JobHistory h = played(w, "srtf", {4}, PlaceRule::packed, costs);
  CHECK(ends_of(h) == Ends{20, 5});  // a: 2 s, then from 5 on 7 s of restart and 8 s of work
  CHECK(seconds_of(h.jobs[0].lost) == 28.0);
  CHECK(seconds_of(h.jobs[0].used) == 68.0);
}

TEST_CASE("a scattered job is slower, or waits where places are consolidated", "[unit][jobs]") {
  // Nodes of 2 and 2. a and b (1 GPU each, 10 s) share node 0 by best fit; c has node 1 for 3 s. d wants 2 GPUs.
  // When a alone has ended, at 4 s, one GPU of each node is free.
  const JobWorkload w = workload_of({{0, 4, 1}, {0, 10, 1}, {0, 20, 1}, {1, 10, 2}});
  JobCosts costs;
  costs.scattered_speed = full_speed / 2;
  CHECK(ends_of(played(w, "fifo", {2, 2}, PlaceRule::packed, costs)) == Ends{4, 10, 20, 24});
  CHECK(ends_of(played(w, "fifo", {2, 2}, PlaceRule::consolidated, costs)) == Ends{4, 10, 20, 20});
}

TEST_CASE("every policy has a row with a rule and a source, and a name of its own", "[unit][jobs]") {
  for (const JobPolicyRow& row : job_policies()) {
    CAPTURE(row.name);
    CHECK(find_job_policy(row.name) == &row);
    CHECK(!row.rule.empty());
    CHECK(!row.source.empty());
  }
  CHECK(find_job_policy("none") == nullptr);
}

TEST_CASE("GPU time is conserved, GPUs are never held twice, and the same input gives the same history",
          "[property][jobs]") {
  JobCosts costs;
  costs.restart = 1'500'001;
  costs.scattered_speed = 7'001;
  for (const JobPolicyRow& row : job_policies()) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const PlaceRule places = seed % 2 == 0 ? PlaceRule::packed : PlaceRule::consolidated;
      CAPTURE(row.name, seed);
      const JobWorkload w = random_workload(seed, 80);
      const JobHistory h = played(w, std::string(row.name).c_str(), {4, 4, 3, 2}, places, costs);
      GpuMicroseconds used = 0, stretches = 0;
      std::uint32_t stops = 0;
      for (std::size_t j = 0; j < w.jobs.size(); ++j) {
        const JobProgress& p = h.jobs[j];
        REQUIRE(p.phase == JobPhase::ended);
        REQUIRE(p.work_left == 0);
        used += p.used;
        stops += p.stops;
        // What is not restart is the job's own run, or longer where it was scattered.
        REQUIRE(p.used - p.lost >= GpuMicroseconds{w.jobs[j].run} * w.jobs[j].gpus);
        REQUIRE(p.lost <= GpuMicroseconds{p.stops} * costs.restart * w.jobs[j].gpus);
        REQUIRE(p.first_start >= w.jobs[j].submit);
      }
      for (const JobStretch& s : h.stretches) {
        std::uint32_t gpus = 0;
        for (const NodeShare& share : s.places) gpus += share.gpus;
        REQUIRE(gpus == w.jobs[s.job].gpus);
        stretches += GpuMicroseconds{s.end - s.begin} * gpus;
      }
      CHECK(used == h.busy);
      CHECK(stretches == h.busy);
      CHECK((row.preempts || stops == 0));
      CHECK(h.hash == played(w, std::string(row.name).c_str(), {4, 4, 3, 2}, places, costs).hash);
      CHECK(h.hash !=
            played(random_workload(seed + 100, 80), std::string(row.name).c_str(), {4, 4, 3, 2}, places, costs).hash);
    }
  }
}

TEST_CASE("easy counts a job that may be scattered at its slower speed", "[unit][jobs]") {
  // Nodes of 2 and 2. a 1 GPU 10 s and b 1 GPU 20 s share node 0, c (2 GPUs, 3 s) has node 1; d wants 4 and is reserved
  // for 20 s.
  JobCosts costs;
  costs.scattered_speed = full_speed / 2;
  // e (2 GPUs, 9 s from 4 s on) might take 18 s, so it waits; f (8 s) ends in time however it is placed.
  CHECK(ends_of(played(workload_of({{0, 10, 1}, {0, 20, 1}, {0, 3, 2}, {1, 5, 4}, {4, 9, 2}}), "easy", {2, 2},
                       PlaceRule::packed, costs)) == Ends{10, 20, 3, 25, 34});
  CHECK(ends_of(played(workload_of({{0, 10, 1}, {0, 20, 1}, {0, 3, 2}, {1, 5, 4}, {4, 8, 2}}), "easy", {2, 2},
                       PlaceRule::packed, costs)) == Ends{10, 20, 3, 25, 12});
}

TEST_CASE("easy reserves nodes where places are consolidated", "[unit][jobs]") {
  // Nodes of 2 and 2. a (5 s) and b (20 s) share node 0, c (10 s) and d (30 s) node 1. e wants one whole node, which
  // there is at 20 s, although two GPUs are free at 10 s. f (1 GPU, from 6 s on) would hold node 0 until 46 s.
  const std::vector<ShortJob> jobs = {{0, 5, 1}, {0, 20, 1}, {0, 10, 1}, {0, 30, 1}, {1, 10, 2}};
  std::vector<ShortJob> late = jobs, in_time = jobs;
  late.push_back({6, 40, 1});
  in_time.push_back({6, 14, 1});
  // f waits until the free GPU of node 1 leaves e its node: at 10 s best fit still gives it node 0, at 20 s node 1.
  CHECK(ends_of(played(workload_of(late), "easy", {2, 2}, PlaceRule::consolidated)) == Ends{5, 20, 10, 30, 30, 60});
  CHECK(ends_of(played(workload_of(in_time), "easy", {2, 2}, PlaceRule::consolidated)) == Ends{5, 20, 10, 30, 30, 20});
}

TEST_CASE("jobs go on where the one that they were stopped for finds no place", "[unit][jobs]") {
  // Nodes of 2 and 2. a and b share node 0, c and d node 1. e (2 GPUs) is chosen before b and d, which have one GPU on
  // each node. So it waits, b and d go on without a restart, and e starts when b leaves it node 0.
  JobCosts costs;
  costs.restart = 7 * microseconds_per_second;
  const JobWorkload w = workload_of({{0, 50, 1}, {1, 100, 1}, {2, 60, 1}, {3, 100, 1}, {5, 10, 2}});
  for (const char* policy : {"srtf", "srsf"}) {
    const JobHistory h = played(w, policy, {2, 2}, PlaceRule::consolidated, costs);
    CHECK(ends_of(h) == Ends{50, 101, 62, 103, 111});
    for (const JobProgress& p : h.jobs) CHECK((p.stops == 0 && p.lost == 0));
  }
}

TEST_CASE("one workload under every rule of Tiresias's simulator, by hand", "[unit][jobs]") {
  // 4 GPUs, times in seconds. a wants 2, b all 4, c 1, d 2.
  const JobWorkload w = workload_of({{0, 10000, 2}, {1000, 4000, 4}, {2000, 3000, 1}, {3000, 6000, 2}});
  const auto ends = [&](const char* policy) { return ends_of(played(w, policy, {4})); };
  CHECK(ends("fifo") == Ends{10000, 14000, 17000, 20000});
  // d is passed over when c starts at 14000.
  CHECK(ends("lpjf") == Ends{10000, 14000, 17000, 23000});
  // c passes b at 2000; d, for which one GPU is free at 3000, passes it at 5000.
  CHECK(ends("fjf") == Ends{10000, 15000, 5000, 11000});
  CHECK(ends("sjf") == Ends{10000, 15000, 5000, 11000});
  // b stops a at 1000 and keeps all GPUs; then c and d have them, and a when c ends.
  CHECK(ends("srtf") == Ends{17000, 5000, 8000, 11000});
  // b runs from 1000 to 2000, a to 3000, d until 9000, a again from 5000 on; b last.
  CHECK(ends("srsf") == Ends{13000, 16000, 5000, 9000});
  // a leaves the first queue at 3250 and d has its GPUs until 6500, when it leaves, too, and b has all.
  CHECK(ends("las") == Ends{15750, 10500, 5000, 13250});
  // a leaves the first queue at 1625, b at 2437.5, d at 4625; d leaves the second at 6600, a at 6850, b at 7837.5.
  CHECK(ends("2d-las") == Ends{16437.5, 10037.5, 5437.5, 12187.5});
}

TEST_CASE("histories of a small workload are those that were recorded", "[golden][jobs]") {
  // A policy that does something else changes its number here. Who changes one on purpose records it anew.
  struct Recorded {
    const char* policy;
    std::uint64_t packed, consolidated;
  };
  const std::vector<Recorded> recorded = {
      {"fifo", 0x7ac0f5b3bccc4e53, 0xf2b7f6a39adc370b},   {"fjf", 0xf838bc457574a68f, 0x19dbcdd87812c559},
      {"sjf", 0x1e3d66bd0f52943f, 0xccd314752d0c8ca5},    {"lpjf", 0xb0924a8ce24e7319, 0xe9b04cb51184b469},
      {"srtf", 0x97051da9a013884c, 0x2b467cada293a9f2},   {"srsf", 0x407bdb2a23ca2cf8, 0xd91ff0dd6d36b459},
      {"easy", 0xbdb2447d111094e7, 0x876154d529351555},   {"gavel", 0xd1602e5f6de9c222, 0xb102e09a4a0c49a2},
      {"pollux", 0xcef6f1823851bd87, 0xdb47e67579cecb26}, {"marginal", 0x95fd48777d464fce, 0x8d57525b456245dd},
      {"sia", 0x48240c04527c14d8, 0x632ad8204b6abdb4},    {"las", 0xf838bc457574a68f, 0xc4316d47d43f41cd},
      {"2d-las", 0xf838bc457574a68f, 0xc4316d47d43f41cd}};
  REQUIRE(recorded.size() == job_policies().size());
  JobCosts costs;
  costs.restart = 1'500'001;
  const JobWorkload w = random_workload(77, 120);
  for (const Recorded& r : recorded) {
    CAPTURE(r.policy);
    CHECK(played(w, r.policy, {4, 4, 3, 2}, PlaceRule::consolidated, costs).hash == r.consolidated);
    costs.scattered_speed = 7'001;
    CHECK(played(w, r.policy, {4, 4, 3, 2}, PlaceRule::packed, costs).hash == r.packed);
    costs.scattered_speed = full_speed;
  }
}
