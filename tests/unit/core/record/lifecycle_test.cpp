#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "core/record/lifecycle.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

/// A trace in which op i of every rank takes i + 1 picoseconds, one after the other.
Trace counted_trace(const Program& program) {
  Trace trace;
  trace.origin = "simulate";
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    RankTrace rank;
    rank.rank = Rank{r};
    std::int64_t at = 0;
    for_each_op(program, program.classes[class_of(program, Rank{r})].step, [&](const OpRun& run) {
      const std::int64_t end = at + (is_timed(*run.op) ? 1 + static_cast<std::int64_t>(index(run.id)) : 0);
      rank.spans.push_back({at, end});
      at = end;
    });
    trace.ranks.push_back(rank);
  }
  return trace;
}

/// Counts the calls, and tests the promised order.
class Counter final : public LifecycleHooks {
 public:
  void operation(const OperationEvent& e) override { take(e, false); }
  void collective(const OperationEvent& e) override { take(e, true); }
  void microbatch(const MicrobatchEvent& e) override {
    CHECK(e.span.end == last);  // right after the op that completed it
    CHECK(e.rank == last_rank);
    CHECK(e.span.start < e.span.end);
    CHECK(microbatches.insert({index(e.rank), e.microbatch, index(e.pass)}).second);  // each once
  }
  void step(const StepEvent& e) override {
    ++steps;
    duration = e.duration;
  }
  std::uint64_t operations = 0, collectives = 0, steps = 0;
  std::int64_t duration = 0, last = 0;
  Rank last_rank{};
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>> microbatches;

 private:
  void take(const OperationEvent& e, bool collective) {
    CHECK(steps == 0);
    CHECK(e.span.end >= last);
    last = e.span.end;
    last_rank = e.rank;
    ++(collective ? collectives : operations);
  }
};

}  // namespace

TEST_CASE("hooks are told every timed op once, in order of their ends, and the step last", "[lifecycle]") {
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const Trace trace = counted_trace(program);
    std::uint64_t operations = 0, collectives = 0;
    std::set<std::tuple<std::uint32_t, std::uint32_t>> forwards;
    std::int64_t longest = 0;
    for (const RankTrace& rank : trace.ranks) {
      longest = std::max(longest, rank.spans.back().end);
      for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun& r) {
        if (!is_timed(*r.op)) return;
        ++(std::holds_alternative<Collective>(r.op->action) ? collectives : operations);
        if (r.block->pass == Pass::forward) forwards.insert({index(rank.rank), r.microbatch});
      });
    }
    Counter counter;
    tell_step(counter, program, trace, {1, false, 0, {}});
    CHECK(counter.operations == operations);
    CHECK(counter.collectives == collectives);
    CHECK(counter.steps == 1);
    CHECK(counter.duration == longest);
    for (const auto& [rank, microbatch] : forwards) {
      CHECK(counter.microbatches.contains({rank, microbatch, index(Pass::forward)}));
    }
  }
}

TEST_CASE("the log has a line of JSON for every event, under the name of its hook", "[lifecycle]") {
  std::vector<nlohmann::json> lines;
  const auto log = lifecycle_log([&](const std::string& line) {
    CHECK(line.back() == '\n');
    lines.push_back(nlohmann::json::parse(line));
  });
  OperationEvent op;
  op.step = 2;
  op.rank = Rank{3};
  op.op = OpId{7};
  op.kind = exchange_operation;
  op.span = {1'000'000'000'000, 3'000'000'000'000};
  log->init({"run threads", 4});
  log->operation(op);
  log->collective(op);
  log->microbatch({2, Rank{3}, 5, Pass::input_gradient, op.span});
  log->step({2, true, 3'000'000'000'000, 0.25});
  log->checkpoint({2, "saved/2"});
  log->failure({"rank 3 \"failed\"\n  in op 7"});
  log->restart({1, 2, 7, "data 7"});
  log->recovery({2, "saved/2"});
  log->noise({3, 2.0, 8.0, 9.0, 5.25, 2.5});
  log->noise({4, 2.0, 8.0, 9.0, 0.5, {}});
  log->shutdown({2});
  std::vector<std::string> names;
  for (const auto& line : lines) names.push_back(line.at("event"));
  CHECK(names == std::vector<std::string>{"init", "operation", "collective", "microbatch", "step", "checkpoint",
                                          "failure", "restart", "recovery", "noise", "noise", "shutdown"});
  CHECK(lines[7].dump() == R"({"event":"restart","plan":"data 7","ranks":7,"restart":1,"step":2})");
  CHECK(lines[9].at("noise_scale") == 2.5);
  CHECK(lines[9].at("large_square_norm") == 5.25);
  CHECK(lines[10].at("noise_scale").is_null());
  CHECK(lines[0].at("ranks") == 4);
  CHECK(lines[1].at("name") == "exchange");
  CHECK(lines[1].at("start_s") == 1.0);  // picoseconds to seconds, exact here
  CHECK(lines[1].at("end_s") == 3.0);
  CHECK(lines[3].at("pass") == name_of(Pass::input_gradient));
  CHECK(lines[4].at("loss") == 0.25);
  CHECK(lines[6].at("what") == "rank 3 \"failed\"\n  in op 7");
  CHECK(lines.back().at("steps") == 2);
}
