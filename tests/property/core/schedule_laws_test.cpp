#include <algorithm>
#include <catch2/catch.hpp>

#include "core/base/random.hpp"
#include "core/plan/plan_names.hpp"
#include "tests/support/pipeline_emulation.hpp"

using namespace orrery;
using namespace orrery::lowering;

namespace {

/// Whole numbers that depend on the seed alone.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : seed_(seed) {}
  std::int64_t in(std::int64_t first, std::int64_t last) {
    return first +
           static_cast<std::int64_t>(random_bits(seed_, 0, count_++) % static_cast<std::uint64_t>(last - first + 1));
  }
  std::uint32_t small(std::int64_t first, std::int64_t last) { return static_cast<std::uint32_t>(in(first, last)); }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

test::Emulated run(ScheduleName name, const PipelineShape& s, const test::StageCosts& costs) {
  return test::emulate(schedule_of(name)(s), {s.ranks, s.chunks, rules_of(name).placement}, s.microbatches, costs);
}

constexpr int rounds = 600;

}  // namespace

// A schedule may be slow, never stuck; and no order beats the work that has to come before, on and after a rank.
TEST_CASE("no schedule deadlocks or beats the lower bound, whatever its actions cost", "[property][schedule]") {
  Draws draw(1);
  for (int round = 0; round < 3000; ++round) {
    const auto name = static_cast<ScheduleName>(draw.in(0, static_cast<int>(ScheduleName::zb_v)));
    const ScheduleRules& rules = rules_of(name);
    PipelineShape s;
    s.ranks = draw.small(1, 9);
    s.chunks = rules.most_chunks == 0 ? draw.small(rules.least_chunks, 4) : rules.least_chunks;
    s.microbatches = rules.whole_rounds ? s.ranks * draw.small(1, 4) : draw.small(1, 24);
    const test::StageCosts costs{draw.in(1, 30), draw.in(1, 60), draw.in(1, 30), draw.in(0, 20)};
    CAPTURE(round, name_of(name), s.ranks, s.chunks, s.microbatches, costs.forward, costs.backward, costs.weight,
            costs.message);
    const test::Emulated e = run(name, s, costs);
    REQUIRE(!e.deadlock);
    const std::int64_t weight = rules.splits_backward ? costs.weight : 0;
    const std::int64_t work = s.microbatches * s.chunks * (costs.forward + costs.backward + weight);
    CHECK(e.makespan >= work);
    // The last rank of a loop begins after p - 1 forwards, and p - 1 backwards follow its last one.
    if (rules.placement == StagePlacement::loop && !rules.splits_backward) {
      CHECK(e.makespan >= work + (s.ranks - 1) * (costs.forward + costs.backward));
    }
  }
}

// Huang et al. 2019: (p - 1)(F + B + 2 c).
TEST_CASE("bubble of GPipe", "[property][schedule]") {
  Draws draw(2);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(1, 8), m = draw.in(1, 24), f = draw.in(1, 50), b = draw.in(1, 100);
    const std::int64_t c = draw.in(0, 50);
    CAPTURE(round, p, m, f, b, c);
    const auto e = run(ScheduleName::gpipe, {std::uint32_t(p), 1, std::uint32_t(m)}, {f, b, 0, c});
    CHECK(e.makespan - m * (f + b) == (p - 1) * (f + b + 2 * c));
  }
}

// Derived for m >= p: M = m + p - 2 round trips of which every p-th is hidden.
TEST_CASE("bubble of 1F1B with latency", "[property][schedule]") {
  Draws draw(3);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(1, 8), m = draw.in(p, 32), f = draw.in(1, 50), b = draw.in(1, 100);
    const std::int64_t c = draw.in(0, 50), M = m + p - 2;
    CAPTURE(round, p, m, f, b, c);
    const auto e = run(ScheduleName::one_f_one_b, {std::uint32_t(p), 1, std::uint32_t(m)}, {f, b, 0, c});
    CHECK(e.makespan - m * (f + b) == (p - 1) * (f + b) + 2 * c * (M - M / p));
    for (std::int64_t i = 0; i < p; ++i) CHECK(e.peak[std::size_t(i)] == std::min(m, p - i));
  }
}

// With twice the forwards ahead a message of up to F / 3 hides: latency is paid on the way in and out alone.
TEST_CASE("bubble and memory of eager 1F1B", "[property][schedule]") {
  Draws draw(4);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(1, 8), m = draw.in(2 * p, 32), f = draw.in(3, 50), b = draw.in(f, 100);
    const std::int64_t c = draw.in(0, f / 3);
    CAPTURE(round, p, m, f, b, c);
    const auto e = run(ScheduleName::eager_one_f_one_b, {std::uint32_t(p), 1, std::uint32_t(m)}, {f, b, 0, c});
    CHECK(e.makespan - m * (f + b) == (p - 1) * (f + b + 2 * c));
    for (std::int64_t i = 0; i < p; ++i) CHECK(e.peak[std::size_t(i)] == std::min(m, 2 * (p - 1 - i) + 1));
  }
}

// Narayanan et al. 2021: chunk times F and B give a bubble of (p - 1)(F + B); with messages of up to F / 8 there are
// 2 (p v - 1) of them more.
TEST_CASE("bubble and memory of interleaved 1F1B", "[property][schedule]") {
  Draws draw(5);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(2, 8), v = draw.in(2, 4), m = p * draw.in(2, 4), f = draw.in(8, 50);
    const std::int64_t b = draw.in(f, 100), c = draw.in(0, f / 8);
    CAPTURE(round, p, v, m, f, b, c);
    const auto e = run(ScheduleName::interleaved, {std::uint32_t(p), std::uint32_t(v), std::uint32_t(m)}, {f, b, 0, c});
    CHECK(e.makespan - m * v * (f + b) == (p - 1) * (f + b) + 2 * (p * v - 1) * c);
    for (std::int64_t i = 0; i < p; ++i) {
      CHECK(e.peak[std::size_t(i)] == std::min(m * v, 2 * (p - 1 - i) + (v - 1) * p + 1));
    }
  }
}

// Lamy-Poirier 2023: as interleaved, for m >= p, all m microbatches in memory.
TEST_CASE("bubble and memory of looped breadth-first", "[property][schedule]") {
  Draws draw(6);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(1, 8), v = draw.in(2, 4), m = draw.in(p, 24), f = draw.in(1, 50),
                       b = draw.in(1, 100);
    CAPTURE(round, p, v, m, f, b);
    const auto e =
        run(ScheduleName::breadth_first, {std::uint32_t(p), std::uint32_t(v), std::uint32_t(m)}, {f, b, 0, 0});
    CHECK(e.makespan - m * v * (f + b) == (p - 1) * (f + b));
    for (const std::int64_t peak : e.peak) CHECK(peak == m * v);
  }
}

// Qi et al. 2024, table 2, with F = I = W = 1: from a rank's first start to its last end, H1 idles (p - 1)(F + I - W)
// and H2 not at all, holding p and 2 p - 1 microbatches on the first rank.
TEST_CASE("bubble and memory of ZB-H1 and ZB-H2", "[property][schedule]") {
  Draws draw(7);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(1, 8), m = draw.in(2 * p, 32), t = draw.in(1, 50);
    CAPTURE(round, p, m, t);
    const PipelineShape shape{std::uint32_t(p), 1, std::uint32_t(m)};
    const auto h1 = run(ScheduleName::zb_h1, shape, {t, t, t, 0});
    CHECK(h1.span - 3 * m * t == (p - 1) * t);
    const auto h2 = run(ScheduleName::zb_h2, shape, {t, t, t, 0});
    CHECK(h2.span == 3 * m * t);
    CHECK(h2.makespan - 3 * m * t == (p - 1) * t);
    for (std::int64_t i = 0; i < p; ++i) {
      CHECK(h1.peak[std::size_t(i)] == p - i);
      CHECK(h2.peak[std::size_t(i)] == 2 * (p - 1 - i) + 1);
      // Weight gradients that wait keep their part: never more than the first rank's share.
      CHECK(h1.peak_with_weights[std::size_t(i)] <= p + (p > 1 ? 1 : 0));
      CHECK(h2.peak_with_weights[std::size_t(i)] <= 2 * p);
    }
  }
}

// Qi et al., "Pipeline Parallelism with Controllable Memory", 2024: with equal times and m >= 2 p - 1 no rank idles
// between its first and its last action, and each holds 2 p half-size chunks, as 1F1B's first rank does.
TEST_CASE("bubble and memory of ZB-V", "[property][schedule]") {
  Draws draw(8);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(1, 8), m = draw.in(2 * p, 32), t = draw.in(1, 50);
    CAPTURE(round, p, m, t);
    const auto e = run(ScheduleName::zb_v, {std::uint32_t(p), 2, std::uint32_t(m)}, {t, t, t, 0});
    CHECK(e.span == 6 * m * t);
    for (const std::int64_t peak : e.peak) CHECK(peak == 2 * p);
  }
}

// What the search of a released zero-bubble implementation reaches for F = I = W = 1 and free messages: the work plus
// the largest idle time of a rank after its first action.  Ours is no longer from m = 2 p on; with fewer microbatches
// the order for 2 p - 1 of them, cut down, is, and by so much.
TEST_CASE("ZB-V idles no longer than a published search from 2 p microbatches on", "[property][schedule]") {
  struct Published {
    std::uint32_t p, m;
    std::int64_t time, ours;
  };
  for (const Published& it :
       {Published{4, 8, 48, 48}, Published{8, 16, 96, 96}, Published{4, 4, 27, 30}, Published{8, 8, 55, 62}}) {
    CAPTURE(it.p, it.m);
    const std::int64_t span = run(ScheduleName::zb_v, {it.p, 2, it.m}, {1, 1, 1, 0}).span;
    CHECK(span == it.ours);
    if (it.m >= 2 * it.p) CHECK(span <= it.time);
  }
}
