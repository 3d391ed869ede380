#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;
using Kind = LaunchNote::Kind;

namespace {

Launched read(const std::string& text, std::uint32_t gpus = 16) {
  return launched(text, "ds_config.json", with_model("llama-3-8b", gpus));
}

}  // namespace

TEST_CASE("DeepSpeed's batch is micro x accumulation x ranks", "[framework][deepspeed]") {
  const Launched l =
      read("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": 2}}");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->framework == "deepspeed");
  CHECK(l.run->run.plan.mesh.size(Axis::data) == 16);
  CHECK(l.run->run.workload.global_batch == 64);
  CHECK(l.run->run.plan.microbatch_size == 2);
  CHECK(l.run->run.plan.zero_stage == 2);
}

TEST_CASE("DeepSpeed's batch alone is one microbatch of each rank", "[framework][deepspeed]") {
  const Launched l = read("{\"train_batch_size\": 64}");
  REQUIRE(l.run);
  CHECK(l.run->run.plan.microbatch_size == 4);  // 64 over 16 ranks
}

TEST_CASE("Batches that contradict each other are an error", "[framework][deepspeed]") {
  const Launched l =
      read("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2,\n \"gradient_accumulation_steps\": 4}");
  CHECK_FALSE(l.run);  // 2 x 4 x 16 is 128
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].code == "launch.value");
}

TEST_CASE("A batch that accumulation and ranks do not share out is an error", "[framework][deepspeed]") {
  const std::string text = "{\"train_batch_size\": 4, \"gradient_accumulation_steps\": 2}";
  CHECK_FALSE(read(text).run);  // 16 ranks
  const Launched open = launched(text, "ds.json", with_model("llama-3-8b"));
  REQUIRE(open.run);
  CHECK(open.run->run.plan.mesh.size(Axis::data) == 2);  // the most GPUs that share it out
}

TEST_CASE("A key that nobody knows is an error at its line", "[framework][deepspeed]") {
  const Launched l = read("{\"train_batch_size\": 64,\n \"zero_optimisation\": {\"stage\": 2}}");
  CHECK_FALSE(l.run);
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].code == "launch.unknown-key");
  CHECK(l.diagnostics.list()[0].position.line == 2);
}

TEST_CASE("What DeepSpeed leaves to the Trainer is assumed and said", "[framework][deepspeed]") {
  const Launched l = read(
      "{\"train_batch_size\": \"auto\", \"bf16\": {\"enabled\": \"auto\"}, \"zero_optimization\": {\"stage\": 3,"
      " \"reduce_bucket_size\": \"auto\", \"stage3_prefetch_bucket_size\": \"auto\"}}");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.said("workload.precision", Kind::assumed));
  CHECK(l.run->run.workload.precision == Precision::bf16);
  // The Trainer's bucket is hidden x hidden gradients: 4096 x 4096 of 2 bytes.
  CHECK(l.run->run.plan.gradient_bucket == Bytes::of(4096.0 * 4096.0 * 2.0));
  CHECK(l.run->run.plan.overlap_gradients == true);  // in ZeRO-3, unless told otherwise
}

TEST_CASE("DeepSpeed counts buckets in gradients", "[framework][deepspeed]") {
  const Launched l = read(
      "{\"train_batch_size\": 16, \"fp16\": {\"enabled\": true, \"initial_scale_power\": 12},"
      " \"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 5e6, \"overlap_comm\": true}}");
  REQUIRE(l.run);
  CHECK(l.run->run.plan.gradient_bucket == Bytes::of(1e7));  // 2 bytes each
  CHECK(l.run->run.workload.loss_scale == 4096.0);
  CHECK(l.run->run.workload.gradient_dtype == DType::f16);
}

TEST_CASE("bf16 without ZeRO sums gradients in fp32, and with ZeRO in bf16", "[framework][deepspeed]") {
  const Launched without = read("{\"train_batch_size\": 16, \"bf16\": {\"enabled\": true}}");
  const Launched with =
      read("{\"train_batch_size\": 16, \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}}");
  REQUIRE(without.run);
  REQUIRE(with.run);
  CHECK(without.run->run.workload.gradient_dtype == DType::f32);
  CHECK(with.run->run.workload.gradient_dtype == DType::bf16);
}

TEST_CASE("Weights that ZeRO-3 offloads are refused, and their states are offloaded", "[framework][deepspeed]") {
  const Launched l = read(
      "{\"train_batch_size\": 16, \"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"},"
      " \"offload_optimizer\": {\"device\": \"nvme\", \"ratio\": 0.5}}}");
  REQUIRE(l.run);
  CHECK(l.said("zero_optimization.offload_param.device", Kind::not_expressible));
  CHECK(l.run->run.plan.offload_parameters == 0U);
  CHECK(l.run->run.plan.offload_states == 4U);
  CHECK(l.run->run.plan.states_tier == OffloadTier::disk);
}

TEST_CASE("A shard of MiCS is the data axis, and its copies are replicas", "[framework][deepspeed]") {
  const Launched l = read("{\"train_batch_size\": 16, \"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 8}}");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.mesh.size(Axis::data) == 8);
  CHECK(l.run->run.plan.mesh.size(Axis::replica) == 2);
}

TEST_CASE("Messages and optimizers that plans lack are refused with the nearest", "[framework][deepspeed]") {
  const Launched l = read(
      "{\"train_batch_size\": 16, \"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"lr\": 1e-3, \"betas\": "
      "[0.8, 0.99]}}, \"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 8,"
      " \"zero_quantized_weights\": true}}");
  REQUIRE(l.run);
  for (const char* key :
       {"optimizer.type", "zero_optimization.zero_hpz_partition_size", "zero_optimization.zero_quantized_weights"}) {
    CHECK(l.said(key, Kind::not_expressible));
  }
  CHECK(l.run->run.workload.optimizer.kind == OptimizerKind::adam);
  CHECK(l.run->run.workload.optimizer.beta1 == 0.8);
}

TEST_CASE("A list of values for the autotuner is an error at its key", "[framework][deepspeed]") {
  const Launched l = read("{\"train_batch_size\": 16,\n \"zero_optimization\": {\"stage\": [0, 1, 2]}}");
  CHECK_FALSE(l.run);
  CHECK(l.diagnostics.list()[0].position.line == 2);
}

TEST_CASE("DeepSpeed refuses to write what its file cannot say, each with a reason", "[framework][deepspeed]") {
  Launched l = read("{\"train_batch_size\": 16}");
  REQUIRE(l.run);
  PlannedRun run = l.run->run;
  run.plan.gradient_bucket = Bytes::of(4e6);
  run.plan.overlap_gradients = false;
  run.plan.recompute = Recompute::selective;
  run.plan.sequence_parallel = true;
  run.plan.collective_algorithm = CollectiveAlgorithm::ring;
  Diagnostics d;
  CHECK_FALSE(framework_named("deepspeed")->writings.front().write(run, d));
  CHECK(d.size() == 3);
}
