#include "core/record/live_memory.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>

#include "core/program/lower/lower.hpp"
#include "tests/support/hand_program.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {

namespace {

BufferId declare(Program& program, Role role, std::uint64_t bytes, Tier tier = Tier::device) {
  Buffer b;
  b.role = role;
  b.dtype = DType::u8;
  b.count = bytes;
  b.tier = tier;
  program.buffers.push_back(b);
  return BufferId{static_cast<std::uint32_t>(program.buffers.size() - 1)};
}

}  // namespace

// setup: 100 weights.  grow: +10 (x3), each run peaking 5 higher inside.  shrink: -10 (x3), 7 higher inside.
// Peaks: after setup 100; grow 100 + 20 + 10 + 5 = 135 in its last run; shrink 130 + 7 = 137 in its first.
TEST_CASE("The peak of repeated blocks is found in the run that reaches it, with its shares", "[unit][record]") {
  Program program = test::hand_program(1);
  const BufferId weights = declare(program, Role::weight, 100);
  const BufferId kept = declare(program, Role::activation, 10);
  const BufferId five = declare(program, Role::workspace, 5);
  const BufferId seven = declare(program, Role::workspace, 7);
  const BufferId far = declare(program, Role::moment, 1000, Tier::host);
  test::HandBlock setup(program, "setup");
  setup.alloc(weights);
  setup.alloc(far);  // host memory does not count to the device's peak
  const BlockId s = setup.finish();
  test::HandBlock grow(program, "grow");
  grow.alloc(kept);
  grow.alloc(five);
  grow.free(five);
  const BlockId g = grow.finish();
  test::HandBlock shrink(program, "shrink");
  shrink.alloc(seven);
  shrink.free(seven);
  shrink.free(kept);
  const BlockId h = shrink.finish();
  program.classes[0].setup = {{s, 0, 0, 1, 1}};
  program.classes[0].step = {{g, 0, 0, 3, 1}, {h, 0, 0, 3, 1}};

  LiveMemory memory;
  memory.read(program);
  const StageMemory peak = memory.peak(program, 0);
  CHECK(peak.peak == 137);
  CHECK(peak.weights == 100);
  CHECK(peak.activations == 30);
  CHECK(peak.workspace == 7);
  CHECK(peak.optimizer == 0);

  program.classes[0].step = {{g, 0, 0, 3, 1}};
  CHECK(memory.peak(program, 0).peak == 135);
  CHECK(memory.peak(program, 0).activations == 30);
  CHECK(memory.peak(program, 0).workspace == 5);
}

// This is the definition, op by op: the largest prefix sum over setup and step, with what was live there.
TEST_CASE("Peaks of lowered programs equal a walk over every op", "[unit][record]") {
  LiveMemory memory;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    memory.read(program);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      std::array<std::int64_t, 5> live{};
      std::array<std::int64_t, 5> at_peak{};
      std::int64_t total = 0;
      std::int64_t peak = 0;
      const auto visit = [&](const OpRun& r) {
        const auto* alloc = std::get_if<Alloc>(&r.op->action);
        const auto* free = std::get_if<Free>(&r.op->action);
        if (alloc == nullptr && free == nullptr) return;
        const Buffer& b = program[alloc != nullptr ? alloc->what : free->what];
        if (b.tier != Tier::device) return;
        const std::int64_t size = static_cast<std::int64_t>(b.count * size_of(b.dtype)) * (alloc != nullptr ? 1 : -1);
        total += size;
        live[LiveMemory::share_of(b.role)] += size;
        if (total > peak) {
          peak = total;
          at_peak = live;
        }
      };
      for_each_op(program, program.classes[c].setup, visit);
      const std::int64_t persistent = total;
      for_each_op(program, program.classes[c].step, visit);
      CHECK(total == persistent);  // a step leaves live what setup left
      const StageMemory m = memory.peak(program, c);
      CHECK(static_cast<std::int64_t>(m.peak) == peak);
      CHECK(static_cast<std::int64_t>(m.weights) == at_peak[0]);
      CHECK(static_cast<std::int64_t>(m.gradients) == at_peak[1]);
      CHECK(static_cast<std::int64_t>(m.optimizer) == at_peak[2]);
      CHECK(static_cast<std::int64_t>(m.activations) == at_peak[3]);
      CHECK(static_cast<std::int64_t>(m.workspace) == at_peak[4]);
    }
  }
}

}  // namespace orrery
