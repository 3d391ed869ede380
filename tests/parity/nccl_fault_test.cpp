#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "exec/comm/rendezvous.hpp"
#include "exec/device/execute_device.hpp"
#include "exec/run/launch.hpp"
#include "exec/run/post_mortem.hpp"
#include "exec/train/data.hpp"
#include "tests/support/nccl_under_test.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;

namespace {

/// There are 4 ranks, pipeline 2 x tensor 2, with 4 microbatches.
PlannedRun four_ranks() { return test::tiny_run(Mesh{{{Axis::pipeline, 2}, {Axis::tensor, 2}}}, 4); }

/// The k-th op of a kind in a rank's step.
template <class Action>
OpId nth(const Program& program, Rank rank, int k) {
  OpId found{};
  for_each_op(program, program.classes[class_of(program, rank)].step, [&](const OpRun& run) {
    if (std::holds_alternative<Action>(run.op->action) && k-- == 0) found = run.id;
  });
  return found;
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("a rank with a device that is killed, stopped, leaves, throws or stalls ends the run, named",
          "[parity][fault][nccl]") {
  const test::NcclUnderTest nccl(ORRERY_NCCL_STAND_IN);
  const PlannedRun run = four_ranks();
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 1);
  struct Cell {
    Fault::Kind kind;
    Rank rank;
    OpId op;
    RankFailure::Kind seen;
  };
  const std::vector<Cell> cells{
      {Fault::Kind::killed, Rank{2}, nth<Collective>(program, Rank{2}, 1), RankFailure::Kind::killed},
      {Fault::Kind::killed, Rank{1}, nth<Exchange>(program, Rank{1}, 0), RankFailure::Kind::killed},
      {Fault::Kind::exits, Rank{0}, nth<Compute>(program, Rank{0}, 3), RankFailure::Kind::left},
      {Fault::Kind::throws, Rank{3}, nth<Collective>(program, Rank{3}, 0), RankFailure::Kind::failed},
      {Fault::Kind::stopped, Rank{1}, nth<Compute>(program, Rank{1}, 5), RankFailure::Kind::silent},
      {Fault::Kind::stalls, Rank{2}, nth<Compute>(program, Rank{2}, 3), RankFailure::Kind::stalled},
  };
  for (const Cell& cell : cells) {
    const test::TemporaryFolder records;
    RunOptions options;
    options.steps = 2;
    options.watchdog = Seconds::of(cell.kind == Fault::Kind::stalls ? 4.0 : 60.0);
    options.fault = Fault{cell.kind, cell.rank, cell.op, 1};
    LaunchOptions how;
    how.ranks = 4;
    how.watchdog = options.watchdog;
    how.heartbeat = Seconds::of(cell.kind == Fault::Kind::stopped ? 1.0 : 60.0);
    how.records = records.file("");
    const auto start = std::chrono::steady_clock::now();
    const LaunchOutcome outcome = launch(how, [&](ProcessWorld& world, Recorder& recorder) {
      HostDevice device;
      static_cast<void>(execute_device_rank(world, device, nccl.calls, "run devices", program, run.workload, *data,
                                            options, &recorder));
      return 0;
    });
    REQUIRE(outcome.failure);
    const std::string text = post_mortem_text(program, *outcome.failure, outcome.recordings);
    CAPTURE(text, index(cell.kind), since(start));
    CHECK(outcome.failure->kind == cell.seen);
    CHECK(outcome.failure->rank == cell.rank);
    const std::string first_line = text.substr(0, text.find('\n'));
    CHECK(first_line.find("op " + std::to_string(index(cell.op)) + " (") != std::string::npos);
    CHECK(since(start) < 30.0);
  }
}

// Processes run as torchrun or srun start them: only the ranks themselves watch.
TEST_CASE("where no launcher watches, a rank that is killed is noticed by the others", "[parity][fault][nccl]") {
  const test::NcclUnderTest nccl(ORRERY_NCCL_STAND_IN);
  const PlannedRun run = four_ranks();
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 1);
  const test::TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  std::vector<pid_t> processes;
  for (std::uint32_t r = 0; r < 4; ++r) {
    const pid_t process = fork();
    if (process == 0) {
      std::string said = "nothing";
      try {
        RendezvousOptions meeting;
        meeting.rank = r;
        meeting.ranks = 4;
        meeting.place = MeetingPlace::of(folder.file("meet"));
        meeting.host = this_host();
        Met met = meet(meeting);
        SocketWorld world(Rank{r}, std::move(met.peers), {});
        world.find_clock_offset(met.hosts);
        HostDevice device;
        RunOptions options;
        options.steps = 2;
        options.fault = Fault{Fault::Kind::killed, Rank{2}, nth<Collective>(program, Rank{2}, 2), 2};
        static_cast<void>(
            execute_device_rank(world, device, nccl.calls, "run devices", program, run.workload, *data, options));
      } catch (const std::exception& e) {
        said = e.what();
      } catch (const Aborted&) {
        said = "aborted";
      }
      std::ofstream(folder.file("said-" + std::to_string(r))) << said;
      _exit(0);
    }
    processes.push_back(process);
  }
  int saw_it = 0;
  for (std::uint32_t r = 0; r < 4; ++r) {
    int state = 0;
    waitpid(processes[r], &state, 0);
    CHECK(WIFSIGNALED(state) == (r == 2));
    if (r == 2) continue;
    const std::string said = test::contents(folder.file("said-" + std::to_string(r)));
    CAPTURE(r, said);
    // A neighbour that has noticed it before also leaves.
    CHECK(said.find("rank " + std::to_string(r) + " waits for rank ") == 0);
    CHECK(said.find(", which has ended") != std::string::npos);
    saw_it += said.find(" waits for rank 2, which has ended") != std::string::npos ? 1 : 0;
  }
  CHECK(saw_it >= 1);
  CHECK(since(start) < 30.0);
}
