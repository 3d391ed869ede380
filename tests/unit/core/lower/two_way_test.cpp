#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "core/program/lower/pipeline_transfers.hpp"
#include "core/program/lower/schedule.hpp"
#include "tests/support/pipeline_emulation.hpp"

using namespace orrery;
using namespace orrery::lowering;

namespace {

StageMap both_ways(std::uint32_t ranks) { return {ranks, 2, StagePlacement::two_way}; }

struct Shape {
  std::uint32_t ranks, microbatches;
};

std::vector<Shape> chimera_shapes() {
  std::vector<Shape> shapes;
  for (const std::uint32_t p : {2U, 4U, 6U, 8U, 16U}) {
    for (const std::uint32_t rounds : {1U, 2U, 3U, 5U}) shapes.push_back({p, p * rounds});
  }
  return shapes;
}

std::vector<Shape> dualpipe_shapes() {
  std::vector<Shape> shapes;
  for (const std::uint32_t p : {2U, 4U, 6U, 8U, 16U}) {
    for (const std::uint32_t more : {0U, 2U, 4U, 10U, 32U}) shapes.push_back({p, 2 * p + more});
  }
  return shapes;
}

/// Every microbatch of each pipe once, in ascending order, forward before backward before weight.
void check_order(const Orders& orders, const Shape& shape, bool split) {
  const StageMap map = both_ways(shape.ranks);
  REQUIRE(orders.size() == shape.ranks);
  for (const std::vector<Action>& order : orders) {
    for (std::uint32_t chunk = 0; chunk < 2; ++chunk) {
      const std::uint32_t first = chunk * shape.microbatches / 2;
      std::uint32_t done[3] = {};
      for (const Action& a : order) {
        if (a.chunk != chunk) continue;
        REQUIRE(map.runs(chunk, a.microbatch, shape.microbatches));
        const std::size_t step = a.phase == Phase::forward ? 0 : a.phase == Phase::backward ? 1 : 2;
        REQUIRE(a.microbatch == first + done[step]);
        if (step > 0) REQUIRE(done[step - 1] > done[step]);
        ++done[step];
      }
      REQUIRE(done[0] == shape.microbatches / 2);
      REQUIRE(done[1] == shape.microbatches / 2);
      REQUIRE(done[2] == (split ? shape.microbatches / 2 : 0));
    }
  }
}

}  // namespace

TEST_CASE("stages of two pipes lie on opposite ranks", "[schedule]") {
  const StageMap map = both_ways(4);
  CHECK(map.stages() == 4);
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    CHECK(map.rank(stage, 0) == stage);
    CHECK(map.rank(stage, 1) == 3 - stage);
    for (std::uint32_t pipe = 0; pipe < 2; ++pipe) {
      CHECK(map.stage(map.rank(stage, pipe), map.chunk(stage, pipe)) == stage);
      CHECK(map.pipe(map.chunk(stage, pipe)) == pipe);
    }
  }
}

TEST_CASE("schedules in both directions run each pipe's microbatches once, in order", "[schedule]") {
  for (const Shape& s : chimera_shapes()) check_order(schedule_chimera({s.ranks, 2, s.microbatches}), s, false);
  for (const Shape& s : dualpipe_shapes()) check_order(schedule_dualpipe({s.ranks, 2, s.microbatches}), s, true);
}

// Li and Hoefler, SC '21, with a backward as long as a forward: p - 2 slots are idle on every rank, whatever the number
// of units. A rank keeps between p / 2 + 1 and p chunks.
TEST_CASE("chimera's idle slots are p - 2 where a backward takes as long as a forward", "[schedule]") {
  for (const Shape& s : chimera_shapes()) {
    CAPTURE(s.ranks, s.microbatches);
    const test::Emulated e =
        test::emulate(schedule_chimera({s.ranks, 2, s.microbatches}), both_ways(s.ranks), s.microbatches, {1, 1, 0, 0});
    REQUIRE(!e.deadlock);
    CHECK(e.makespan == 2 * s.microbatches + s.ranks - 2);
    for (const std::int64_t peak : e.peak) {
      CHECK(peak >= std::min<std::int64_t>(s.ranks / 2 + 1, s.microbatches));
      CHECK(peak <= s.ranks);
    }
  }
}

// One unit with backwards of two slots: p - 2 idle slots of 3 p + p - 2 (bubble (p - 2) / (1.5 p + p - 2) in units
// of two slots is the published form).
TEST_CASE("one unit of chimera with backwards twice as long idles p - 2 forwards twice", "[schedule]") {
  for (const std::uint32_t p : {2U, 4U, 6U, 8U, 16U}) {
    const test::Emulated e = test::emulate(schedule_chimera({p, 2, p}), both_ways(p), p, {1, 2, 0, 0});
    REQUIRE(!e.deadlock);
    CHECK(e.makespan == 3 * p + 2 * (p - 2));
  }
}

// DeepSeek-V3 report, table 2: (p / 2 - 1) (F&B + B - 3 W) idle, where an overlapped pair F&B gives both its results at
// its end. With forward, input gradient and weight gradient equally long and a pair as long as its parts, that is 2 (p
// / 2 - 1). Here the forward of a pair is passed on when it is done, which halves it. p + 1 chunks are kept at most.
TEST_CASE("dualpipe idles half of (p / 2 - 1) (F&B + B - 3 W) and keeps p + 1 chunks", "[schedule]") {
  for (const Shape& s : dualpipe_shapes()) {
    CAPTURE(s.ranks, s.microbatches);
    const test::Emulated e = test::emulate(schedule_dualpipe({s.ranks, 2, s.microbatches}), both_ways(s.ranks),
                                           s.microbatches, {1, 1, 1, 0});
    REQUIRE(!e.deadlock);
    CHECK(e.makespan == 3 * s.microbatches + s.ranks / 2 - 1);
    CHECK(*std::max_element(e.peak.begin(), e.peak.end()) == s.ranks + 1);
  }
}

TEST_CASE("schedules in both directions end whatever actions and messages cost", "[schedule]") {
  std::mt19937_64 random(7);
  const auto draw = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
  for (int i = 0; i < 2000; ++i) {
    const test::StageCosts costs{1 + draw(20), 1 + draw(20), 1 + draw(20), draw(10)};
    const auto p = static_cast<std::uint32_t>(2 * (1 + draw(5)));
    const auto units = static_cast<std::uint32_t>(1 + draw(3));
    CAPTURE(i, p, units, costs.forward, costs.backward, costs.weight, costs.message);
    const test::Emulated c = test::emulate(schedule_chimera({p, 2, p * units}), both_ways(p), p * units, costs);
    REQUIRE(!c.deadlock);
    REQUIRE(c.makespan >= p * units * (costs.forward + costs.backward));
    const std::uint32_t m = 2 * p + 2 * units;
    const test::Emulated d = test::emulate(schedule_dualpipe({p, 2, m}), both_ways(p), m, costs);
    REQUIRE(!d.deadlock);
    REQUIRE(d.makespan >= m * (costs.forward + costs.backward + costs.weight));
  }
}

// Each rank's list is walked as it stands: a message passes when both ends have come to it.
TEST_CASE("messages of two pipes pass where each blocks both ends", "[schedule]") {
  const auto check = [](const Orders& orders, std::uint32_t ranks, std::uint32_t microbatches) {
    const StageMap map = both_ways(ranks);
    const Orders lists = with_transfers(orders, map, microbatches);
    std::vector<std::size_t> at(ranks);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t r = 0; r < ranks; ++r) {
        while (at[r] < lists[r].size()) {
          const Action& a = lists[r][at[r]];
          if (is_message(a.phase)) {
            const bool up = a.phase == Phase::send_hidden || a.phase == Phase::receive_gradient;
            const std::uint32_t there = map.stage(r, a.chunk) + (up ? 1 : -1);
            const std::uint32_t peer = map.rank(there, map.pipe(a.chunk));
            const Phase other = a.phase == Phase::send_hidden      ? Phase::receive_hidden
                                : a.phase == Phase::receive_hidden ? Phase::send_hidden
                                : a.phase == Phase::send_gradient  ? Phase::receive_gradient
                                                                   : Phase::send_gradient;
            const Action theirs{other, map.chunk(there, map.pipe(a.chunk)), a.microbatch};
            if (at[peer] == lists[peer].size() || !(lists[peer][at[peer]] == theirs)) break;
            ++at[peer];
          }
          ++at[r];
          moved = true;
        }
      }
    }
    for (std::uint32_t r = 0; r < ranks; ++r) REQUIRE(at[r] == lists[r].size());
  };
  for (const Shape& s : chimera_shapes())
    check(schedule_chimera({s.ranks, 2, s.microbatches}), s.ranks, s.microbatches);
  for (const Shape& s : dualpipe_shapes())
    check(schedule_dualpipe({s.ranks, 2, s.microbatches}), s.ranks, s.microbatches);
}
