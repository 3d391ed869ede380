#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

#include "core/plan/plan_check.hpp"
#include "exec/checkpoint/restore.hpp"
#include "tests/support/memory_disk.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/training.hpp"

using namespace orrery;
using test::all_ranks;
using test::state_bytes;
using test::StateBytes;
using test::Training;

TEST_CASE("a run resumed under its plan is bit for bit the run that was not interrupted", "[parity][checkpoint]") {
  for (std::uint64_t seed = 4000; seed < 4020; ++seed) {
    test::RandomRunLimits limits;
    limits.max_ranks = 8;
    if (seed % 4 == 0) limits.zero_stage = 3, limits.chunks = true;
    if (seed % 10 == 1) limits.architectures = true;
    if (seed % 10 == 2) limits.predictions = true, limits.tensor = TensorAlgorithm::one_d;
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(seed, test::describe(run));
    Diagnostics wrong;
    check(run.plan, run.model, run.workload, nullptr, wrong);
    REQUIRE(wrong.empty());
    const Training training(run);
    test::MemoryDisk disk;
    StateBytes saved, last, loaded, resumed;
    const auto whole = training.train(1, 4, [&](const RunEvent& e) {
      if (e.step == 2) {
        saved = state_bytes(training.program, *e.buffers);
        training.save(disk, *e.buffers, e.step);
      }
      if (e.step == 4) last = state_bytes(training.program, *e.buffers);
    });
    auto found = newest_whole(disk, "dir");
    REQUIRE(found.checkpoint);
    REQUIRE(found.checkpoint->manifest.step == 2);
    const auto rest = training.train(
        3, 2,
        [&](const RunEvent& e) {
          if (e.step == 0) {
            restore(*found.checkpoint, training.program, all_ranks(training.program), *e.buffers);
            loaded = state_bytes(training.program, *e.buffers);
          }
          if (e.step == 2) resumed = state_bytes(training.program, *e.buffers);
        },
        seed % 2 == 0);
    CHECK(loaded == saved);
    CHECK(resumed == last);
    CHECK(rest == std::vector<double>(whole.begin() + 2, whole.end()));
  }
}

TEST_CASE("ranks write every element of the state exactly once", "[parity][checkpoint]") {
  for (std::uint64_t seed = 5000; seed < 5030; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    std::map<std::pair<std::string, std::string>, std::vector<int>> times;
    for (const auto& parts : written_parts(program)) {
      for (const HeldPart& held : parts) {
        auto& list = times[{held.part.what, held.part.tensor}];
        list.resize(element_count(held.part.slice));
        for_each_stretch(held.part.slice, [&](std::uint64_t global, std::uint64_t, std::uint64_t n) {
          for (std::uint64_t i = 0; i < n; ++i) ++list[global + i];
        });
      }
    }
    for (const auto& [name, list] : times) {
      CAPTURE(name.first, name.second);
      CHECK(std::all_of(list.begin(), list.end(), [](int n) { return n == 1; }));
    }
  }
}
