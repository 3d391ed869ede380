#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "core/program/lower/lower.hpp"
#include "core/record/summarize.hpp"
#include "core/record/traffic.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/walk.hpp"
#include "tests/property/sim/estimate/prices.hpp"
#include "tests/support/folded_experts.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

/// Lets blocks run up to `most` times as often, alike in every class, to test the walk's short cut for repeated blocks.
/// Only blocks that meet no other class are repeated.
void repeat_more(Program& program, std::uint64_t seed, std::int64_t most) {
  std::set<std::uint32_t> meeting;
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    for (const Op& op : program.blocks[b].ops) {
      const auto* collective = std::get_if<Collective>(&op.action);
      bool crosses = std::holds_alternative<Exchange>(op.action);
      if (collective != nullptr) {
        for (const Axis a : program[collective->group].axes) crosses = crosses || a == Axis::pipeline;
      }
      if (crosses) meeting.insert(b);
    }
  }
  test::Draws draw(seed);
  for (RankClass& ranks : program.classes) {
    for (Slot& slot : ranks.step) {
      if (!meeting.contains(index(slot.block))) slot.repeat *= static_cast<std::uint32_t>(draw.in(1, most));
    }
  }
}

/// Every sixth with prediction modules; with folded experts where they can be.
PlannedRun draw(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.predictions = seed % 6 == 0;
  if (limits.predictions) limits.tensor = TensorAlgorithm::one_d;
  PlannedRun run = test::random_run(seed, limits);
  if (PlannedRun folded = run; test::fold_experts(folded, seed)) return folded;
  return run;
}

}  // namespace

// Estimate evaluates blocks from remembered outcomes and classes by rendezvous; simulate keeps an event queue and looks
// at every op. The two share only the Program and the prices, which are integers, so there is no tolerance.
TEST_CASE("Estimate and simulate agree to the picosecond, busy, exposed and exchange time included",
          "[property][estimate][simulate]") {
  Walk walk;
  CompiledProgram compiled;
  std::size_t many_lanes = 0;  // blocks with outcomes that depend on more lanes than five
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    Program program = lower(run.model, run.workload, run.plan);
    if (seed % 2 == 0) repeat_more(program, seed, 12);
    for (const bool concurrent : {true, false}) {
      CAPTURE(concurrent);
      const Prices prices = test::random_prices(program, seed, concurrent);
      compiled.compile(program, prices);
      walk.run(compiled);
      for (const CompiledBlock& block : compiled.blocks) {
        many_lanes += block.keeps_outcomes && block.watched_count > 5 && block.outcome_count > 0 ? 1U : 0U;
      }
      const Timing timing = simulate_times(program, prices, false);
      REQUIRE(timing.trace.ranks.size() == program.classes.size());
      std::int64_t step = 0;
      for (std::size_t c = 0; c < program.classes.size(); ++c) {
        CAPTURE(c);
        // Idle stretches follow each other; with busy time they fill the rank's step, and by cause they are its sums.
        std::int64_t told = 0, collectives = 0, messages = 0, bubble = 0;
        bool in_order = true;
        const RankTimes times = account(program, timing.trace.ranks[c], concurrent, [&](const IdlePart& part) {
          in_order = in_order && part.span.start >= told && part.span.end > part.span.start;
          told = part.span.end;
          const std::int64_t length = part.span.end - part.span.start;
          (part.cause == IdlePart::Cause::collective ? collectives : messages) +=
              part.cause == IdlePart::Cause::bubble ? 0 : length;
          bubble += part.cause == IdlePart::Cause::bubble ? length : 0;
        });
        CHECK(in_order);
        CHECK(collectives == times.collectives);
        CHECK(collectives + messages == times.exposed);
        CHECK(collectives + messages + bubble + times.busy == times.end);
        const ClassTimes& walked = walk.classes()[c];
        CHECK(walked.end == times.end);
        CHECK(walked.busy == times.busy);
        CHECK(walked.exposed.all == times.exposed);
        CHECK(walked.exposed.collectives == times.collectives);
        CHECK(times.collectives <= times.exposed);
        CHECK(walked.exchange == times.time[index(exchange_operation)]);
        CHECK(walked.exchanges == times.count[index(exchange_operation)]);
        CHECK(times.busy + times.exposed <= times.end);
        step = std::max(step, times.end);
      }
      CHECK(walk.step_time() == step);
    }
  }
  CHECK(many_lanes > 0);
}

// All ranks of a class do the same at the same time, so simulating one of them is simulating all.
TEST_CASE("A folded simulation equals the expanded one on every rank", "[property][simulate]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    for (const bool concurrent : {true, false}) {
      const Prices prices = test::random_prices(program, seed, concurrent);
      const Timing folded = simulate_times(program, prices, false);
      const Timing expanded = simulate_times(program, prices, true);
      REQUIRE(expanded.trace.ranks.size() == program.mesh.size());
      for (const RankTrace& r : expanded.trace.ranks) {
        CAPTURE(concurrent, index(r.rank));
        CHECK(r.spans == folded.trace.ranks[class_of(program, r.rank)].spans);
      }
    }
  }
}

// Ring algorithms: the sum over ranks of what each sends, op by op, is what whole rings move.
TEST_CASE("Bytes sent are the same by rank, by ring and by the walk", "[property][traffic]") {
  Walk walk;
  CompiledProgram compiled;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    std::uint64_t bytes = 0;
    for (std::uint32_t rank = 0; rank < program.mesh.size(); ++rank) {
      for_each_op(program, program.classes[class_of(program, Rank{rank})].step,
                  [&](const OpRun& r) { bytes += sent_bytes(program, *r.block, *r.op, Rank{rank}); });
    }
    CHECK(program_sent_bytes(program) == bytes);
    const Prices prices = test::random_prices(program, seed, true);
    compiled.compile(program, prices);
    walk.run(compiled);
    CHECK(walk.sent_bytes() == bytes);
  }
}

TEST_CASE("The same seed gives the same noise, and noise never shortens a step", "[property][simulate]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const Prices prices = test::random_prices(program, seed, true);
    const auto end_of = [](const Timing& t) {
      std::int64_t end = 0;
      for (const RankTrace& r : t.trace.ranks) {
        for (const Span& s : r.spans) end = std::max(end, s.end);
      }
      return end;
    };
    const Timing quiet = simulate_times(program, prices, true);
    const Timing once = simulate_times(program, prices, true, {Noise{seed, 0.1}, {}});
    const Timing again = simulate_times(program, prices, true, {Noise{seed, 0.1}, {}});
    CHECK(once.trace == again.trace);
    // Every op takes at least its price and the order of ops on lanes is fixed, so times can only grow.
    CHECK(end_of(once) >= end_of(quiet));
  }
}

}  // namespace orrery
