#include "core/program/lower/passes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;
using namespace orrery::lowering;

namespace {

/// The state before the pass called `name`.
State before_pass(const PlannedRun& run, std::string_view name) {
  State state(run.model, run.workload, run.plan);
  for (const LoweringPass& pass : all_passes()) {
    if (pass.name == name) break;
    pass.run(state);
  }
  return state;
}

}  // namespace

TEST_CASE("every pass finds what it requires and leaves what it ensures", "[lower]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    State state(run.model, run.workload, run.plan);
    for (const LoweringPass& pass : all_passes()) {
      CAPTURE(pass.name);
      REQUIRE(pass.before(state) == "");
      pass.run(state);
      REQUIRE(pass.after(state) == "");
    }
  }
}

TEST_CASE("the Program after any pass prints a text that reads back, and the last one is the lowered Program",
          "[lower]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    std::string last;
    for (const std::string& pass : pass_names()) {
      CAPTURE(pass);
      const Program program = lower_until(run.model, run.workload, run.plan, pass);
      const std::string text = write_program(program);
      Diagnostics problems;
      const std::optional<Program> read = read_program(text, "program", problems);
      REQUIRE(read);
      REQUIRE(*read == program);
      last = text;
    }
    CHECK(last == write_program(lower(run.model, run.workload, run.plan)));
  }
}

namespace {

/// The run has stages and ZeRO-3, so that every pass has something to do.
PlannedRun sharded_run() {
  test::RandomRunLimits limits;
  limits.zero_stage = 3;
  limits.mixture = false;
  for (std::uint64_t seed = 0;; ++seed) {
    PlannedRun r = test::random_run(seed, limits);
    if (r.plan.mesh.size(Axis::pipeline) > 1 && r.plan.mesh.size(Axis::data) > 1 && r.plan.reshard_after_forward) {
      r.plan.offload_activations = 8;
      return r;
    }
  }
}

}  // namespace

TEST_CASE("no pass runs twice, nor before any other has run", "[lower]") {
  const PlannedRun run = sharded_run();
  for (const LoweringPass& pass : all_passes()) {
    CAPTURE(pass.name);
    State state = before_pass(run, pass.name);
    pass.run(state);
    // These two may have had nothing to do.
    if (pass.name != "recomputation" && pass.name != "sharding_collectives" && pass.name != "pipeline_transfers") {
      CHECK(pass.before(state) != "");
    }
    if (pass.name != "place") CHECK(pass.before(State(run.model, run.workload, run.plan)) != "");
  }
}

TEST_CASE("a broken state violates what a pass ensures", "[lower]") {
  const PlannedRun run = sharded_run();
  const auto broken = [&](const LoweringPass& pass, auto&& harm) {
    State state = before_pass(run, pass.name);
    pass.run(state);
    REQUIRE(pass.after(state) == "");
    harm(state);
    return pass.after(state) != "";
  };
  const auto drop = [](State& s, Phase phase) {
    auto& step = s.stages.front().step;
    step.erase(std::find_if(step.begin(), step.end(), [&](const Action& a) { return a.phase == phase; }));
  };
  CHECK(broken(place(), [](State& s) { ++s.stages.front().chunks.front().low_layer; }));
  CHECK(broken(schedule(), [&](State& s) { drop(s, Phase::backward); }));
  CHECK(broken(pipeline_transfers(), [&](State& s) { drop(s, Phase::receive_gradient); }));
  CHECK(broken(gathers_and_reductions(), [&](State& s) { drop(s, Phase::reduce); }));
  CHECK(broken(gathers_and_reductions(), [&](State& s) { drop(s, Phase::clear); }));
  CHECK(broken(optimizer(), [&](State& s) { drop(s, Phase::update); }));
  CHECK(broken(lifetimes(), [](State& s) {
    auto& ops = s[s.blocks(Phase::forward)[s.kinds.front()].plain].block.ops;
    ops.erase(std::find_if(ops.begin(), ops.end(), is_memory));
  }));
  CHECK(broken(parameter_copies(), [](State& s) {
    auto& ops = s[s.stages.front().chunks.back().reduce].block.ops;
    auto& layer = s[s.blocks(Phase::forward)[s.kinds.front()].plain].block.ops;
    std::erase_if(ops, is_memory);
    std::erase_if(layer, [](const Op& op) { return std::holds_alternative<Free>(op.action); });
  }));
  CHECK(broken(host_copies(), [](State& s) {
    for (const BlockId id : s.copying->last_down) {
      if (id != no_block) std::erase_if(s[id].block.ops, is_memory);
    }
  }));
  CHECK(broken(lanes(), [](State& s) {
    for (Draft& d : s.drafts) {
      for (Op& op : d.block.ops) op.waits.count = 0;
    }
    s.drafts.front().block.ops.back().lane = {LaneKind::copy, 0};
  }));
}
