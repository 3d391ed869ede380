// Collectives of a plan's groups, measured by a Program of their own.

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "core/program/lower/lower.hpp"
#include "core/spec/library.hpp"
#include "exec/calibrate/group_rates.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/data.hpp"
#include "sim/des/simulate.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

/// Groups and kinds over which a Program communicates.
std::set<std::pair<GroupId, Collective::Kind>> used(const Program& program) {
  std::set<std::pair<GroupId, Collective::Kind>> out;
  for (const Block& block : program.blocks) {
    for (const Op& op : block.ops) {
      const auto* c = std::get_if<Collective>(&op.action);
      if (c == nullptr || c->kind == Collective::Kind::permute || c->kind == Collective::Kind::barrier) continue;
      if (group_size(program[c->group], program.mesh) > 1) out.insert({c->group, c->kind});
    }
  }
  return out;
}

ClusterSpec two_level_cluster(std::uint32_t devices) {
  ClusterSpec c;
  c.name = "pairs";
  c.device.name = "device";
  c.device.memory = Bytes::of(1e12);
  c.device.peak[Precision::fp32] = FlopRate::of(1e12);
  c.device.memory_bandwidth = Bandwidth::of(1e12);
  c.nodes = devices % 2 == 0 ? devices / 2 : devices;
  c.devices_per_node = devices / c.nodes;
  c.levels.push_back({"near", c.devices_per_node, Bandwidth::of(100e9), Seconds::of(2e-6)});
  c.levels.push_back({"far", c.nodes, Bandwidth::of(10e9), Seconds::of(9e-6)});
  return c;
}

}  // namespace

// The simulator runs the same Program by the cost model's prices. So the times read from its trace must be those
// prices, and a rank that comes late must not show.
TEST_CASE("times of groups read from a trace are the prices that made it", "[unit][calibrate]") {
  int plans = 0, collectives = 0;
  for (std::uint64_t seed = 1; plans < 60; ++seed) {
    test::RandomRunLimits limits;
    limits.max_ranks = 16;
    const PlannedRun run = test::random_run(seed, limits);
    const Program trained = lower(run.model, run.workload, run.plan);
    const auto expected = used(trained);
    if (expected.empty()) continue;
    ++plans;
    CAPTURE(seed, test::describe(run));
    const Program program = group_program(trained, 1 << 16, 3);
    CHECK(program.layers == trained.layers);
    Calibration calibration;
    calibration.level_efficiency = {1.0};
    const CostModel prices(two_level_cluster(static_cast<std::uint32_t>(run.plan.mesh.size())), calibration,
                           run.plan.mesh);
    const Simulation simulated = simulate(run, program, prices);
    const std::vector<GroupTime> times = group_times(program, {simulated.trace}, plans % 2 == 0);
    std::map<std::pair<GroupId, Collective::Kind>, std::uint64_t> sizes;
    for (const GroupTime& t : times) {
      CAPTURE(group_text(program[t.group]), name_of(t.kind), t.bytes);
      // Whole picoseconds.
      const Seconds price = prices.collective(t.kind, Bytes::of(static_cast<double>(t.bytes)), program[t.group]);
      CHECK(t.typical.base() == Approx(price.base()).margin(2e-12));
      CHECK(t.bytes % (t.members * sizeof(float)) == 0);
      ++sizes[{t.group, t.kind}];
      ++collectives;
    }
    CHECK(sizes.size() == expected.size());
    for (const auto& [key, n] : sizes) {
      CHECK(expected.count(key) == 1);
      CHECK(n == 4);  // 1, 4, 16 and 64 KiB
    }
  }
  CHECK(collectives > 500);
}

TEST_CASE("a Program of groups runs on threads, and sends what rings send", "[unit][calibrate]") {
  int plans = 0;
  for (std::uint64_t seed = 100; plans < 10; ++seed) {
    test::RandomRunLimits limits;
    limits.max_ranks = 8;
    const PlannedRun run = test::random_run(seed, limits);
    const Program trained = lower(run.model, run.workload, run.plan);
    if (used(trained).empty()) continue;
    ++plans;
    CAPTURE(seed, test::describe(run));
    const Program program = group_program(trained, 1 << 14, 2);
    RunOptions options;
    options.warmup_steps = 1;
    options.steps = 2;
    const auto data = data_of(run.model, run.workload);
    const RunResult result = execute(program, run.model, run.workload, run.plan, *data, options);
    CHECK(result.losses.empty());
    REQUIRE(result.traces.size() == 2);
    for (const GroupTime& t : group_times(program, result.traces, false)) CHECK(t.typical > Seconds{});
    for (const RankTrace& rank : result.traces.front().ranks) {
      std::uint64_t sent = 0;
      for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun& op) {
        const auto* c = std::get_if<Collective>(&op.op->action);
        if (c == nullptr) return;
        const Group& group = program[c->group];
        const std::uint64_t count = payload_bytes(program, *op.block, *op.op) / sizeof(float);
        sent += ring_bytes_sent(c->kind, count, sizeof(float), group_size(group, program.mesh),
                                index(*peer_of(group, program.mesh, rank.rank)));
      });
      CHECK(rank.sent_bytes == sent);
    }
  }
}

// Two members, of which the second comes 3 us late.
TEST_CASE("who waits for whom decides what a collective took", "[unit][calibrate]") {
  PlannedRun run;
  for (std::uint64_t seed = 1;; ++seed) {
    test::RandomRunLimits limits;
    limits.max_ranks = 2;
    run = test::random_run(seed, limits);
    if (run.plan.mesh.size() == 2 && !used(lower(run.model, run.workload, run.plan)).empty()) break;
  }
  const Program program = group_program(lower(run.model, run.workload, run.plan), 1024, 1);
  const auto trace = [&](std::int64_t first_start, std::int64_t first_end) {
    Trace t;
    for (std::uint32_t r = 0; r < 2; ++r) {
      RankTrace rank;
      rank.rank = Rank{r};
      for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun&) {
        rank.spans.push_back(r == 0 ? Span{first_start, first_end} : Span{3'000'000, 5'000'000});
      });
      t.ranks.push_back(std::move(rank));
    }
    return t;
  };
  // With waiting inside: 5 us and 2 us, of which 2 are the collective. Outside: both begin together, and the first ends
  // later.
  CHECK(group_times(program, {trace(0, 5'000'000)}, true).front().typical.base() == Approx(2e-6));
  CHECK(group_times(program, {trace(3'000'000, 6'000'000)}, false).front().typical.base() == Approx(3e-6));
}

TEST_CASE("latency and bandwidth are those that made the times, and the best where none did", "[unit][calibrate]") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(0.0, 1.0);
  for (int i = 0; i < 200; ++i) {
    const double alpha = 1e-6 * std::pow(1000.0, exponent(random)), beta = 1e8 * std::pow(1e4, exponent(random));
    const double noise = i % 2 == 0 ? 0.0 : 0.2;
    std::vector<std::pair<Bytes, Seconds>> points;
    for (double n = 1024; n < 3e8; n *= 4) {
      points.push_back({Bytes::of(n), Seconds::of((alpha + n / beta) * (1.0 + noise * (exponent(random) - 0.5)))});
    }
    const AlphaBeta f = fit_alpha_beta(points);
    CAPTURE(i, alpha, beta);
    if (noise == 0.0) {
      CHECK(f.latency.base() == Approx(alpha).epsilon(1e-9));
      CHECK(f.bandwidth.base() == Approx(beta).epsilon(1e-9));
      CHECK(f.error_pct < 1e-6);
      continue;
    }
    const auto squares = [&](double a, double b) {
      double sum = 0.0;
      for (const auto& [n, t] : points) {
        const double r = (a + n.base() / b) / t.base() - 1.0;
        sum += r * r;
      }
      return sum;
    };
    const double best = squares(f.latency.base(), f.bandwidth.base());
    for (const double da : {0.99, 1.0, 1.01}) {
      for (const double db : {0.99, 1.0, 1.01}) {
        CHECK(squares(f.latency.base() * da, f.bandwidth.base() * db) >= best * (1.0 - 1e-12));
      }
    }
  }
  // Times that fall with bytes must give no latency below 0 and no negative bandwidth.
  const AlphaBeta odd = fit_alpha_beta({{Bytes::of(1e3), Seconds::of(2e-3)}, {Bytes::of(1e6), Seconds::of(1e-3)}});
  CHECK(odd.latency > Seconds{});
  CHECK(odd.bandwidth.base() > 0.0);
}
