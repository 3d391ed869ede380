#include "exec/run/core_time.hpp"

#include <catch2/catch.hpp>
#include <thread>

#include "core/program/lower/lower.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

TEST_CASE("kernels need a core each, and no more than there are", "[unit][exec]") {
  PlannedRun run = test::random_run(3);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto ranks = static_cast<std::uint32_t>(program.mesh.size());
  REQUIRE(ranks > 1);
  // Every kernel of every rank takes 2 ps, and all ranks run theirs at the same time.
  Trace trace;
  std::uint64_t least = UINT64_MAX;
  std::uint64_t kernels = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    RankTrace rank;
    rank.rank = Rank{r};
    std::int64_t at = 0;
    std::uint64_t own = 0;
    for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun& op) {
      const bool compute = std::holds_alternative<Compute>(op.op->action);
      rank.spans.push_back({at, at + (compute ? 2 : 0)});
      at = rank.spans.back().end;
      own += compute ? 1 : 0;
    });
    least = std::min(least, own);
    kernels += own;
    trace.ranks.push_back(std::move(rank));
  }
  CHECK(needed_core_time(program, trace, ranks) == Approx(2e-12 * static_cast<double>(kernels)));
  // With one core it is as long as the rank with most kernels.
  CHECK(needed_core_time(program, trace, 1) < 2e-12 * static_cast<double>(kernels));
  CHECK(needed_core_time(program, trace, 1) >= 2e-12 * static_cast<double>(least) * (1.0 - 1e-9));
  // With ranks - 1 cores they are short only while all run.
  CHECK(needed_core_time(program, trace, ranks - 1) ==
        Approx(2e-12 * static_cast<double>(kernels - least)).epsilon(1e-9));
}

TEST_CASE("a shortage of cores is said with its numbers, from a tenth", "[unit][exec]") {
  CHECK_FALSE(core_shortage({}));
  CHECK_FALSE(core_shortage({2.0, 2.5}));
  CHECK_FALSE(core_shortage({2.0, 1.8}));
  CHECK(core_shortage({2.0, 1.0}) ==
        "this machine was busy: the threads were given 1 s of the 2 s of core time that they needed (50 %), so the "
        "times are too long; measure again when nothing else runs");
}

TEST_CASE("core time that a thread of its own was given counts as the program's", "[unit][exec]") {
  const SerialWork serial;
  const double before = program_core_seconds();
  std::thread([&] {
    while (program_core_seconds() < before + 0.02) {
    }
  }).join();
  const CoreTime time = serial.so_far();
  CHECK(time.had >= 0.02);
  CHECK(time.needed > 0.0);
}
