#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

TEST_CASE("DeepSpeed's batch is micro x accumulation x ranks", "[framework][deepspeed]") {
  const Launched l = launched(
      "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": 2}}",
      "ds_config.json", with_model("llama-3-8b", 16));
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->framework == "deepspeed");
  CHECK(l.run->run.plan.mesh.size(Axis::data) == 16);
  CHECK(l.run->run.workload.global_batch == 64);
  CHECK(l.run->run.plan.microbatch_size == 2);
  CHECK(l.run->run.plan.zero_stage == 2);
}

TEST_CASE("A key that nobody knows is an error at its line", "[framework][deepspeed]") {
  const Launched l = launched("{\"train_batch_size\": 64,\n \"zero_optimisation\": {\"stage\": 2}}", "ds.json",
                              with_model("llama-3-8b", 16));
  CHECK_FALSE(l.run);
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].code == "launch.unknown-key");
  CHECK(l.diagnostics.list()[0].position.line == 2);
}
