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

// A schedule may be slow, but never stuck. No order beats the work that has to come before, on and after a rank.
TEST_CASE("no schedule deadlocks or beats the lower bound, whatever its actions cost", "[property][schedule]") {
  Draws draw(1);
  for (int round = 0; round < 3000; ++round) {
    const auto name = static_cast<ScheduleName>(draw.in(0, static_cast<int>(ScheduleName::dualpipe_v)));
    if (name == ScheduleName::custom) continue;
    const ScheduleRules& rules = rules_of(name);
    PipelineShape s;
    s.ranks = draw.small(1, 9);
    s.chunks = rules.most_chunks == 0 ? draw.small(rules.least_chunks, 4) : rules.least_chunks;
    s.microbatches = rules.whole_rounds ? s.ranks * draw.small(1, 4) : rules.least_rounds * s.ranks + draw.small(1, 24);
    const test::StageCosts costs{draw.in(1, 30), draw.in(1, 60), draw.in(1, 30), draw.in(0, 20)};
    if (round % 2 == 0) {
      s.times = {std::uint32_t(costs.forward), std::uint32_t(costs.backward), std::uint32_t(costs.weight),
                 std::uint32_t(costs.message)};
    }
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

// With twice the forwards ahead a message of up to F / 3 hides, so latency is paid only on the way in and out.
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

// With as many microbatches as ranks the last rank, too, begins a backward pass as soon as it can.
TEST_CASE("interleaved 1F1B holds no more microbatches where there are as many as ranks", "[property][schedule]") {
  Draws draw(6);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(2, 8), v = draw.in(2, 4), f = draw.in(8, 50), b = draw.in(f, 100);
    CAPTURE(round, p, v, f, b);
    const auto e = run(ScheduleName::interleaved, {std::uint32_t(p), std::uint32_t(v), std::uint32_t(p)}, {f, b, 0, 0});
    CHECK(e.makespan - p * v * (f + b) == (p - 1) * (f + b));
    for (std::int64_t i = 0; i < p; ++i) {
      CHECK(e.peak[std::size_t(i)] == std::min(p * v, 2 * (p - 1 - i) + (v - 1) * p + 1));
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
    for (const std::int64_t peak : e.peak_with_weights) CHECK(peak == 2 * p);
  }
}

// The best results of a released zero-bubble implementation's search, for whole times of forward, input gradient,
// weight gradient and message: the work plus the largest idle time of a rank after its first action. Where our order
// waits nowhere it cannot be beaten.
TEST_CASE("ZB-V idles no longer than a published search", "[property][schedule]") {
  struct Published {
    std::uint32_t p, m;
    ActionTimes times;
    std::int64_t time, ours;
  };
  for (const Published& it : {Published{4, 4, {1, 1, 1, 0}, 27, 27}, Published{4, 8, {1, 1, 1, 0}, 48, 48},
                              Published{4, 8, {1, 1, 1, 1}, 65, 62}, Published{4, 8, {6, 8, 5, 0}, 317, 311},
                              Published{8, 8, {1, 1, 1, 0}, 55, 55}, Published{8, 16, {1, 1, 1, 0}, 96, 96},
                              Published{8, 16, {6, 8, 5, 0}, 645, 644}}) {
    CAPTURE(it.p, it.m, it.times.forward);
    const ActionTimes& t = it.times;
    const PipelineShape shape{it.p, 2, it.m, t};
    const auto e = run(ScheduleName::zb_v, shape, {t.forward, t.input_gradient, t.weight_gradient, t.message});
    CHECK(e.span == it.ours);
    CHECK(e.span <= it.time);
    const OrderTimes own = times_of(schedule_zb_v(shape), shape, {it.p, 2, StagePlacement::v});
    CHECK(own.span == e.span);
    CHECK(own.makespan == e.makespan);
    for (const std::int64_t peak : e.peak) CHECK(peak <= 2 * it.p);
  }
}

// The order for equal times stays where a search finds no shorter one. A found order never holds more in flight, nor
// more than a chunk's half for each weight gradient that waits, two chunks beyond.
TEST_CASE("an order searched for its times is no longer than that for equal times", "[property][schedule]") {
  Draws draw(9);
  int shorter = 0;
  for (int round = 0; round < 150; ++round) {
    const std::int64_t p = draw.in(1, 6), m = draw.in(1, 16);
    const test::StageCosts costs{draw.in(1, 20), draw.in(1, 20), draw.in(1, 20), draw.in(0, 6)};
    CAPTURE(round, p, m, costs.forward, costs.backward, costs.weight, costs.message);
    const StageMap map{std::uint32_t(p), 2, StagePlacement::v};
    PipelineShape shape{std::uint32_t(p), 2, std::uint32_t(m), {}};
    const auto equal = test::emulate(schedule_zb_v(shape), map, shape.microbatches, costs);
    shape.times = {std::uint32_t(costs.forward), std::uint32_t(costs.backward), std::uint32_t(costs.weight),
                   std::uint32_t(costs.message)};
    const Orders orders = schedule_zb_v(shape);
    const auto found = test::emulate(orders, map, shape.microbatches, costs);
    REQUIRE(!found.deadlock);
    if (m >= 2 * p - 1) CHECK(found.span <= equal.span);  // with fewer, both are searched
    shorter += found.span < equal.span ? 1 : 0;
    for (const auto& order : orders) {
      std::int64_t flying = 0, waiting = 0;
      for (const Action& a : order) {
        if (a.phase == Phase::forward) ++flying;
        CHECK(flying <= 2 * p);
        if (a.phase == Phase::forward) CHECK(2 * flying + waiting <= 4 * p + 4);
        if (a.phase == Phase::backward) --flying, ++waiting;
        if (a.phase == Phase::weight) --waiting;
      }
    }
  }
  CHECK(shorter > 30);
}

// Qi et al. 2024: (p + 2) / 2 microbatches of a rank's whole share, which is p + 2 chunks with the weight gradients
// that wait; one chunk less where p is odd. For F = I = W = 1 and m >= p the time beyond the work is 7 (p - 1) / 2, and
// one and a half more where p is even.
TEST_CASE("bubble and memory of V-Half", "[property][schedule]") {
  Draws draw(10);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(1, 14), m = draw.in(p, 40), t = draw.in(1, 50);
    CAPTURE(round, p, m, t);
    const auto e = run(ScheduleName::v_half, {std::uint32_t(p), 2, std::uint32_t(m)}, {t, t, t, 0});
    CHECK(2 * (e.makespan - 6 * m * t) == (7 * (p - 1) + (p % 2 == 0 ? 3 : 0)) * t);
    CHECK(*std::max_element(e.peak_with_weights.begin(), e.peak_with_weights.end()) == 2 * (p / 2) + 2);
    for (const std::int64_t peak : e.peak_with_weights) CHECK(peak <= p + 2);
  }
}

// (p + 4) / 3 microbatches, which is 2 (p + 4) / 3 chunks with the weight gradients that wait; exactly so where p - 2
// is a multiple of 3. For F = I = W = 1 and m >= p > 1 the time beyond the work is 4 p - 5, or 4 p - 3 where 3 divides
// p.
TEST_CASE("bubble and memory of V-Min", "[property][schedule]") {
  Draws draw(11);
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t p = draw.in(1, 14), m = draw.in(p, 40), t = draw.in(1, 50);
    CAPTURE(round, p, m, t);
    const auto e = run(ScheduleName::v_min, {std::uint32_t(p), 2, std::uint32_t(m)}, {t, t, t, 0});
    CHECK(e.makespan - 6 * m * t == (p == 1 ? 0 : 4 * p - (p % 3 == 0 ? 3 : 5)) * t);
    CHECK(*std::max_element(e.peak.begin(), e.peak.end()) == 2 * (p / 3) + 2);
    CHECK(*std::max_element(e.peak_with_weights.begin(), e.peak_with_weights.end()) ==
          2 * (p / 3) + (p % 3 == 2 ? 4 : 2));
    for (const std::int64_t peak : e.peak_with_weights) CHECK(3 * peak <= 2 * (p + 4));
  }
}

// In steady state V-Half and V-Min are as fast as the work, whatever their memory: 6 units per microbatch.
TEST_CASE("the bubbles of V-Half and V-Min do not grow with microbatches", "[property][schedule]") {
  for (const ScheduleName name : {ScheduleName::v_half, ScheduleName::v_min}) {
    for (std::uint32_t p = 1; p <= 12; ++p) {
      CAPTURE(name_of(name), p);
      const auto few = run(name, {p, 2, p}, {1, 1, 1, 0}), many = run(name, {p, 2, 20 * p}, {1, 1, 1, 0});
      CHECK(few.makespan - 6 * std::int64_t{p} == many.makespan - 6 * 20 * std::int64_t{p});
    }
  }
}

namespace {

/// The makespan of DualPipeV where a forward and the whole backward beside it run as one and end together, as
/// DeepSeek-AI's law counts them. Pairs are those of the steady part: rank i pairs from its action 3 (p - 1 - i) + 2 p
/// on.
std::int64_t makespan_in_pairs(const PipelineShape& shape, const test::StageCosts& costs) {
  const Orders orders = schedule_dualpipe_v(shape);
  const std::uint32_t p = shape.ranks, m = shape.microbatches;
  const StageMap map{p, 2, StagePlacement::v};
  std::vector<std::int64_t> forward(std::size_t{2} * p * m, -1), backward(forward), free(p);
  std::vector<std::size_t> at(p);
  const auto is_paired = [&](std::uint32_t i, std::size_t k) {
    const std::size_t below = p - 1 - i, begin = 2 * below + 2 * (i + 1) + 3 * below, pairs = m - 2 * p + i + 1;
    if (k < begin) return false;
    if (k < begin + 6 * pairs) return (k - begin) % 3 == 0 && !(k == begin && i + 1 == p);
    return k < begin + 6 * pairs + 5 * below && (k - begin - 6 * pairs) % 5 == 2;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t i = 0; i < p; ++i) {
      while (at[i] < orders[i].size()) {
        const std::size_t count = is_paired(i, at[i]) ? 3 : 1;
        std::int64_t end = free[i], takes = 0;
        bool known = true;
        for (std::size_t k = at[i]; k < at[i] + count; ++k) {
          const Action& a = orders[i][k];
          const std::uint32_t stage = map.stage(i, a.chunk);
          const auto needs = [&](const std::vector<std::int64_t>& ends, std::uint32_t of) {
            const std::int64_t there = ends[std::size_t{of} * m + a.microbatch];
            known = known && there >= 0;
            end = std::max(end, there);
          };
          takes += a.phase == Phase::forward    ? costs.forward
                   : a.phase == Phase::backward ? costs.backward
                                                : costs.weight;
          if (a.phase == Phase::forward && stage > 0) needs(forward, stage - 1);
          if (a.phase == Phase::backward) needs(forward, stage);
          if (a.phase == Phase::backward && stage + 1 < 2 * p) needs(backward, stage + 1);
        }
        if (!known) break;
        free[i] = end + takes;
        for (std::size_t k = at[i]; k < at[i] + count; ++k) {
          const Action& a = orders[i][k];
          auto& ends = a.phase == Phase::forward ? forward : backward;
          if (a.phase != Phase::weight) ends[std::size_t{map.stage(i, a.chunk)} * m + a.microbatch] = free[i];
        }
        at[i] += count;
        moved = true;
      }
    }
  }
  return *std::max_element(free.begin(), free.end());
}

}  // namespace

// DeepSeek-AI's law (p - 1)(F&B + B - 3 W), with a pair that takes F + B and B = I + W, for F = I = W: 2 (p - 1) F.
// Here the pair's two are neighbours, each message leaves when its own part is done, and half of that is left.  2 p + 1
// chunks in memory, as published.
TEST_CASE("bubble and memory of DualPipeV", "[property][schedule]") {
  Draws draw(12);
  for (int round = 0; round < rounds / 2; ++round) {
    const std::int64_t p = draw.in(1, 8), m = draw.in(2 * p, 40), t = draw.in(1, 50);
    CAPTURE(round, p, m, t);
    const PipelineShape shape{std::uint32_t(p), 2, std::uint32_t(m)};
    CHECK(makespan_in_pairs(shape, {t, t, t, 0}) - 6 * m * t == (p - 1) * (3 * t + 2 * t - 3 * t));
    const auto e = run(ScheduleName::dualpipe_v, shape, {t, t, t, 0});
    CHECK(e.makespan - 6 * m * t == (p - 1) * t);
    for (const std::int64_t peak : e.peak) CHECK(peak == 2 * p + 1);
    for (const std::int64_t peak : e.peak_with_weights) CHECK(peak == 2 * p + 1);
  }
}
