#include "core/plan/plan_words.hpp"

#include <catch2/catch.hpp>

#include "core/plan/plan_check.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

PlannedRun base() {
  PlannedRun r;
  r.model = test::tiny_gpt({.layers = 4, .hidden = 64, .heads = 8, .vocabulary = 512, .positions = 64});
  r.workload.global_batch = 16;
  r.workload.sequence_length = 64;
  r.cluster = test::small_cluster(2, 4, 8.0 * gibibyte);
  r.plan.mesh.axes = {{Axis::pipeline, 2}, {Axis::data, 4}};
  r.plan.stage_layers = std::vector<std::uint32_t>{3, 1};
  r.plan.zero_stage = 1;
  return r;
}

PlannedRun changed(const char* words) {
  PlannedRun r = base();
  Diagnostics d;
  INFO(words);
  REQUIRE(put_words(r, words, d));
  check(r.plan, r.model, r.workload, &*r.cluster, d);
  CHECK(render(d) == "");
  return r;
}

std::string refused(const char* words) {
  PlannedRun r = base();
  Diagnostics d;
  CHECK_FALSE(put_words(r, words, d));
  return render(d);
}

}  // namespace

TEST_CASE("words on the mesh replace it, and data takes the rest of the devices", "[unit][plan]") {
  const PlannedRun r = changed("tp=2 mbs=2 recompute=full");
  CHECK(r.plan.mesh.size(Axis::pipeline) == 1);
  CHECK(r.plan.mesh.size(Axis::tensor) == 2);
  CHECK(r.plan.mesh.size(Axis::data) == 4);  // 8 devices over 2
  CHECK(r.plan.microbatch_size == 2);
  CHECK(r.plan.recompute == Recompute::full);
  CHECK(r.plan.zero_stage == 1);     // as it was
  CHECK_FALSE(r.plan.stage_layers);  // of another number of stages
}

TEST_CASE("words beside the mesh leave it alone", "[unit][plan]") {
  const PlannedRun r = changed("zero=0 gbs=32 seq=32 optimizer=sgd");
  CHECK(r.plan.mesh == base().plan.mesh);
  REQUIRE(r.plan.stage_layers);
  CHECK(*r.plan.stage_layers == std::vector<std::uint32_t>{3, 1});
  CHECK(r.plan.zero_stage == 0);
  CHECK(r.workload.global_batch == 32);
  CHECK(r.workload.sequence_length == 32);
  CHECK(r.workload.optimizer.kind == OptimizerKind::sgd);
}

TEST_CASE("a word means the dimension that has its value", "[unit][plan]") {
  const PlannedRun r = changed("tensor=2d row=2 column=2 zero=0");
  CHECK(r.plan.tensor == TensorAlgorithm::two_d);
  CHECK(r.plan.mesh.size(Axis::row) == 2);
  CHECK(r.plan.mesh.size(Axis::data) == 2);
}

TEST_CASE("words are those of plan files: switches true and false, shares in eighths", "[unit][plan]") {
  CHECK(changed("overlap_gradients=false").plan.overlap_gradients ==
        changed("overlap_gradients=off").plan.overlap_gradients);
  CHECK(changed("zero=3 reshard_after_forward=true").plan.reshard_after_forward == true);
  CHECK(changed("offload_states=8").plan.offload_states == 8U);
  CHECK(refused("offload_states=9").find("offload_states has no value \"9\"") != std::string::npos);
  CHECK(refused("overlap_gradients=8").find("overlap_gradients has no value \"8\"") != std::string::npos);
}

TEST_CASE("wrong words say what is right", "[unit][plan]") {
  CHECK(refused("tq=2").find("Nearest: tp") != std::string::npos);
  CHECK(refused("tp=3").find("8 devices are no multiple") != std::string::npos);
  CHECK(refused("recompute=some").find("none, selective, full") != std::string::npos);
  CHECK(refused("mbs=0").find("from 1 to") != std::string::npos);
  CHECK(refused("mbs").find("plan.microbatch_size") != std::string::npos);
}

TEST_CASE("a word that stands twice is a mistake, under any of its names", "[unit][plan]") {
  CHECK(refused("tp=2 tp=4") == "error: tensor is given twice [plan.words]\n  tp=2 and tp=4: leave one out.\n");
  CHECK(refused("mbs=2 microbatch_size=2").find("is given twice [plan.words]") != std::string::npos);
  changed("tensor=1d tensor=2");  // two dimensions of one name
}

TEST_CASE("a plan in one line is told from a file", "[unit][plan]") {
  CHECK(is_plan_words("tp=8 dp=2"));
  CHECK(is_plan_words("plan.zero_stage=1"));
  CHECK_FALSE(is_plan_words("best.toml"));
  CHECK_FALSE(is_plan_words("runs/a=b.toml"));
  CHECK_FALSE(is_plan_words("=8"));
}
