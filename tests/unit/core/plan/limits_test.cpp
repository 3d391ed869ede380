#include "core/plan/limits.hpp"

#include <catch2/catch.hpp>

#include <string>

#include "core/plan/plan_check.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

using Values = std::vector<std::uint64_t>;

SearchLimits read(std::string_view text) {
  Diagnostics d;
  SearchLimits limits = limits_of(text, d);
  INFO(text);
  REQUIRE(render(d) == "");
  return limits;
}

std::string refused(std::string_view text) {
  Diagnostics d;
  static_cast<void>(limits_of(text, d));
  return render(d);
}

PlannedRun run_of(std::vector<MeshAxis> axes) {
  PlannedRun r;
  r.model = test::tiny_gpt({.layers = 4, .hidden = 64, .heads = 8, .vocabulary = 512, .positions = 64});
  r.workload.global_batch = 16;
  r.workload.sequence_length = 64;
  r.cluster = test::small_cluster(2, 4, 8.0 * gibibyte);
  r.plan.mesh.axes = std::move(axes);
  return r;
}

template <class Choice>
std::uint64_t place(Choice choice) {
  return static_cast<std::uint64_t>(choice);
}

}  // namespace

TEST_CASE("without limits everything is allowed", "[unit][planner]") {
  const SearchLimits none = read("");
  CHECK(none.only.empty());
  CHECK(none.allow("plan.zero_stage", 3));
  CHECK(none.allow(run_of({{Axis::tensor, 8}})));
}

TEST_CASE("limits are read in the words of plan files, and by their aliases", "[unit][planner]") {
  const SearchLimits limits = read("pp=2 tensor=8 zero=0,1 schedule=1f1b,zb-v mbs=1,2 recompute=full");
  CHECK(limits.only.at("mesh.pipeline") == Values{2});
  CHECK(limits.only.at("mesh.tensor") == Values{8});
  CHECK(limits.only.at("plan.zero_stage") == Values{0, 1});
  CHECK(limits.only.at("plan.schedule") == Values{place(ScheduleName::one_f_one_b), place(ScheduleName::zb_v)});
  CHECK(limits.only.at("plan.microbatch_size") == Values{1, 2});
  CHECK(limits.only.at("plan.recompute") == Values{place(Recompute::full)});
  CHECK(limits.only.size() == 6);
}

// Both mesh and plan have a "tensor": sizes go to one, and cuts of products to the other.
TEST_CASE("of two dimensions with one word the one that has the values is meant", "[unit][planner]") {
  const SearchLimits limits = read("tensor=4 tensor=2d,3d");
  CHECK(limits.only.at("mesh.tensor") == Values{4});
  CHECK(limits.only.at("plan.tensor") == Values{place(TensorAlgorithm::two_d), place(TensorAlgorithm::three_d)});
}

TEST_CASE("off is an axis of size 1, the value of that name, or the first one", "[unit][planner]") {
  CHECK(read("context=off").only.at("mesh.context") == Values{1});
  CHECK(read("recompute=off").only.at("plan.recompute") == Values{place(Recompute::none)});
  CHECK(read("zero=off").only.at("plan.zero_stage") == Values{0});
  CHECK(read("sequence_parallel=off").only.at("plan.sequence_parallel") == Values{0});
  // "off" is the second of "auto", "off", "on"; the plans that are looked at leave nothing open.
  CHECK(read("overlap_gradients=off").only.at("plan.overlap_gradients") == Values{1});
  CHECK(read("overlap_gradients=on").only.at("plan.overlap_gradients") == Values{2});
}

TEST_CASE("offload and disks stand for all dimensions of their kind", "[unit][planner]") {
  const SearchLimits limits = read("offload=off disks=off");
  for (const char* key : {"plan.offload_states", "plan.offload_parameters", "plan.offload_activations",
                          "plan.states_tier", "plan.parameters_tier", "plan.activations_tier"}) {
    CHECK(limits.only.at(key) == Values{0});
  }
  CHECK(limits.only.size() == 6);
  CHECK(read("offload=1/8,all").only.at("plan.offload_activations") == Values{1, 8});
}

TEST_CASE("cli.only: a setting that no dimension has is refused", "[error]") {
  const std::string words =
      "  It takes KEY=VALUE,VALUE for: activations_tier, attention, chunks, collective_algorithm, context, cp, data, "
      "disks, dp, ep, expert, expert_dispatch, expert_folding, gradient_bucket, inner_ring, loss_chunks, mbs, "
      "microbatch_size, "
      "offload, offload_activations, offload_parameters, offload_states, overlap_gradients, parameter_chunk, "
      "parameters_tier, pipeline, pp, prefetch, recompute, recompute_layers, recompute_modules, replica, "
      "reshard_after_forward, "
      "save_gathered, schedule, "
      "sequence_parallel, states_tier, tensor, tp, zero, zero_stage, zigzag.\n"
      "  Values are written as in plan files: tensor=8 pp=2 tensor=1d,2d zero=0,1 schedule=1f1b,zb-v context=off.\n"
      "  Separate settings by spaces.\n";
  CHECK(refused("width=3") == "error: --only does not know \"width=3\" [cli.only]\n" + words);
  // These are a word without values, a name of another dimension, the same twice, and numbers that the dimension cannot
  // have.
  for (const char* wrong : {"zero", "zero=", "schedule=full", "zero=0,full", "zero=4", "tensor=0", "mbs=0", "mbs=off",
                            "chunks=off", "overlap_gradients=auto", "offload=auto", "offload=9"}) {
    CHECK(refused(wrong) == "error: --only does not know \"" + std::string(wrong) + "\" [cli.only]\n" + words);
  }
  CHECK(refused("zero=0 zero=1") == "error: --only does not know \"zero=1\" [cli.only]\n" + words);
}

TEST_CASE("a run is allowed where every dimension that applies has an allowed value", "[unit][planner]") {
  PlannedRun run = run_of({{Axis::pipeline, 2}, {Axis::data, 4}});
  CHECK(read("pp=2 data=4 schedule=1f1b").allow(run));
  CHECK_FALSE(read("pp=4").allow(run));
  CHECK_FALSE(read("data=2,8").allow(run));
  CHECK_FALSE(read("schedule=gpipe").allow(run));
  // A plan without context ranks has no way in which they share attention, and one without ZeRO-3 has no prefetch.
  CHECK(read("zigzag=on prefetch=0").allow(run));
  run.plan.zero_stage = 3;
  CHECK_FALSE(read("prefetch=0").allow(run));
}

// A plan that recomputes all layers has no counts; one that counts them is judged by the largest.
TEST_CASE("limits of recomputed layers judge counts alone", "[unit][planner]") {
  PlannedRun run = run_of({{Axis::pipeline, 2}, {Axis::data, 4}});
  run.plan.stage_layers = {{2, 2}};
  run.plan.recompute = Recompute::full;
  CHECK(read("recompute_layers=0").allow(run));
  run.plan.recompute_layers = {{1, 0}};
  CHECK_FALSE(read("recompute_layers=0").allow(run));
  CHECK(read("recompute_layers=1").allow(run));
}

TEST_CASE("the plainest limits leave the classical plans", "[unit][planner]") {
  const SearchLimits plainest = plainest_limits();
  PlannedRun run = run_of({{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}});
  CHECK(plainest.allow(run));
  const auto changed = [&](auto change) {
    PlannedRun other = run;
    change(other.plan);
    Diagnostics d;
    check(other.plan, other.model, other.workload, &*other.cluster, d);
    REQUIRE(render(d) == "");
    return plainest.allow(other);
  };
  CHECK(changed([](Plan& p) { p.schedule = ScheduleName::gpipe; }));
  CHECK(changed([](Plan& p) { p.recompute = Recompute::full; }));
  CHECK(changed([](Plan& p) { p.zero_stage = 1; }));
  CHECK_FALSE(changed([](Plan& p) { p.zero_stage = 2; }));
  CHECK_FALSE(changed([](Plan& p) { p.loss_chunks = 2; }));
  CHECK_FALSE(changed([](Plan& p) { p.schedule = ScheduleName::zb_h1; }));
  CHECK_FALSE(changed([](Plan& p) { p.mesh.axes[1].axis = Axis::context; }));
}

TEST_CASE("a rule holds where its condition does not, or where what follows does", "[unit][planner]") {
  SearchLimits limits;
  Diagnostics d;
  limits.rules.push_back({condition_of("zero=2,3", d), condition_of("pp=1", d), "one stage"});
  PlannedRun run = run_of({{Axis::pipeline, 2}, {Axis::data, 4}});
  CHECK(limits.allow(run));
  run.plan.zero_stage = 2;
  CHECK_FALSE(limits.allow(run));
  run.plan.mesh.axes = {{Axis::data, 8}};
  CHECK(limits.allow(run));
}

TEST_CASE("a condition excludes the values behind an exclamation mark", "[unit][planner]") {
  Diagnostics d;
  const Condition several = condition_of("pp=!1 zero=0,1", d);
  CHECK(render(d) == "");
  PlannedRun run = run_of({{Axis::pipeline, 2}, {Axis::data, 4}});
  CHECK(several.holds(run, true));
  run.plan.zero_stage = 3;
  CHECK_FALSE(several.holds(run, true));
  CHECK_FALSE(several.holds(run_of({{Axis::data, 8}}), true));
  CHECK(condition_of("", d).holds(run, false));
}

TEST_CASE("a dimension that does not apply breaks no rule", "[unit][planner]") {
  Diagnostics d;
  SearchLimits limits;
  limits.rules.push_back({condition_of("context=all_gather", d), condition_of("zigzag=on", d), "early and late parts"});
  limits.rules.push_back({condition_of("zero=0", d), condition_of("zigzag=on", d), "the same"});
  CHECK(render(d) == "");
  CHECK(limits.allow(run_of({{Axis::data, 8}})));  // no context axis: neither its algorithm nor zigzag applies
  CHECK_FALSE(limits.allow(run_of({{Axis::context, 2}, {Axis::data, 4}})));
}

TEST_CASE("limits of two hands leave what both allow", "[unit][planner]") {
  const SearchLimits limits = both(read("zero=0,1 pp=2"), read("zero=1,2 schedule=1f1b"));
  CHECK(limits.only.at("plan.zero_stage") == Values{1});
  CHECK(limits.only.at("mesh.pipeline") == Values{2});
  CHECK(limits.only.at("plan.schedule") == Values{place(ScheduleName::one_f_one_b)});
  CHECK_FALSE(both(read("zero=0"), read("zero=3")).allow(run_of({{Axis::data, 8}})));
}
