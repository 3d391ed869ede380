#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "exec/comm/mpi_communicator.hpp"
#include "exec/run/execute_rank.hpp"
#include "exec/run/launch.hpp"
#include "exec/run/rank_runner.hpp"
#include "exec/run/recorder.hpp"
#include "exec/train/data.hpp"
#include "tests/support/program_run.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/run_outcome.hpp"

using namespace orrery;

// Rank 0's process has the results of all ranks; it leaves them in a file for this one.
TEST_CASE("ranks as processes compute what ranks as threads do, to the bit", "[parity][processes]") {
  for (std::uint64_t seed = 4000; seed < 4005; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed, 0.1);
    RunOptions options;
    options.poison = true;
    options.steps = 2;
    options.concurrent_lanes = seed % 4 == 0;
    const test::RunOutcome threads = test::outcome_of(program, options, [&](const RunOptions& o) {
      return execute(program, run.model, run.workload, run.plan, *data, o);
    });
    const test::TemporaryFolder folder;
    LaunchOptions how;
    how.ranks = static_cast<std::uint32_t>(program.mesh.size());
    how.ends = ends_of(program, options.concurrent_lanes);
    how.records = folder.file("");
    const LaunchOutcome launched = launch(how, [&](ProcessWorld& world, Recorder& recorder) {
      const auto train = [&](const RunOptions& o) {
        return execute_rank(world, program, run.workload, *data, o, "run processes", &recorder);
      };
      if (world.rank() != Rank{0}) return train(options).has_value() ? 1 : 0;
      const test::RunOutcome own = test::outcome_of(program, options, [&](const RunOptions& o) { return *train(o); });
      const std::string difference = test::difference(threads, own);
      std::ofstream(folder.file("difference")) << difference;
      return difference.empty() ? 0 : 1;
    });
    CAPTURE(test::contents(folder.file("difference")));
    if (launched.failure) FAIL(launched.failure->what);
    CHECK(launched.status == 0);
  }
}

TEST_CASE("a record keeps the last ops and outlives its writer", "[recorder]") {
  const test::TemporaryFolder folder;
  const auto file = Recorder::file(folder.file(""), Rank{3});
  {
    Recorder recorder(file, Rank{3}, 8);
    recorder.set_process(42);
    recorder.set_waits_for(Rank{5});
    for (std::uint32_t i = 0; i < Recorder::kept + 10; ++i) {
      recorder.begin(0, 7, OpId{i});
      recorder.end(0, {7, OpId{i}, i, i + 1});
    }
    recorder.begin(1, 8, OpId{99});
    recorder.set_state(RankState::failed, std::string(3000, 'x'));
  }
  const Recording r = Recorder(file).read();
  CHECK(r.rank == Rank{3});
  CHECK(r.ranks == 8);
  CHECK(r.process == 42);
  CHECK(r.waits_for == Rank{5});
  CHECK(r.state == RankState::failed);
  CHECK(r.message == std::string(Recorder::longest_text, 'x'));
  REQUIRE(r.current.size() == 1);
  CHECK(r.current[0].step == 8);
  CHECK(r.current[0].op == OpId{99});
  REQUIRE(r.completed.size() == Recorder::kept);
  CHECK(r.completed.front() == RecordedOp{7, OpId{10}, 10, 11});
  CHECK(r.completed.back().op == OpId{Recorder::kept + 9});
}

TEST_CASE("a file that is no record is refused", "[recorder]") {
  const test::TemporaryFolder folder;
  test::write(folder.file("other"), "something else");
  CHECK_THROWS_WITH(Recorder(folder.file("other")), Catch::Contains("is not a record"));
  CHECK_THROWS_WITH(Recorder(folder.file("missing")), Catch::Contains("cannot read the record"));
  CHECK_THROWS_WITH(Recorder(folder.file("no/folder"), Rank{0}, 1), Catch::Contains("cannot make the record"));
}

// Two messages that are under way at once may differ in stream, or in number by less than 1024.
TEST_CASE("tags keep apart in MPI what may be under way at the same time", "[comm][mpi]") {
  for (const std::int64_t largest : {std::int64_t{0x7fffffff}, std::int64_t{0x0fffffff}}) {  // Open MPI's, MPICH's
    std::vector<int> tags;
    for (const std::uint32_t stream : {0U, 1U, 200U, 0x7ffffffeU, 0x7fffffffU, 0x80000000U, 0x800000ffU}) {
      for (const std::uint32_t number : {0U, 1U, 1023U, 70000U, 0xffffffffU}) {
        const int tag = mpi_tag(std::uint64_t{stream} << 32 | number, largest);
        CHECK(tag >= 0);
        CHECK(tag <= largest);
        tags.push_back(tag);
      }
    }
    std::sort(tags.begin(), tags.end());
    CHECK(std::adjacent_find(tags.begin(), tags.end()) == tags.end());
  }
  CHECK_THROWS_WITH(mpi_tag(0, 32767), Catch::Contains("tags up to 32767 only"));
}

TEST_CASE("a module that is not there is said to be missing", "[comm][mpi]") {
  CHECK_THROWS_WITH(MpiSession("/nowhere/orrery_mpi.so"), Catch::Contains("this orrery was built without MPI"));
}
