#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/lower/schedule.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/walk.hpp"
#include "tests/property/sim/estimate/prices.hpp"
#include "tests/support/pipeline_emulation.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery {
namespace {

/// A model of one layer per stage, lowered; nothing but layers and messages will cost time.
Program pipeline_program(std::uint32_t stages, std::uint32_t microbatches, ScheduleName schedule,
                         std::uint32_t chunks = 1) {
  const bool two_way = rules_of(schedule).placement == StagePlacement::two_way;
  const std::uint32_t layers = two_way ? stages : stages * chunks;
  const ModelSpec m =
      test::tiny_gpt({.layers = layers, .hidden = 8, .heads = 2, .vocabulary = 16, .positions = 8, .tied = false});
  Workload w;
  w.global_batch = microbatches;
  w.sequence_length = 4;
  w.precision = Precision::fp32;
  Plan plan;
  plan.mesh = Mesh{{{Axis::pipeline, stages}}};
  plan.schedule = schedule;
  plan.chunks = chunks;
  plan.stage_layers = std::vector<std::uint32_t>(layers, 1);
  plan.gradient_bucket = Bytes::of(1);
  plan.overlap_gradients = false;
  plan.attention = AttentionKernel::flash;
  return lower(m, w, plan);
}

/// `forward` and `backward` per layer and microbatch, `message` per transfer.
Prices pipeline_prices(const Program& program, Picoseconds forward, Picoseconds backward, Picoseconds message,
                       Picoseconds weight = 0) {
  Prices prices;
  resize(prices, program);
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    const Picoseconds whole = block.name == "layer.forward"    ? forward
                              : block.name == "layer.backward" ? backward
                              : block.name == "layer.weight"   ? weight
                                                               : 0;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      if (!std::holds_alternative<Compute>(block.ops[i].action)) continue;
      prices.op[prices.first_op[b] + i] = whole;  // all of it in the first op
      break;
    }
  }
  std::fill(prices.transfer.begin(), prices.transfer.end(), message);
  return prices;
}

Picoseconds estimated(const Program& program, const Prices& prices) {
  CompiledProgram compiled;
  compiled.compile(program, prices);
  Walk walk;
  walk.run(compiled);
  return walk.step_time();
}

Picoseconds simulated(const Program& program, const Prices& prices, const Perturbation& slow = {}) {
  const Timing timing = simulate_times(program, prices, false, slow);
  Picoseconds end = 0;
  for (const RankTrace& r : timing.trace.ranks) {
    for (const Span& s : r.spans) end = std::max(end, s.end);
  }
  return end;
}

}  // namespace

// GPipe, equal stages: step = m (F + B) + (p - 1)(F + B + 2 c), c the time of a message (schedules of Huang et
// al., 2019, with a latency on each of the p - 1 edges, once forward and once backward).
TEST_CASE("GPipe's bubble is (p - 1)(F + B + 2 c)", "[property][schedule]") {
  test::Draws draw(11);
  for (int round = 0; round < 150; ++round) {
    const auto p = static_cast<std::uint32_t>(draw.in(1, 8));
    const auto m = static_cast<std::uint32_t>(draw.in(1, 16));
    const Picoseconds f = draw.in(1, 50);
    const Picoseconds b = draw.in(1, 100);
    // A message that takes longer than the work beside it would queue behind the one before.
    const Picoseconds c = draw.in(0, std::min(f, b));
    CAPTURE(round, p, m, f, b, c);
    const Program program = pipeline_program(p, m, ScheduleName::gpipe);
    const Prices prices = pipeline_prices(program, f, b, c);
    const Picoseconds expected = m * (f + b) + (p - 1) * (f + b + 2 * c);
    CHECK(estimated(program, prices) == expected);
    CHECK(simulated(program, prices) == expected);
  }
}

// 1F1B, equal stages, m >= p: bubble = (p - 1)(F + B) + 2 c (M - floor(M / p)), M = m + p - 2.  The latency
// appears in the steady state too, because each backward waits for a round trip.
TEST_CASE("1F1B's bubble has the latency term 2 c (M - floor(M / p))", "[property][schedule]") {
  test::Draws draw(12);
  for (int round = 0; round < 300; ++round) {
    const auto p = static_cast<std::uint32_t>(draw.in(1, 8));
    const auto m = static_cast<std::uint32_t>(draw.in(p, 24));
    const Picoseconds f = draw.in(1, 50);
    const Picoseconds b = draw.in(1, 100);
    const Picoseconds c = draw.in(0, std::min(f, b));
    CAPTURE(round, p, m, f, b, c);
    const Program program = pipeline_program(p, m, ScheduleName::one_f_one_b);
    const Prices prices = pipeline_prices(program, f, b, c);
    const Picoseconds all = m + p - 2;
    const Picoseconds expected = m * (f + b) + (p - 1) * (f + b) + 2 * c * (all - all / p);
    CHECK(estimated(program, prices) == expected);
    CHECK(simulated(program, prices) == expected);
  }
}

// Derived, for a rank s of p that computes 1 + x times as long, and m >= p. All m microbatches cross it, and the wait
// of its first p - 1 - s hides as many of its delays: x (F + B)(m - (p - 1 - s)). With 8 stages, 32 microbatches and B
// = 2 F stage 3 costs 3.6 % at x = 5 % and 7.2 % at 10 %; m x / (m + p - 1) bounds them by 4.1 % and 8.2 %.
TEST_CASE("a slow rank of 1F1B costs its share of the microbatches that do not hide it", "[property][schedule]") {
  constexpr Picoseconds forward = 1000, backward = 2000;
  for (const std::uint32_t p : {1U, 2U, 4U, 8U}) {
    for (const std::uint32_t m : {p, 4 * p, 32U}) {
      const Program program = pipeline_program(p, m, ScheduleName::one_f_one_b);
      const Prices prices = pipeline_prices(program, forward, backward, 0);
      const Picoseconds even = simulated(program, prices);
      for (std::uint32_t s = 0; s < p; ++s) {
        for (const int percent : {5, 10}) {
          CAPTURE(p, m, s, percent);
          Perturbation slow;
          slow.slow = {{Rank{s}, 1.0 + percent / 100.0}};
          const Picoseconds more = simulated(program, prices, slow) - even;
          CHECK(more == percent * (forward + backward) / 100 * (m - (p - 1 - s)));
          if (p == 8 && m == 32 && s == 3) {
            CHECK(static_cast<double>(more) / static_cast<double>(even) == Approx(percent * 0.00718).epsilon(1e-3));
          }
        }
      }
    }
  }
}

// The makespan of every schedule's order, run in exact integers with messages beside compute, without any knowledge of
// lists, lanes and early receives. Where ranks have neighbours on two sides for one direction, messages of both queue
// on one lane, in the order of the lists. A tight order (ZB-V, DualPipe) whose messages come in another order then
// waits.
TEST_CASE("a Program takes as long as the order of its schedule", "[property][schedule]") {
  test::Draws draw(13);
  std::array<int, 16> seen{};
  int queued = 0;
  for (int round = 0; round < 700; ++round) {
    const auto name = static_cast<ScheduleName>(draw.in(0, static_cast<int>(ScheduleName::dualpipe)));
    if (name == ScheduleName::custom) continue;
    const ScheduleRules& rules = rules_of(name);
    auto p = static_cast<std::uint32_t>(draw.in(1, 6));
    if (rules.even) p = 2 * (1 + p / 3);
    const auto chunks = static_cast<std::uint32_t>(rules.most_chunks == 0 ? draw.in(2, 4) : rules.least_chunks);
    auto m =
        static_cast<std::uint32_t>(rules.whole_rounds ? p * draw.in(1, 4) : rules.least_rounds * p + draw.in(1, 12));
    if (rules.even) m += m % 2;
    const Picoseconds f = draw.in(1, 50), b = draw.in(1, 100), w = rules.splits_backward ? draw.in(1, 50) : 0;
    const Picoseconds c = draw.in(0, std::min(f, b));
    CAPTURE(round, name_of(name), p, chunks, m, f, b, w, c);
    const Program program = pipeline_program(p, m, name, chunks);
    const Prices prices = pipeline_prices(program, f, b, c, w);
    Plan plan;
    plan.mesh = program.mesh;
    plan.schedule = name;
    plan.chunks = chunks;
    const test::Emulated expected = test::emulate(lowering::orders_of(plan, m), stage_map(plan), m, {f, b, w, c});
    const Picoseconds time = estimated(program, prices);
    CHECK(simulated(program, prices) == time);
    const bool tight = name == ScheduleName::zb_v || name == ScheduleName::dualpipe_v || name == ScheduleName::dualpipe;
    if (tight) {
      CHECK(time >= expected.makespan);
      CHECK(time * 5 <= expected.makespan * 6);
      queued += time > expected.makespan ? 1 : 0;
    } else {
      CHECK(time == expected.makespan);
    }
    ++seen[static_cast<std::size_t>(name)];
  }
  CHECK(queued * 10 < 700);
  for (int s = 0; s <= static_cast<int>(ScheduleName::dualpipe); ++s) {
    if (static_cast<ScheduleName>(s) != ScheduleName::custom) CHECK(seen[static_cast<std::size_t>(s)] > 20);
  }
}

// Stage s of p runs p - 1 - s forwards ahead and holds one more while it works: min(p - s, m) microbatches.
// GPipe holds all m.  Counted on what a layer keeps from forward to backward, by Alloc and Free.
TEST_CASE("1F1B holds min(p - s, m) microbatches on stage s, GPipe all", "[property][schedule]") {
  for (const std::uint32_t p : {1U, 2U, 3U, 5U, 8U}) {
    for (const std::uint32_t m : {1U, 2U, 3U, 7U, 16U}) {
      for (const ScheduleName schedule : {ScheduleName::gpipe, ScheduleName::one_f_one_b}) {
        const Program program = pipeline_program(p, m, schedule);
        for (std::uint32_t stage = 0; stage < p; ++stage) {
          CAPTURE(p, m, stage, static_cast<int>(schedule));
          std::map<std::uint32_t, std::int64_t> live;
          std::map<std::uint32_t, std::int64_t> most;
          for_each_op(program, program.classes[stage].step, [&](const OpRun& r) {
            const auto* alloc = std::get_if<Alloc>(&r.op->action);
            const auto* free = std::get_if<Free>(&r.op->action);
            if (alloc == nullptr && free == nullptr) return;
            const BufferId what = alloc != nullptr ? alloc->what : free->what;
            if (program[what].name != "qkv") return;
            live[index(what)] += alloc != nullptr ? 1 : -1;
            most[index(what)] = std::max(most[index(what)], live[index(what)]);
          });
          REQUIRE(most.size() == 1);
          const std::int64_t expected = schedule == ScheduleName::gpipe ? m : std::min(p - stage, m);
          CHECK(most.begin()->second == expected);
        }
      }
    }
  }
}

}  // namespace orrery
