#include <filesystem>
#include <fstream>

#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;
using Kind = LaunchNote::Kind;

namespace {

Launched read(const std::string& text, const std::string& file = "a.yaml") {
  return launched(text, file, with_model("llama-3-8b"));
}

}  // namespace

TEST_CASE("FSDP shards weights, and SHARD_GRAD_OP keeps them gathered", "[framework][accelerate]") {
  const Launched full = read("distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\n");
  const Launched kept =
      read("distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n");
  REQUIRE(full.run);
  REQUIRE(kept.run);
  CHECK(full.run->framework == "accelerate");
  CHECK(full.run->run.plan.zero_stage == 3);
  CHECK(full.run->run.plan.reshard_after_forward);
  CHECK_FALSE(kept.run->run.plan.reshard_after_forward);
  CHECK(full.run->run.plan.mesh.size(Axis::data) == 8);
  CHECK(kept.run->run.workload.precision == Precision::fp32);
}

TEST_CASE("Hybrid sharding has a copy on each machine", "[framework][accelerate]") {
  const Launched l = read(
      "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\n"
      "fsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.mesh.size(Axis::replica) == 2);
  CHECK(l.run->run.plan.mesh.size(Axis::data) == 8);
}

TEST_CASE("parallelism_config gives the axes, and PyTorch's rings balance causal work", "[framework][accelerate]") {
  const Launched l = read(
      "distributed_type: FSDP\nnum_processes: 16\nfsdp_config: {fsdp_version: 2}\nparallelism_config:\n"
      "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 2\n"
      "  parallelism_config_tp_size: 2\n  parallelism_config_cp_size: 2\n"
      "  parallelism_config_cp_comm_strategy: alltoall\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  for (const Axis axis : {Axis::replica, Axis::data, Axis::tensor, Axis::context}) {
    CHECK(l.run->run.plan.mesh.size(axis) == 2);
  }
  CHECK(l.run->run.plan.context == ContextAlgorithm::ring);
  CHECK(l.run->run.plan.zigzag);
}

TEST_CASE("Offloaded parameters of FSDP are refused with the nearest", "[framework][accelerate]") {
  const Launched l = read("distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_offload_params: true\n");
  REQUIRE(l.run);
  CHECK(l.said("fsdp_config.fsdp_offload_params", Kind::not_expressible));
  CHECK(l.run->run.plan.offload_states == 8U);
}

TEST_CASE("Accelerate hands DeepSpeed's values on", "[framework][accelerate]") {
  const Launched l = read(
      "distributed_type: DEEPSPEED\nnum_processes: 4\nmixed_precision: bf16\ndeepspeed_config:\n"
      "  gradient_accumulation_steps: 4\n  offload_optimizer_device: cpu\n  zero_stage: 1\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.zero_stage == 1);
  CHECK(l.run->run.plan.offload_states == 8U);
  CHECK(l.run->run.workload.global_batch == 16);  // 1 x 4 x 4 processes
  CHECK(l.run->run.workload.precision == Precision::bf16);
}

TEST_CASE("A DeepSpeed file is read beside the file that names it", "[framework][accelerate]") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "orrery_accelerate_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "ds.json") << "{\"zero_optimization\": {\"stage\": 3}, \"bf16\": {\"enabled\": true}}";
  const std::string text =
      "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  deepspeed_config_file: ";
  const Launched l = read(text + "ds.json\n", (folder / "a.yaml").string());
  const Launched missing = read(text + "none.json\n", (folder / "a.yaml").string());
  std::filesystem::remove_all(folder);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.zero_stage == 3);
  CHECK(l.run->run.workload.precision == Precision::bf16);
  CHECK_FALSE(missing.run);
  REQUIRE(missing.diagnostics.size() == 1);
  CHECK(missing.diagnostics.list()[0].position.line == 4);
}

TEST_CASE("Megatron-LM behind Accelerate keeps its degrees", "[framework][accelerate]") {
  const Launched l = read(
      "distributed_type: MEGATRON_LM\nnum_processes: 8\nmegatron_lm_config:\n  megatron_lm_tp_degree: 2\n"
      "  megatron_lm_pp_degree: 2\n  megatron_lm_num_micro_batches: 4\n  megatron_lm_sequence_parallelism: true\n"
      "  megatron_lm_use_distributed_optimizer: true\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.mesh.size(Axis::pipeline) == 2);
  CHECK(l.run->run.plan.sequence_parallel);
  CHECK(l.run->run.plan.zero_stage == 1);
  CHECK(l.run->run.workload.global_batch == 8);  // 1 x 4 x 2
}

TEST_CASE("Devices whose compiler splits the run are diagnosed once, at their line", "[framework][accelerate]") {
  const Launched l = read("num_processes: 8\ndistributed_type: XLA\ntpu_name: x\n");
  CHECK_FALSE(l.run);
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].position.line == 2);
}

// As PEFT 0.13 writes it, shortened.
TEST_CASE("PEFT's adapter_config.json says what is trained, and --set the rest", "[framework][accelerate]") {
  const std::string head =
      "{\"base_model_name_or_path\": \"meta-llama/Meta-Llama-3-8B\", \"bias\": \"none\", \"inference_mode\": true, "
      "\"lora_alpha\": 64, \"peft_type\": \"LORA\", \"r\": 16, \"rank_pattern\": {}, \"modules_to_save\": null, ";
  const Launched l =
      launched(head + "\"lora_dropout\": 0.0, \"use_rslora\": true, \"target_modules\": [\"q_proj\", \"v_proj\"]}",
               "adapter_config.json", with_gpus(2));
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.model_reference == "llama-3-8b");
  CHECK(l.run->run.workload.adapters->rank == 16);
  CHECK(l.run->run.workload.adapters->scale() == 16.0);  // 64 / sqrt(16)
  CHECK(matrices_text(*l.run->run.workload.adapters) == "q, v");
  CHECK_FALSE(l.run->has(LaunchNote::Kind::not_expressible));
  const Launched dora =
      launched(head + "\"lora_dropout\": 0.1, \"use_dora\": true, \"target_modules\": \"all-linear\"}",
               "adapter_config.json", with_gpus(2));
  INFO(render(dora.diagnostics));
  REQUIRE(dora.run);
  CHECK(dora.refuses("use_dora"));
  CHECK(dora.refuses("lora_dropout"));
  CHECK(dora.run->run.workload.adapters->matrices == Adapters::all_matrices);
  CHECK_FALSE(launched("{\"peft_type\": \"IA3\"}", "adapter_config.json", with_gpus(2)).run);
}
