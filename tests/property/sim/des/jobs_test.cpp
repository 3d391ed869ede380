#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <thread>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration.hpp"
#include "sim/des/jobs.hpp"
#include "sim/net/cluster_fabric.hpp"
#include "tests/support/random_fabric.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

// Jobs side by side on one fabric. Jobs that share no link do not change each other, shared links are shared alike, and
// every job sends the bytes that it sends alone.

using namespace orrery;

namespace {

/// Jobs on one cluster; rank r of job j lies on GPU gpus[j][r].
struct Case {
  ClusterSpec cluster;
  std::vector<PlannedRun> runs;
  std::vector<Program> programs;
  std::vector<CostModel> costs;
  std::vector<FabricJob> jobs;

  void settle(std::vector<PlannedRun> given, const std::vector<std::vector<std::uint32_t>>& gpus,
              std::optional<CollectiveAlgorithm> algorithm = std::nullopt) {
    runs = std::move(given);
    for (std::size_t j = 0; j < runs.size(); ++j) {
      runs[j].cluster = cluster;
      runs[j].plan.placement = gpus[j];
      programs.push_back(lower(runs[j].model, runs[j].workload, runs[j].plan));
      costs.emplace_back(cluster, Calibration{}, runs[j].plan.mesh, gpus[j], algorithm);
    }
    for (std::size_t j = 0; j < runs.size(); ++j) jobs.push_back({&runs[j], &programs[j], &costs[j], gpus[j]});
  }
};

std::uint32_t ranks_of(const PlannedRun& run) { return static_cast<std::uint32_t>(run.plan.mesh.size()); }

/// Two or three random plans on nodes of two GPUs: one after the other, or rank by rank in turn, so that they share
/// nodes.
void draw(Case& c, std::uint64_t seed, std::uint32_t max_ranks, bool in_turn) {
  test::RandomRunLimits limits;
  limits.max_ranks = max_ranks;
  limits.placement = false;
  std::vector<PlannedRun> runs;
  for (std::uint64_t j = 0; j < 2 + seed % 2; ++j) runs.push_back(test::random_run(10 * seed + j, limits));
  std::vector<std::vector<std::uint32_t>> gpus(runs.size());
  std::uint32_t next = 0;
  if (in_turn) {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t j = 0; j < runs.size(); ++j) {
        if (gpus[j].size() == ranks_of(runs[j])) continue;
        gpus[j].push_back(next++);
        more = true;
      }
    }
  } else {
    for (std::size_t j = 0; j < runs.size(); ++j) {
      for (std::uint32_t r = 0; r < ranks_of(runs[j]); ++r) gpus[j].push_back(next++);
      next += next % 2;  // whole nodes
    }
  }
  c.cluster = test::small_cluster((next + 1) / 2, 2, 64.0 * gibibyte);
  c.settle(std::move(runs), gpus);
}

JobsSimulation play(const std::vector<FabricJob>& jobs, const Fabric& fabric, std::uint64_t seed, bool expand = false,
                    std::uint32_t steps = 2) {
  constexpr PathRule rules[] = {PathRule::by_destination, PathRule::hashed, PathRule::rail_local};
  JobsOptions options;
  options.fabric = {&fabric, rules[seed % 3], seed};
  options.expand = expand;
  options.steps = steps;
  return simulate_jobs(jobs, options);
}

bool share_links(const JobsSimulation& s) {
  return std::any_of(s.links.begin(), s.links.end(), [](const SharedLoad& l) {
    return std::count_if(l.by_job.begin(), l.by_job.end(), [](Bytes b) { return b.base() > 0.0; }) > 1;
  });
}

PlannedRun data_parallel(std::uint32_t ranks, std::uint64_t batch) {
  PlannedRun run;
  run.model = test::tiny_llama({.layers = 4, .hidden = 32, .heads = 4, .vocabulary = 64});
  run.workload.global_batch = batch;
  run.workload.sequence_length = 16;
  run.plan.mesh = Mesh{{{Axis::data, ranks}}};
  run.plan.stage_layers = {4};
  run.plan.gradient_bucket = 8.0 * kibibyte;
  run.plan.overlap_gradients = true;
  run.plan.attention = AttentionKernel::flash;
  return run;
}

}  // namespace

TEST_CASE("jobs that share no link take the times that they take alone, to the picosecond",
          "[property][simulate][net]") {
  std::uint32_t apart = 0, met = 0;
  for (std::uint64_t seed = 1; seed <= 36; ++seed) {
    Case c;
    draw(c, seed, 8, seed % 4 == 3);
    CAPTURE(seed, c.cluster.nodes);
    const Fabric fabric = test::random_fabric(seed, c.cluster.nodes, 2);
    const JobsSimulation together = play(c.jobs, fabric, seed);
    const bool meet = share_links(together);
    (meet ? met : apart) += 1;
    for (std::size_t j = 0; j < c.jobs.size(); ++j) {
      const JobsSimulation alone = play({c.jobs[j]}, fabric, seed, false, 1);
      CHECK(alone.jobs[0].steps == 1);
      if (meet) continue;
      CHECK(together.jobs[j].shortest == alone.jobs[0].step_time);
      CHECK(together.jobs[j].longest == alone.jobs[0].step_time);
      CHECK(together.jobs[j].exposed_communication.base() ==
            Approx(alone.jobs[0].exposed_communication.base()).epsilon(1e-12));
    }
  }
  CHECK(apart >= 6);
  CHECK(met >= 6);
}

TEST_CASE("one job for one step is the step that simulate plays, with its loads", "[property][simulate][net]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Case c;
    draw(c, seed, 12, false);
    const Fabric fabric = test::random_fabric(seed, c.cluster.nodes, 2);
    for (const FabricJob& job : c.jobs) {
      const JobsSimulation jobs = play({job}, fabric, 0, seed % 2 == 0, 1);
      SimulateOptions options;
      options.fabric = FabricRoutes{&fabric, PathRule::by_destination, 0};
      options.expand = seed % 2 == 0;
      const Simulation one = simulate(*job.run, *job.program, *job.costs, options);
      CHECK(jobs.jobs[0].last.step_time == one.report.step_time);
      CHECK(jobs.events == one.events);
      CHECK(jobs.jobs[0].rank_classes == one.rank_classes);
      // Bytes are counted by traffic here and by flow there, so sums are in another order.
      REQUIRE(jobs.links.size() == one.links.size());
      for (std::size_t l = 0; l < one.links.size(); ++l) {
        CHECK(jobs.links[l].link == one.links[l].link);
        CHECK(jobs.links[l].bandwidth == one.links[l].bandwidth);
        CHECK(jobs.links[l].by_job[0].base() == Approx(one.links[l].carried.base()).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("every job's step sends over each link what it sends alone", "[property][simulate][net]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Case c;
    draw(c, seed, 8, seed % 2 == 0);
    CAPTURE(seed);
    const Fabric fabric = test::random_fabric(seed, c.cluster.nodes, 2);
    const JobsSimulation together = play(c.jobs, fabric, 0);
    std::map<LinkId, std::vector<double>> alone;
    for (std::size_t j = 0; j < c.jobs.size(); ++j) {
      for (const SharedLoad& l : play({c.jobs[j]}, fabric, 0, false, 1).links) {
        std::vector<double>& sent = alone[l.link];
        sent.resize(c.jobs.size(), 0.0);
        sent[j] = l.by_job[0].base();
      }
    }
    REQUIRE(together.links.size() == alone.size());
    for (const SharedLoad& l : together.links) {
      // The jobs are folded otherwise, so sums are in another order.
      for (std::size_t j = 0; j < c.jobs.size(); ++j) {
        CHECK(l.by_job[j].base() == Approx(alone[l.link][j]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("folded jobs equal expanded ones", "[property][simulate][net]") {
  std::uint32_t folded_ranks = 0, ranks = 0, compared = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Case c;
    draw(c, seed, seed % 6 == 0 ? 32 : 12, seed % 4 == 3);
    CAPTURE(seed);
    if (seed % 5 == 0) c.jobs[0].stragglers = Stragglers{seed, 1, 1.5};
    const Fabric fabric = test::random_fabric(seed, c.cluster.nodes, 2);
    const JobsSimulation folded = play(c.jobs, fabric, seed, false, 1);
    // Traffic that meets other traffic is chaotic (docs/network-model.md). Where one job's step is as long as many of
    // another's, sums in another order finally part their histories.
    const bool many =
        std::any_of(folded.jobs.begin(), folded.jobs.end(), [](const JobResult& r) { return r.steps > 4; });
    if (many) continue;
    ++compared;
    const JobsSimulation expanded = play(c.jobs, fabric, seed, true, 1);
    for (std::size_t j = 0; j < c.jobs.size(); ++j) {
      CHECK(folded.jobs[j].steps == expanded.jobs[j].steps);
      // The margin is that of one step (folding_test.cpp), for a few: picoseconds of rounding.
      CHECK(std::abs(folded.jobs[j].longest.base() - expanded.jobs[j].longest.base()) <= 8e-12);
      CHECK(std::abs(folded.jobs[j].shortest.base() - expanded.jobs[j].shortest.base()) <= 8e-12);
      folded_ranks += folded.jobs[j].rank_classes;
      ranks += expanded.jobs[j].rank_classes;
    }
    REQUIRE(folded.links.size() == expanded.links.size());
    for (std::size_t l = 0; l < folded.links.size(); ++l) {
      CHECK(folded.links[l].link == expanded.links[l].link);
      for (std::size_t j = 0; j < c.jobs.size(); ++j) {
        CHECK(folded.links[l].by_job[j].base() == Approx(expanded.links[l].by_job[j].base()).epsilon(1e-12));
      }
    }
  }
  CHECK(compared >= 20);
  CHECK(folded_ranks < ranks);
}

// There are two leaves with one cable between them and the spine. Each job has a rank on either leaf, so everything
// that it reduces crosses the cable, beside the same of the other.
TEST_CASE("two equal jobs over one shared cable are slowed alike, and each has half of it",
          "[property][simulate][net]") {
  Case c;
  c.cluster = test::small_cluster(4, 1, 64.0 * gibibyte);
  c.settle({data_parallel(2, 8), data_parallel(2, 8)}, {{0, 2}, {1, 3}});
  FabricSpec spec;
  spec.name = "two leaves";
  spec.nodes = 4;
  const Link link{LinkKind::network, Bandwidth::of(10e9), Seconds::of(1e-6)};
  spec.network = TreeNetwork{{{2, 1, link}, {2, 1, link}}, false};
  const Fabric fabric(spec);
  const JobsSimulation together = play(c.jobs, fabric, 0, false, 3);
  const JobsSimulation alone = play({c.jobs[0]}, fabric, 0, false, 1);
  const JobResult &a = together.jobs[0], &b = together.jobs[1];
  CHECK(a.step_time == b.step_time);
  CHECK(a.shortest == b.longest);  // steps stay side by side
  CHECK(a.exposed_communication == b.exposed_communication);
  CHECK(a.step_time > alone.jobs[0].step_time);
  // Reductions move half as fast, and nothing else takes longer. Each op of communication waits its latency, then takes
  // twice as long for its bytes.
  const double moving = 2.0 * (a.step_time.base() - alone.jobs[0].step_time.base());
  CHECK(moving > 0.0);
  CHECK(moving <= 2.0 * alone.jobs[0].exposed_communication.base() * (1.0 + 1e-9));
  std::uint32_t shared = 0;
  for (const SharedLoad& l : together.links) {
    if (l.by_job[0].base() == 0.0 || l.by_job[1].base() == 0.0) continue;
    ++shared;
    CHECK(l.by_job[0] == l.by_job[1]);
    CHECK(utilization(l, together.jobs) <= 1.0);
  }
  CHECK(shared == 4);  // both leaves, up and down
}

TEST_CASE("a job with short steps repeats them until the long ones of the other have ended",
          "[property][simulate][net]") {
  Case c;
  c.cluster = test::small_cluster(4, 1, 64.0 * gibibyte);
  c.settle({data_parallel(2, 4), data_parallel(2, 64)}, {{0, 1}, {2, 3}});
  const Fabric fabric(cluster_fabric(c.cluster));
  JobsOptions options;
  options.fabric = {&fabric, PathRule::by_destination, 0};
  options.steps = 3;
  options.timeline = true;
  const JobsSimulation s = simulate_jobs(c.jobs, options);
  const double ratio = s.jobs[1].step_time / s.jobs[0].step_time;
  REQUIRE(ratio > 2.0);
  CHECK(s.jobs[1].steps == 3);
  CHECK(s.jobs[0].steps == static_cast<std::uint32_t>(3.0 * ratio));
  CHECK(s.time.base() == Approx(3.0 * s.jobs[1].step_time.base()).epsilon(1e-12));
  // The last step of the long job, and what the short one did meanwhile, step after step.
  REQUIRE(s.jobs[1].timeline.size() == 1);
  CHECK(s.jobs[0].timeline.size() >= static_cast<std::size_t>(ratio));
  CHECK(s.jobs[0].timeline.size() <= static_cast<std::size_t>(ratio) + 2);
  const Picoseconds step = picoseconds(s.jobs[0].step_time);
  for (std::size_t i = 1; i < s.jobs[0].timeline.size(); ++i) {
    CHECK(s.jobs[0].timeline[i].begin - s.jobs[0].timeline[i - 1].begin == step);
  }
}

// A ring of all ranks is one flow over every link of its level, so it meets nothing on links that a cluster file makes.
TEST_CASE("on the links that a cluster's levels promise, what is alone takes its price", "[property][simulate][net]") {
  struct Levels {
    std::uint32_t nodes, per_node;
    std::vector<NetworkLevel> levels;
  };
  const NetworkLevel inner{"inner", 2, 100.0 * gigabyte_per_second, microsecond};
  const NetworkLevel bridge{"bridge", 2, 30.0 * gigabyte_per_second, microsecond};
  const NetworkLevel leaf{"leaf", 2, 10.0 * gigabyte_per_second, 5.0 * microsecond};
  const NetworkLevel spine{"spine", 3, 4.0 * gigabyte_per_second, 8.0 * microsecond};
  const NetworkLevel nothing{"nothing", 1, gigabyte_per_second, microsecond};
  for (const Levels& l : {Levels{1, 2, {inner}}, Levels{1, 4, {inner, bridge}}, Levels{2, 1, {leaf}},
                          Levels{6, 1, {nothing, leaf, spine}}, Levels{2, 2, {inner, nothing, leaf}},
                          Levels{6, 4, {inner, bridge, leaf, spine}}}) {
    const std::uint32_t ranks = l.nodes * l.per_node;
    CAPTURE(ranks, l.nodes, l.levels.size());
    Case c;
    c.cluster = test::small_cluster(l.nodes, l.per_node, 64.0 * gibibyte);
    c.cluster.levels = l.levels;
    std::vector<std::uint32_t> gpus;
    for (std::uint32_t g = 0; g < ranks; ++g) gpus.push_back(g);
    c.settle({data_parallel(ranks, 2 * ranks)}, {gpus}, CollectiveAlgorithm::ring);
    const FabricSpec spec = cluster_fabric(c.cluster);
    CHECK(spec.gpus() == ranks);
    const Fabric fabric(spec);
    SimulateOptions options;
    const Simulation alone = simulate(c.runs[0], c.programs[0], c.costs[0], options);
    options.fabric = FabricRoutes{&fabric, PathRule::by_destination, 0};
    const Simulation shared = simulate(c.runs[0], c.programs[0], c.costs[0], options);
    CHECK(shared.report.step_time == alone.report.step_time);
    CHECK(shared.history_hash == alone.history_hash);
    CHECK(shared.links.size() > 0);
    // The fabric can be written, and read back as the same wires.
    Diagnostics wrong;
    const auto again = parse_fabric(write_fabric(spec), "again.toml", wrong);
    INFO(render(wrong));
    REQUIRE(again);
    CHECK(again->node == spec.node);
  }
}

TEST_CASE("histories have one number for one history", "[property][simulate][net]") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    Case c;
    draw(c, seed, 8, seed % 2 == 0);
    CAPTURE(seed);
    const Fabric fabric = test::random_fabric(seed, c.cluster.nodes, 2);
    const JobsSimulation first = play(c.jobs, fabric, seed);
    // The same again, and on two threads at once.
    JobsSimulation left, right;
    std::thread other([&] { left = play(c.jobs, fabric, seed); });
    right = play(c.jobs, fabric, seed);
    other.join();
    CHECK(left.history_hash == first.history_hash);
    CHECK(right.history_hash == first.history_hash);
    // Without shared links there is no rounding, so folded equals expanded.
    SimulateOptions options;
    const Simulation folded = simulate(c.runs[0], c.programs[0], c.costs[0], options);
    options.expand = true;
    const Simulation expanded = simulate(c.runs[0], c.programs[0], c.costs[0], options);
    CHECK(folded.history_hash == expanded.history_hash);
    // Another history has another number.
    options.stragglers = Stragglers{seed, 1, 1.25};
    CHECK(simulate(c.runs[0], c.programs[0], c.costs[0], options).history_hash != folded.history_hash);
    options.stragglers.reset();
    options.noise = Noise{seed, 0.1};
    const Simulation noisy = simulate(c.runs[0], c.programs[0], c.costs[0], options);
    CHECK(noisy.history_hash != folded.history_hash);
    CHECK(noisy.history_hash == simulate(c.runs[0], c.programs[0], c.costs[0], options).history_hash);
    // Noise is drawn anew for every step, the same for the same seed.
    c.jobs[0].noise = Noise{seed, 0.1};
    const JobsSimulation drawn = play(c.jobs, fabric, seed, false, 3);
    CHECK(drawn.jobs[0].longest > drawn.jobs[0].shortest);
    CHECK(drawn.history_hash == play(c.jobs, fabric, seed, false, 3).history_hash);
  }
}
