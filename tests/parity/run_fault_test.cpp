#include <catch2/catch.hpp>

#include <chrono>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/lower.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/data.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;

namespace {

/// 2 x 2 x 2 ranks of a tiny GPT.
PlannedRun cube() { return test::tiny_run(Mesh{{{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}}}, 4); }

/// Number of the rank's first op of the step for which `wanted` holds.
template <class Wanted>
OpId first_op(const Program& program, Rank rank, Wanted wanted) {
  std::optional<OpId> found;
  for_each_op(program, program.classes[class_of(program, rank)].step, [&](const OpRun& run) {
    if (!found && wanted(run)) found = run.id;
  });
  REQUIRE(found.has_value());
  return *found;
}

std::string error_of(const PlannedRun& run, const Program& program, const RunOptions& options) {
  const auto data = synthetic_data(run.model.vocabulary, 1);
  try {
    static_cast<void>(execute(program, run.model, run.workload, run.plan, *data, options));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool is_collective(const OpRun& run) { return std::holds_alternative<Collective>(run.op->action); }
bool is_exchange(const OpRun& run) { return std::holds_alternative<Exchange>(run.op->action); }

}  // namespace

TEST_CASE("a rank that throws ends the run with its name, its op and what every rank did last", "[parity][fault]") {
  const PlannedRun run = cube();
  const Program program = lower(run.model, run.workload, run.plan);
  const Rank rank{static_cast<std::uint32_t>(GENERATE(0, 3, 7))};
  const OpId op = first_op(program, rank, is_collective);
  RunOptions options;
  options.concurrent_lanes = GENERATE(false, true);
  options.steps = 2;
  options.fault = Fault{Fault::Kind::throws, rank, op, 2};
  const std::string error = error_of(run, program, options);
  CAPTURE(error);
  const std::string who = std::to_string(index(rank));
  CHECK(error.find("rank " + who + " failed in op " + std::to_string(index(op)) + " (") == 0);
  CHECK(error.find("injected fault") != std::string::npos);
  for (int r = 0; r < 8; ++r) {
    CHECK(error.find("\n  rank " + std::to_string(r) + ": step ") != std::string::npos);
  }
}

TEST_CASE("a hook that fails when it is told of a failure hides nothing of it", "[parity][fault]") {
  struct Full final : LifecycleHooks {
    void failure(const FailureEvent& e) override {
      told = e.what;
      throw Error("no space left");
    }
    std::string told;
  } full;
  const PlannedRun run = cube();
  const Program program = lower(run.model, run.workload, run.plan);
  RunOptions options;
  options.fault = Fault{Fault::Kind::throws, Rank{3}, first_op(program, Rank{3}, is_collective), 1};
  options.hooks = &full;
  const std::string error = error_of(run, program, options);
  CHECK(error.find("rank 3 failed in op ") == 0);
  CHECK(error == full.told);
}

TEST_CASE("a rank that ends early is named by who waits for it, without waiting for the watchdog", "[parity][fault]") {
  const PlannedRun run = cube();
  const Program program = lower(run.model, run.workload, run.plan);
  const Rank rank{5};
  RunOptions options;
  options.concurrent_lanes = GENERATE(false, true);
  options.watchdog = Seconds::of(300);
  options.fault = Fault{Fault::Kind::exits, rank, first_op(program, rank, is_exchange), 1};
  const auto start = std::chrono::steady_clock::now();
  const std::string error = error_of(run, program, options);
  CAPTURE(error);
  CHECK(error.find("waits for rank 5, which has ended") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
}

TEST_CASE("a rank that stalls is named when the watchdog's time is over", "[parity][fault]") {
  const PlannedRun run = cube();
  const Program program = lower(run.model, run.workload, run.plan);
  const Rank rank{2};
  RunOptions options;
  options.concurrent_lanes = GENERATE(false, true);
  options.watchdog = Seconds::of(0.3);
  const OpId op = first_op(program, rank, is_collective);
  options.fault = Fault{Fault::Kind::stalls, rank, op, 1};
  const std::string error = error_of(run, program, options);
  CAPTURE(error);
  CHECK(error.find(" has waited 0.3 s for rank ") != std::string::npos);
  // The stalled rank shows by its place, because it stands in an op that its group waits for.
  const std::string where = options.concurrent_lanes ? "    lane tensor: " : "  rank 2: step 1, ";
  CHECK(error.find("\n" + where + "in op " + std::to_string(index(op)) + " (") != std::string::npos);
  CHECK(error.find(" over ranks 2 3") != std::string::npos);  // its tensor group
}

TEST_CASE("a fault in the first or the last op of a step never hangs the other ranks", "[parity][fault]") {
  const PlannedRun run = cube();
  const Program program = lower(run.model, run.workload, run.plan);
  const Fault::Kind kind = GENERATE(Fault::Kind::throws, Fault::Kind::exits, Fault::Kind::stalls);
  const bool last = GENERATE(false, true);
  const bool concurrent_lanes = GENERATE(false, true);
  for (std::uint32_t r = 0; r < 8; r += 3) {
    std::uint32_t ops = 0;
    for_each_op(program, program.classes[class_of(program, Rank{r})].step, [&](const OpRun&) { ++ops; });
    RunOptions options;
    options.concurrent_lanes = concurrent_lanes;
    options.watchdog = Seconds::of(0.2);
    options.fault = Fault{kind, Rank{r}, OpId{last ? ops - 1 : 0}, 1};
    CAPTURE(r, last, concurrent_lanes, index(kind));
    CHECK_FALSE(error_of(run, program, options).empty());
  }
}
