#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "exec/run/execute_rank.hpp"
#include "exec/run/launch.hpp"
#include "exec/run/post_mortem.hpp"
#include "exec/run/rank_runner.hpp"
#include "exec/train/data.hpp"
#include "tests/support/program_run.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;

namespace {

/// There are 4 ranks, pipeline 2 x tensor 2, with 8 microbatches, and optimizer states in host memory: every kind of
/// op.
PlannedRun four_ranks() {
  PlannedRun run = test::tiny_run(Mesh{{{Axis::pipeline, 2}, {Axis::tensor, 2}}}, 8);
  run.plan.offload_states = 8;
  return run;
}

const char* kind_of(const Op& op) {
  if (std::holds_alternative<Compute>(op.action)) return "compute";
  if (std::holds_alternative<Collective>(op.action)) return "collective";
  if (std::holds_alternative<Exchange>(op.action)) return "exchange";
  if (std::holds_alternative<Copy>(op.action)) return "copy";
  return std::holds_alternative<Alloc>(op.action) ? "alloc" : "free";
}

/// Ops of a rank's step, by kind.
std::map<std::string, std::vector<OpId>> ops_by_kind(const Program& program, Rank rank) {
  std::map<std::string, std::vector<OpId>> ops;
  for_each_op(program, program.classes[class_of(program, rank)].step,
              [&](const OpRun& run) { ops[kind_of(*run.op)].push_back(run.id); });
  return ops;
}

/// Both are in seconds. The first limit must notice the fault; the others are far off, so that a busy machine is no
/// fault.
constexpr double timeout = 0.5, far_off = 30.0;

struct Outcome {
  LaunchOutcome launched;
  std::string text;  ///< post mortem; empty when nothing failed
  double seconds = 0.0;
};

Outcome run_with(const PlannedRun& run, const Program& program, const RunOptions& options, Seconds heartbeat) {
  const test::TemporaryFolder records;
  const auto data = synthetic_data(run.model.vocabulary, 1);
  LaunchOptions how;
  how.ranks = static_cast<std::uint32_t>(program.mesh.size());
  how.ends = ends_of(program, options.concurrent_lanes);
  how.watchdog = options.watchdog;
  how.heartbeat = heartbeat;
  how.records = records.file("");
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome;
  outcome.launched = launch(how, [&](ProcessWorld& world, Recorder& recorder) {
    static_cast<void>(execute_rank(world, program, run.workload, *data, options, "run processes", &recorder));
    return 0;
  });
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (outcome.launched.failure) {
    outcome.text = post_mortem_text(program, *outcome.launched.failure, outcome.launched.recordings);
  }
  return outcome;
}

/// Checks a cell of the matrix: the culprit, its op and the last ops of everyone are named within the time. Returns the
/// seconds from the start of the processes to the end of the last.
double check_cell(const PlannedRun& run, const Program& program, const Fault& fault) {
  RunOptions options;
  options.steps = 2;
  options.watchdog = Seconds::of(fault.kind == Fault::Kind::stalls ? 4 * timeout : far_off);
  options.fault = fault;
  const Seconds heartbeat = Seconds::of(fault.kind == Fault::Kind::stopped ? timeout : far_off);
  const Outcome outcome = run_with(run, program, options, heartbeat);
  CAPTURE(index(fault.kind), index(fault.rank), index(fault.op), outcome.text, outcome.seconds);
  REQUIRE(outcome.launched.failure);
  const RankFailure& failure = *outcome.launched.failure;
  CHECK(failure.rank == fault.rank);
  switch (fault.kind) {
    case Fault::Kind::throws: CHECK(failure.kind == RankFailure::Kind::failed); break;
    case Fault::Kind::exits: CHECK(failure.kind == RankFailure::Kind::left); break;
    case Fault::Kind::killed: CHECK(failure.kind == RankFailure::Kind::killed); break;
    case Fault::Kind::stopped: CHECK(failure.kind == RankFailure::Kind::silent); break;
    case Fault::Kind::stalls: CHECK(failure.kind == RankFailure::Kind::stalled); break;
  }
  // The line is "rank 2 ... in step 1, op 118 (..."; a rank's own message has no step before it.
  const std::string first_line = outcome.text.substr(0, outcome.text.find('\n'));
  CHECK(first_line.find("rank " + std::to_string(index(fault.rank)) + " ") == 0);
  CHECK(first_line.find("op " + std::to_string(index(fault.op)) + " (") != std::string::npos);
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    const auto line = outcome.text.find("\n  rank " + std::to_string(r) + ": ");
    REQUIRE(line != std::string::npos);
    const std::string what = outcome.text.substr(line + 1, outcome.text.find('\n', line + 1) - line - 1);
    CHECK(what.find("; completed ") != std::string::npos);
  }
  // Half a second at most is needed to notice; the rest is for starting processes and running to the op on a busy
  // machine.
  CHECK(outcome.seconds < 10.0);
  return outcome.seconds;
}

}  // namespace

TEST_CASE("a rank that is killed, stopped, leaves, throws or stalls at any kind of op ends the run, named",
          "[parity][fault][processes]") {
  const PlannedRun run = four_ranks();
  const Program program = lower(run.model, run.workload, run.plan);
  int cells = 0;
  std::set<std::string> kinds;
  for (const Fault::Kind kind : {Fault::Kind::throws, Fault::Kind::exits, Fault::Kind::killed, Fault::Kind::stopped}) {
    std::uint32_t r = 0;
    for (std::uint32_t turn = 0; turn < 2; ++turn) {
      for (const auto& [name, ops] : ops_by_kind(program, Rank{0})) {
        // Each rank has its turn, with an early op and a late one.
        const Rank rank{r++ % 4};
        const std::vector<OpId> here = ops_by_kind(program, rank).at(name);
        static_cast<void>(check_cell(run, program, {kind, rank, turn == 0 ? here.front() : here.back(), 1 + turn}));
        kinds.insert(name);
        ++cells;
      }
    }
  }
  CHECK(kinds.size() == 6);
  CHECK(cells == 48);
}

TEST_CASE("a rank that lives but does not go on is named by those who wait for it", "[parity][fault][processes]") {
  const PlannedRun run = four_ranks();
  const Program program = lower(run.model, run.workload, run.plan);
  const Rank rank{2};
  static_cast<void>(
      check_cell(run, program, {Fault::Kind::stalls, rank, ops_by_kind(program, rank).at("compute").at(3), 1}));
}

TEST_CASE("a run of processes without a fault is none, whatever the lanes", "[parity][fault][processes]") {
  const PlannedRun run = four_ranks();
  const Program program = lower(run.model, run.workload, run.plan);
  RunOptions options;
  options.steps = 3;
  options.concurrent_lanes = GENERATE(false, true);
  const Outcome outcome = run_with(run, program, options, Seconds::of(5));
  CAPTURE(outcome.text);
  CHECK_FALSE(outcome.launched.failure);
  CHECK(outcome.launched.status == 0);
}

// The whole matrix takes half an hour for each way to fail, which is a section of its own (parity_processes
// "[kill-matrix]" -c SIGSTOP). The test prints its table, which docs/running.md keeps.
TEST_CASE("the kill matrix: every rank, every op, every way to fail", "[.][kill-matrix][long]") {
  const PlannedRun run = four_ranks();
  const Program program = lower(run.model, run.workload, run.plan);
  struct Row {
    int cells = 0;
    std::vector<double> seconds;
  };
  constexpr std::pair<Fault::Kind, const char*> kinds[] = {{Fault::Kind::killed, "SIGKILL"},
                                                           {Fault::Kind::stopped, "SIGSTOP"},
                                                           {Fault::Kind::exits, "exit"},
                                                           {Fault::Kind::throws, "throw"}};
  for (const auto& [kind, name] : kinds) {
    SECTION(name) {
      std::map<std::string, Row> rows;
      for (std::uint32_t r = 0; r < 4; ++r) {
        for (const auto& [op_kind, ops] : ops_by_kind(program, Rank{r})) {
          for (const OpId op : ops) {
            Row& row = rows[op_kind];
            row.seconds.push_back(check_cell(run, program, {kind, Rank{r}, op, 1}));
            ++row.cells;
          }
        }
      }
      for (auto& [op_kind, row] : rows) {
        std::sort(row.seconds.begin(), row.seconds.end());
        std::printf("| %s | %s | %d | %.2f | %.2f |\n", name, op_kind.c_str(), row.cells,
                    row.seconds[row.seconds.size() / 2], row.seconds.back());
      }
      std::fflush(stdout);
    }
  }
}
