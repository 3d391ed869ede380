#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <map>

#include "core/program/lower/lower.hpp"
#include "core/record/traffic.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/gather.hpp"
#include "exec/run/run_report.hpp"
#include "exec/train/data.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

/// What the Program says about one rank, op by op.
struct Expected {
  std::size_t ops = 0;
  std::uint64_t peak = 0;
  std::uint64_t sent = 0;
};

Expected expected_of(const Program& program, Rank rank) {
  Expected e;
  std::uint64_t live = 0;
  const auto walk = [&](const OpRun& run) {
    const auto bytes = [&](BufferId b) { return program[b].tier == Tier::device ? bytes_of(program[b]) : 0; };
    if (const auto* alloc = std::get_if<Alloc>(&run.op->action)) live += bytes(alloc->what);
    if (const auto* free = std::get_if<Free>(&run.op->action)) live -= bytes(free->what);
    e.peak = std::max(e.peak, live);
  };
  const RankClass& list = program.classes[class_of(program, rank)];
  for_each_op(program, list.setup, walk);
  for_each_op(program, list.step, [&](const OpRun& run) {
    walk(run);
    ++e.ops;
    e.sent += sent_bytes(program, *run.block, *run.op, rank);
  });
  return e;
}

RunOptions quick() {
  RunOptions options;
  options.poison = true;
  options.watchdog = Seconds::of(30);
  return options;
}

}  // namespace

// The trace has a span for every op by its number; spans follow each other in
// list order, because a thread progresses one lane at a time.
TEST_CASE("an executed step holds the Program's ops in list order, its peak bytes and its sent bytes", "[parity]") {
  for (std::uint64_t seed = 1000; seed < 1060; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed, 0.1);
    RunOptions options = quick();
    options.steps = 2;
    const RunResult result = execute(program, run.model, run.workload, run.plan, *data, options);
    REQUIRE(result.traces.size() == 2);
    for (const Trace& trace : result.traces) {
      REQUIRE(trace.ranks.size() == program.mesh.size());
      std::int64_t first_start = trace.ranks[0].spans.front().start;
      for (const RankTrace& rank : trace.ranks) {
        const Expected expected = expected_of(program, rank.rank);
        CAPTURE(index(rank.rank));
        CHECK(rank.spans.size() == expected.ops);
        CHECK(rank.peak_bytes == expected.peak);
        CHECK(rank.sent_bytes == expected.sent);
        std::int64_t last_end = 0;
        bool ordered = true;
        for (const Span& span : rank.spans) {
          ordered = ordered && span.start >= last_end && span.end >= span.start;
          last_end = span.end;
        }
        CHECK(ordered);
        first_start = std::min(first_start, rank.spans.front().start);
      }
      CHECK(first_start == 0);  // times count from the first rank's first op
    }
  }
}

// A collective starts on all members when the last of them is ready (rendezvous), and each ring step carries that
// instant on to the next peer.
TEST_CASE("all members of an all-reduce state the same start", "[parity]") {
  for (std::uint64_t seed = 1; seed < 12; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed);
    const RunResult result = execute(program, run.model, run.workload, run.plan, *data, quick());
    // The k-th all-reduce on a group at one member is the k-th at every other.
    std::map<std::pair<std::uint32_t, std::vector<Rank>>, std::vector<std::vector<std::int64_t>>> starts;
    for (const RankTrace& rank : result.traces[0].ranks) {
      std::map<std::pair<std::uint32_t, std::vector<Rank>>, std::vector<std::int64_t>> own;
      for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun& op) {
        const auto* c = std::get_if<Collective>(&op.op->action);
        if (c == nullptr || c->kind != Collective::Kind::all_reduce) return;
        const auto ranks = group_ranks(program[c->group], program.mesh, rank.rank);
        own[{index(c->group), ranks}].push_back(rank.spans[index(op.id)].start);
      });
      for (auto& [group, list] : own) starts[group].push_back(std::move(list));
    }
    for (const auto& [group, lists] : starts) {
      CHECK(lists.size() == group.second.size());
      for (const auto& list : lists) CHECK(list == lists.front());
    }
  }
}

TEST_CASE("a run repeats bit for bit, whatever the timing", "[parity]") {
  for (std::uint64_t seed = 60; seed < 70; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed);
    std::vector<double> losses[2];
    GlobalTensors weights[2];
    for (int again = 0; again < 2; ++again) {
      RunOptions options = quick();
      options.steps = 3;
      options.poison = again == 1;
      options.on_event = [&](const RunEvent& e) {
        if (e.step == 3) weights[again] = gather(program, *e.buffers, "weights");
      };
      losses[again] = execute(program, run.model, run.workload, run.plan, *data, options).losses;
    }
    CHECK(losses[0] == losses[1]);
    CHECK(weights[0] == weights[1]);
  }
}

TEST_CASE("what scatter writes, gather reads back", "[parity]") {
  for (std::uint64_t seed = 70; seed < 90; ++seed) {
    test::RandomRunLimits limits;
    limits.precision = Precision::fp64;
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed);
    RunOptions options = quick();
    options.steps = 1;
    options.on_event = [&](const RunEvent& e) {
      if (e.step != 0) return;
      for (const char* what : {"weights", "moment1", "moment2"}) {
        GlobalTensors tensors = gather(program, *e.buffers, what);
        double next = 1.0;
        for (auto& [name, tensor] : tensors) {
          for (double& x : tensor.values) x = next++;
        }
        scatter(program, *e.buffers, what, tensors);
        CHECK(gather(program, *e.buffers, what) == tensors);
        scatter(program, *e.buffers, what, tensors);
      }
    };
    // The step must survive any weights that are not absurd; this tests only that it ends.
    CHECK_NOTHROW(execute(program, run.model, run.workload, run.plan, *data, options));
  }
}

TEST_CASE("warm-up steps train but leave no trace; a cancelled run keeps what it has", "[parity]") {
  const PlannedRun run = test::random_run(7);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 7);
  RunOptions options = quick();
  options.warmup_steps = 2;
  options.steps = 3;
  const RunResult whole = execute(program, run.model, run.workload, run.plan, *data, options);
  CHECK(whole.traces.size() == 3);
  CHECK(whole.times.steps == 3);
  CHECK(whole.times.fastest <= whole.times.slowest);
  CHECK(whole.losses.size() == 5);
  CHECK_FALSE(whole.cancelled);

  std::atomic<bool> cancel{false};
  options.cancel = &cancel;
  options.on_event = [&](const RunEvent& e) { cancel = e.step == 4; };
  const RunResult part = execute(program, run.model, run.workload, run.plan, *data, options);
  CHECK(part.cancelled);
  CHECK(part.traces.size() == 2);
  CHECK(part.losses == std::vector<double>(whole.losses.begin(), whole.losses.begin() + 4));
}

TEST_CASE("a long run keeps traces of evenly spread steps, and the times of all", "[parity]") {
  const PlannedRun run = test::random_run(7);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 7);
  RunOptions options = quick();
  options.steps = 21;
  options.kept_traces = 4;
  std::vector<Trace> all;
  options.on_event = [&](const RunEvent& e) {
    if (e.trace != nullptr) all.push_back(*e.trace);
  };
  const RunResult result = execute(program, run.model, run.workload, run.plan, *data, options);
  // The result has 4 of 21 steps: first 0 1 2 3, then by twos 0 2 4 6, by fours 0 4 8 12, by eights 0 8 16.
  CHECK(result.trace_stride == 8);
  REQUIRE(result.traces.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(result.traces[i] == all[8 * i]);
  CHECK(result.times.steps == 21);
  CHECK(result.losses.size() == 21);
}

// A report that took these figures from the Program would always agree with the prediction.
TEST_CASE("the report of a run says what was counted, not what the Program says", "[parity]") {
  const PlannedRun run = test::random_run(11);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 7);
  RunOptions options = quick();
  options.steps = 1;
  RunResult result = execute(program, run.model, run.workload, run.plan, *data, options);
  std::uint64_t sent = 0;
  for (RankTrace& rank : result.traces.front().ranks) {
    rank.peak_bytes = 1000;  // below any real peak
    rank.sent_bytes += 7;
    sent += rank.sent_bytes;
  }
  const Report report = report_of(run, program, result);
  CHECK(report.peak_memory_bytes == 1000);
  for (const StageMemory& stage : report.memory_by_stage) CHECK(stage.peak == 1000);
  CHECK(report.sent_bytes == sent);
}

TEST_CASE("the report of a run in fp8 says what its products were made in", "[parity]") {
  PlannedRun run = test::random_run(11);
  run.workload.gradient_dtype.reset();
  const auto assumed = [&](Precision precision) {
    run.workload.precision = precision;
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, 7);
    RunOptions options = quick();
    options.steps = 1;
    const Report report = report_of(run, program, execute(program, run.model, run.workload, run.plan, *data, options));
    return std::count(report.assumptions.begin(), report.assumptions.end(),
                      "products that a device makes in fp8 are made in f32 here, of bf16 operands");
  };
  CHECK(assumed(Precision::bf16) == 0);
  CHECK(assumed(Precision::fp8) == 1);
}

TEST_CASE("the report of a run is that of its median step", "[parity]") {
  const PlannedRun run = test::random_run(11);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 7);
  RunOptions options = quick();
  options.steps = 5;
  const RunResult result = execute(program, run.model, run.workload, run.plan, *data, options);
  std::vector<double> seconds;
  for (const Trace& trace : result.traces) {
    std::int64_t end = 0;
    for (const RankTrace& rank : trace.ranks) end = std::max(end, rank.spans.back().end);
    seconds.push_back(static_cast<double>(end) * 1e-12);
  }
  std::sort(seconds.begin(), seconds.end());
  const Report report = report_of(run, program, result);
  CHECK(report.origin == "run threads");
  CHECK(report.step_time.base() == Approx(seconds[2]));
  CHECK(report.loss == result.losses.back());
  std::uint64_t sent = 0;
  std::uint64_t peak = 0;
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    sent += expected_of(program, Rank{r}).sent;
    peak = std::max(peak, expected_of(program, Rank{r}).peak);
  }
  CHECK(report.sent_bytes == sent);
  CHECK(report.peak_memory_bytes == peak);
}
