#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "sim/memory/held_memory.hpp"
#include "sim/memory/memory_figures.hpp"
#include "sim/memory/slot_cycles.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

/// A random plan with many more microbatches, so that its pipeline has something to repeat. A custom order keeps the
/// number of microbatches that it has.
PlannedRun long_run(std::uint64_t seed) {
  const PlannedRun drawn = test::random_run(seed);
  PlannedRun run = drawn;
  run.workload.global_batch *= 4 + seed % 13;
  Diagnostics wrong;
  check(run.plan, run.model, run.workload, nullptr, wrong);
  return wrong.empty() ? run : drawn;
}

/// Segments have a few KiB in place of MiB, so that tiny tensors fill, split and share them as large ones do PyTorch's.
AllocatorRules small_rules(std::uint64_t seed) {
  AllocatorRules rules;
  const unsigned shift = seed % 2 == 0 ? 10 : 12;
  rules.block = 64;
  rules.small_request >>= shift;
  rules.small_segment >>= shift;
  rules.large_segment >>= shift;
  rules.own_segment >>= shift;
  rules.segment_multiple >>= shift;
  rules.large_remainder >>= shift;
  return rules;
}

/// What a training program holds beside tensors. FSDP keeps products of layers that it gathers again for the backward
/// pass.
FrameworkMemory framework_of(std::uint64_t seed, const Plan& plan) {
  const std::uint32_t zero_stage = plan.zero_stage;
  FrameworkMemory framework;
  framework.weight_gradients = static_cast<WeightGradients>(seed % 3);
  framework.cross_entropy = static_cast<CrossEntropy>(seed / 3 % 4);
  framework.workspaces = Bytes::of(seed % 5 == 0 ? 0.0 : 3000.0);
  if (seed % 4 == 3) return framework;
  if (zero_stage == 3) {
    framework.states = StateLayout::fsdp;
    framework.kept_products = Bytes::of(plan.reshard_after_forward ? 700.0 : 0.0);
  } else if (zero_stage != 2) {
    framework.states = StateLayout::contiguous;
  }
  return framework;
}

}  // namespace

TEST_CASE("figures of memory are those of the full play, to the byte", "[property][memory]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 301)));
  const PlannedRun run = long_run(seed);
  CAPTURE(seed, test::describe(run));
  const Program program = lower(run.model, run.workload, run.plan);
  for (const FrameworkMemory& framework : {FrameworkMemory{}, framework_of(seed, run.plan)}) {
    for (const bool expandable : {false, true}) {
      AllocatorRules rules = small_rules(seed);
      rules.expandable = expandable;
      const std::vector<MemoryFigures> whole = memory_figures(program, framework, rules, Repeats::played);
      CHECK(memory_figures(program, framework, rules) == whole);
      // There is room for a little less than was reserved, or for less than lives: segments go back, or everything is
      // beyond the capacity.
      std::uint64_t reserved = 0, live = 0;
      for (const MemoryFigures& m : whole) reserved = std::max(reserved, m.reserved), live = std::max(live, m.live);
      for (const std::uint64_t capacity : {reserved - reserved / 50, live, live / 2}) {
        CAPTURE(expandable, capacity);
        rules.capacity = capacity;
        CHECK(memory_figures(program, framework, rules) == memory_figures(program, framework, rules, Repeats::played));
      }
    }
  }
}

// The allocator's own sizes are tested too, where most tensors share segments.
TEST_CASE("figures of memory are those of the full play in PyTorch's segments", "[property][memory]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(301, 341)));
  const PlannedRun run = long_run(seed);
  CAPTURE(seed, test::describe(run));
  const Program program = lower(run.model, run.workload, run.plan);
  CHECK(memory_figures(program) == memory_figures(program, {}, {}, Repeats::played));
}

TEST_CASE("a cycle's slots are those of a period before, of later microbatches", "[property][memory]") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 101)));
  const PlannedRun run = long_run(seed);
  CAPTURE(seed, test::describe(run));
  const Program program = lower(run.model, run.workload, run.plan);
  for (const RankClass& ranks : program.classes) {
    std::size_t end = 0;
    for (const SlotCycle& c : slot_cycles(ranks.step)) {
      REQUIRE(c.period > 0);
      REQUIRE(c.first >= end);
      REQUIRE(c.last >= c.first + 3 * c.period);
      REQUIRE(c.last <= ranks.step.size());
      end = c.last;
      for (std::size_t i = c.first; i + c.period < c.last; ++i) {
        Slot later = ranks.step[i];
        later.microbatch += static_cast<std::uint32_t>(c.shift);
        later.receives_ahead = ranks.step[i + c.period].receives_ahead;
        REQUIRE(later == ranks.step[i + c.period]);
      }
    }
  }
}

// This is 1F1B on two stages: the first has one microbatch under way, then each forward pass is followed by a backward
// one, until the last is alone. The part of a step outside the cycle is no more than four microbatches' slots.
TEST_CASE("of a long step most slots lie in a cycle", "[unit][memory]") {
  test::RandomRunLimits limits;
  limits.schedule = ScheduleName::one_f_one_b;
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 21)));
  PlannedRun run = test::random_run(seed, limits);
  run.workload.global_batch *= 20;
  CAPTURE(seed, test::describe(run));
  const Program program = lower(run.model, run.workload, run.plan);
  for (const RankClass& ranks : program.classes) {
    std::size_t most = 0;
    for (const SlotCycle& c : slot_cycles(ranks.step)) most = std::max(most, c.last - c.first);
    CHECK(2 * most > ranks.step.size());
  }
}

}  // namespace orrery
