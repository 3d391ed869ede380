#include <catch2/catch.hpp>

#include <filesystem>
#include <random>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/spec/library.hpp"
#include "planner/follow.hpp"
#include "planner/move.hpp"

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

PlannedRun example(const std::string& name) {
  Diagnostics d;
  auto run = read_plan_file(library.plan(name), library, std::nullopt, d);
  REQUIRE(run);
  return *run;
}

std::string broken(const PlannedRun& run) {
  Diagnostics d;
  check(run.plan, run.model, run.workload, &*run.cluster, d);
  return render(d);
}

}  // namespace

TEST_CASE("every value that a dimension offers leads to a valid plan with that value", "[unit][property]") {
  const auto name = GENERATE("demo-2x2x2", "llama-3-70b-8-dgx-h100", "mixtral-8x7b-8-dgx-h100");
  const PlannedRun run = example(name);
  for (const Dimension& d : dimensions()) {
    const LegalValues legal = legal_values(run, d);
    CAPTURE(name, d.key, legal.values);
    CHECK(std::is_sorted(legal.values.begin(), legal.values.end()));
    CHECK(std::count(legal.values.begin(), legal.values.end(), d.get(run)) == 1);
    for (const std::uint64_t v : legal.values) {
      std::string reason;
      const auto move = moved(run, d, v, reason);
      CAPTURE(v, reason);
      REQUIRE(move);
      CHECK(d.get(move->run) == v);
      CHECK(broken(move->run) == "");
      CHECK(move->run.plan.mesh.size() == move->run.cluster->devices());
    }
    for (const std::uint64_t v : legal.refused) {
      std::string reason;
      CHECK_FALSE(moved(run, d, v, reason));
      CHECK(reason != "");
    }
  }
}

TEST_CASE("a moved plan is read back from its file, and the value that stands changes nothing", "[unit][property]") {
  const auto name = GENERATE("demo-2x2x2", "llama-3-70b-8-dgx-h100", "mixtral-8x7b-8-dgx-h100");
  Turner turner(example(name));
  std::string reason;
  for (const Dimension& d : dimensions()) {
    if (d.table() != "plan" && d.table() != "mesh") continue;
    for (const std::uint64_t v : values(d, turner.from())) {
      const PlannedRun* run = turner.turned(d, v, reason);
      CAPTURE(name, d.key, v, reason);
      if (run == nullptr) continue;
      Diagnostics found;
      auto again = read_plan(write_plan(*run), "plan.toml", library, std::nullopt, found);
      CAPTURE(render(found));
      REQUIRE(again);
      again->plan.origin = {};
      CHECK(again->plan == run->plan);
      if (v == d.get(turner.from())) CHECK(run->plan == turner.from().plan);
    }
  }
}

TEST_CASE("a plan keeps its ZeRO stage while there is nothing to share out", "[unit]") {
  PlannedRun run = example("llama-3-70b-8-dgx-h100");
  run.plan.zero_stage = 1;
  std::string reason;
  const auto up = moved(run, dimension("mesh.data"), 1, reason);
  CAPTURE(reason);
  REQUIRE(up);
  CHECK(up->run.plan.zero_stage == 1);
  // ... and where nothing is sharded, the stage cannot be changed.
  CHECK_FALSE(applies(dimension("plan.zero_stage"), up->run));
  CHECK_FALSE(moved(up->run, dimension("plan.zero_stage"), 2, reason));
  CHECK(reason == "plan.zero_stage 2 makes no difference to this plan.");
}

TEST_CASE("weights follow their states off the device, and states their weights", "[unit]") {
  PlannedRun run = example("llama-3-70b-8-dgx-h100");
  run.plan.zero_stage = 1;
  std::string reason;
  const auto weights = moved(run, dimension("plan.offload_parameters"), 4, reason);
  CAPTURE(reason);
  REQUIRE(weights);
  CHECK(weights->run.plan.offload_states == 4U);
  const auto states = moved(weights->run, dimension("plan.offload_states"), 2, reason);
  REQUIRE(states);
  CHECK(states->run.plan.offload_parameters == 2U);
  // The choice of where they go goes with them.
  const auto disk = moved(states->run, dimension("plan.states_tier"), 1, reason);
  REQUIRE(disk);
  const auto none = moved(disk->run, dimension("plan.offload_states"), 0, reason);
  REQUIRE(none);
  CHECK(none->run.plan.states_tier == OffloadTier::host);
  CHECK_FALSE(moved(none->run, dimension("plan.states_tier"), 1, reason));
  CHECK(reason ==
        "States_tier is set, but no states are offloaded. offload_states is 0. Set offload_states to 8, "
        "or leave out states_tier.");
}

TEST_CASE("a walk of legal moves stays among valid plans", "[unit][property]") {
  std::mt19937_64 random(7);
  PlannedRun run = example("llama-3-70b-8-dgx-h100");
  for (int i = 0; i < 60; ++i) {
    const Dimension& d = dimensions()[random() % dimensions().size()];
    const LegalValues legal = legal_values(run, d);
    const std::uint64_t v = legal.values[random() % legal.values.size()];
    std::string reason;
    auto move = moved(run, d, v, reason);
    CAPTURE(i, d.key, v, reason);
    REQUIRE(move);
    REQUIRE(broken(move->run) == "");
    run = std::move(move->run);
  }
}

TEST_CASE("a wish that cannot be met is answered with the rule and the nearest legal value", "[unit]") {
  const PlannedRun run = example("llama-3-70b-8-dgx-h100");  // 64 heads, 8 kv heads, 64 devices
  SECTION("a tensor size that does not divide the heads") {
    const Answer a = answer(run, dimension("mesh.tensor"), 3);
    CHECK(a.reason.find("64") != std::string::npos);
    CHECK((a.value == 2 || a.value == 4));  // 4 / 3 < 3 / 2
    CHECK(a.value == 4);
    CHECK(broken(a.move.run) == "");
  }
  SECTION("more tensor ranks than key-value heads share these") {
    const Answer a = answer(run, dimension("mesh.tensor"), 16);
    CHECK(a.value == 16);
    CHECK(a.reason == "");
    CHECK(broken(a.move.run) == "");
  }
  SECTION("a batch that no microbatch divides") {
    // With data 2 an odd batch cannot be cut in two.
    const Answer a = answer(run, dimension("workload.batch"), 1001);
    CHECK((a.value == 1000 || a.value == 1002));
    CHECK(broken(a.move.run) == "");
  }
  SECTION("what can be met is met, with what it takes") {
    const Answer a = answer(run, dimension("mesh.tensor"), 4);
    CHECK(a.reason == "");
    CHECK(a.move.run.plan.mesh.size(Axis::data) == 4);  // data takes up what tensor leaves
    CHECK(std::find(a.move.also.begin(), a.move.also.end(), "data 2 to 4") != a.move.also.end());
  }
}

TEST_CASE("another number of devices is taken up by data", "[unit]") {
  const PlannedRun run = example("llama-3-70b-8-dgx-h100");
  std::string reason;
  const auto move = moved(run, dimension("gpus"), 128, reason);
  REQUIRE(move);
  CHECK(move->run.cluster->nodes == 16);
  CHECK(move->run.plan.mesh.size(Axis::data) == 4);
  CHECK(move->run.plan.mesh.size(Axis::tensor) == 8);
  CHECK_FALSE(moved(run, dimension("gpus"), 12, reason));  // a node and a half
  CHECK(reason.find("12") != std::string::npos);
}

TEST_CASE("grids take as many ranks as make one", "[unit]") {
  const PlannedRun run = example("llama-3-70b-8-dgx-h100");
  std::string reason;
  const auto grid = moved(run, dimension("plan.tensor"), static_cast<std::uint64_t>(TensorAlgorithm::two_d), reason);
  REQUIRE(grid);
  CHECK(grid->run.plan.mesh.size(Axis::row) == 4);  // of 8 ranks the next square is 16
  CHECK(grid->run.plan.mesh.size(Axis::column) == 4);
  CHECK(grid->run.plan.mesh.size(Axis::tensor) == 1);
  const LegalValues tensor = legal_values(grid->run, dimension("mesh.tensor"));
  for (const std::uint64_t v : tensor.values) CHECK((v == 4 || v == 16 || v == 64));
}

TEST_CASE("models and clusters change with a plan that suits them", "[unit][property]") {
  const PlannedRun run = example("llama-3-70b-8-dgx-h100");
  for (const std::string name : {"tiny-gpt", "gpt3-175b", "mixtral-8x7b", "deepseek-v3", "bert-large", "vit-l-16"}) {
    Diagnostics d;
    auto model = library.model(name, ".", d);
    REQUIRE(model);
    std::string reason;
    const auto move = with_model(run, *model, name, reason);
    CAPTURE(name, reason);
    REQUIRE(move);
    CHECK(broken(move->run) == "");
    CHECK(move->run.model.name == model->name);
  }
  for (const std::string& name : library.clusters()) {
    Diagnostics d;
    auto cluster = library.cluster(name, ".", std::nullopt, d);
    REQUIRE(cluster);
    std::string reason;
    const auto move = with_cluster(run, *cluster, name, reason);
    CAPTURE(name, reason);
    if (!move) {
      CHECK(reason != "");
      continue;
    }
    CHECK(broken(move->run) == "");
    CHECK(move->run.plan.mesh.size() == move->run.cluster->devices());
  }
}
