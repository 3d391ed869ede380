#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

const std::string base =
    "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\n"
    "stage: sft\n"
    "do_train: true\n"
    "finetuning_type: full\n"
    "dataset: identity\n"
    "template: llama3\n"
    "cutoff_len: 2048\n"
    "per_device_train_batch_size: 2\n"
    "gradient_accumulation_steps: 4\n"
    "learning_rate: 1.0e-5\n"
    "bf16: true\n";

Launched read(const std::string& text, std::uint32_t gpus = 8) { return launched(text, "train.yaml", with_gpus(gpus)); }

}  // namespace

TEST_CASE("LLaMA-Factory trains weights cast to f32, and recomputes layers by itself", "[framework][llama_factory]") {
  const Launched l = read(base);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const PlannedRun& run = l.run->run;
  CHECK(l.run->framework == "llama-factory");
  CHECK(run.workload.global_batch == 64);  // 2 x 4 x 8
  CHECK(run.plan.zero_stage == 0);
  CHECK(run.plan.recompute == Recompute::full);
  CHECK(run.workload.precision == Precision::bf16);
  CHECK_FALSE(run.workload.moment_dtype);
  CHECK_FALSE(l.run->has(LaunchNote::Kind::not_expressible));
  const Launched off = read(base + "disable_gradient_checkpointing: true\n");
  REQUIRE(off.run);
  CHECK(off.run->run.plan.recompute == Recompute::none);
}

TEST_CASE("A DeepSpeed file of a known name stands for what the program ships", "[framework][llama_factory]") {
  struct Case {
    const char* path;
    std::uint32_t stage;
    std::uint32_t states;
  };
  for (const Case& c : {Case{"examples/deepspeed/ds_z0_config.json", 0, 0}, Case{"ds_z2_config.json", 2, 0},
                        Case{"ds_z2_offload_config.json", 2, 8}, Case{"ds_z3_config.json", 3, 0}}) {
    const Launched l = read(base + "deepspeed: " + c.path + "\n");
    CAPTURE(c.path, render(l.diagnostics));
    REQUIRE(l.run);
    CHECK(l.run->run.plan.zero_stage == c.stage);
    CHECK(l.run->run.plan.offload_states == c.states);
    // DeepSpeed sums gradients in the weights' type under ZeRO, and in f32 without.
    CHECK((l.run->run.workload.gradient_dtype == DType::bf16) == (c.stage > 0));
    CHECK(l.run->run.plan.overlap_gradients == false);  // as these files have it
    CHECK(l.said("plan.zero_stage", LaunchNote::Kind::assumed));
  }
  const Launched unknown = read(base + "deepspeed: of_my_own.json\n");
  CHECK_FALSE(unknown.run);
  REQUIRE(unknown.diagnostics.size() == 1);
  CHECK(unknown.diagnostics.list()[0].position.line == 12);
}

TEST_CASE("A DeepSpeed configuration within the file is read", "[framework][llama_factory]") {
  const Launched l = read(base +
                          "deepspeed:\n  zero_optimization:\n    stage: 2\n    overlap_comm: true\n"
                          "    offload_optimizer: {device: cpu, ratio: 0.5}\n  gradient_clipping: 0.3\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.zero_stage == 2);
  CHECK(l.run->run.plan.offload_states == 4);  // half of eight eighths
  CHECK(l.run->run.plan.overlap_gradients == true);
  CHECK(l.run->run.plan.gradient_bucket == Bytes::of(1e9));  // 5e8 gradients in bf16
}

TEST_CASE("LLaMA-Factory's Megatron keys become axes and ZeRO-1", "[framework][llama_factory]") {
  const Launched l = read(base +
                              "tensor_model_parallel_size: 2\npipeline_model_parallel_size: 2\n"
                              "virtual_pipeline_model_parallel_size: 2\nsequence_parallel: true\n"
                              "use_distributed_optimizer: true\noverlap_grad_reduce: true\n",
                          16);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const Plan& plan = l.run->run.plan;
  CHECK(plan.mesh.size(Axis::tensor) == 2);
  CHECK(plan.mesh.size(Axis::pipeline) == 2);
  CHECK(plan.mesh.size(Axis::data) == 4);  // 16 / (2 x 2)
  CHECK(plan.schedule == ScheduleName::interleaved);
  CHECK(plan.chunks == 2);
  CHECK(plan.sequence_parallel);
  CHECK(plan.zero_stage == 1);
  CHECK(plan.recompute == Recompute::none);  // Megatron's default
}

TEST_CASE("Adapters, other stages and files that train nothing are diagnosed alone", "[framework][llama_factory]") {
  struct Case {
    std::string text;
    const char* word;
  };
  const std::string head = "model_name_or_path: meta-llama/Meta-Llama-3-8B\ntemplate: llama3\n";
  for (const Case& c : {Case{head + "do_train: true\nstage: sft\nfinetuning_type: oft\n", "oft adapters"},
                        Case{head + "do_train: true\nfinetuning_type: full\nquantization_bit: 4\n", "few bits"},
                        Case{head + "do_train: true\nstage: dpo\nfinetuning_type: full\n", "dpo"},
                        Case{head + "do_train: true\nfinetuning_type: freeze\n", "part of the layers"},
                        Case{head + "do_train: true\nfinetuning_type: full\nuse_badam: true\n", "one block"},
                        Case{head + "infer_backend: vllm\n", "trains nothing"},
                        Case{head + "export_dir: out\nexport_size: 5\n", "trains nothing"},
                        Case{head + "do_train: false\nfinetuning_type: full\n", "trains nothing"}}) {
    const Launched l = read(c.text);
    CAPTURE(c.text, render(l.diagnostics));
    CHECK_FALSE(l.run);
    REQUIRE(l.diagnostics.size() == 1);
    CHECK(l.diagnostics.list()[0].message.find(c.word) != std::string::npos);
  }
}

TEST_CASE("LoRA is what LLaMA-Factory tunes by itself: rank 8, beside all matrices", "[framework][llama_factory]") {
  const std::string head =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\ntemplate: llama3\ndo_train: true\nstage: sft\nbf16: true\n";
  const Launched usual = read(head);
  INFO(render(usual.diagnostics));
  REQUIRE(usual.run);
  CHECK(usual.run->run.workload.adapters == Adapters{8, 16.0, Adapters::all_matrices});
  const Launched own = read(head + "finetuning_type: lora\nlora_rank: 4\nlora_alpha: 4\nlora_target: q_proj,v_proj\n");
  INFO(render(own.diagnostics));
  REQUIRE(own.run);
  CHECK(own.run->run.workload.adapters->rank == 4);
  CHECK(matrices_text(*own.run->run.workload.adapters) == "q, v");
  const Launched four = read(head + "quantization_bit: 4\nuse_rslora: true\n");
  INFO(render(four.diagnostics));
  REQUIRE(four.run);
  CHECK(four.run->run.workload.adapters == Adapters{8, 16.0, Adapters::all_matrices, true, BaseWeights::nf4, true});
  const Launched eight = read(head + "quantization_bit: 8\nquantization_method: bnb\n");
  INFO(render(eight.diagnostics));
  REQUIRE(eight.run);
  CHECK(eight.run->run.workload.adapters->base == BaseWeights::int8);
  CHECK_FALSE(read(head + "quantization_bit: 3\n").run);
  CHECK_FALSE(read(head + "quantization_bit: 4\nquantization_method: hqq\n").run);
}

TEST_CASE("Optimizers that plans do not have keep the nearest, Adam", "[framework][llama_factory]") {
  for (const char* line : {"use_galore: true", "use_apollo: true", "use_muon: true", "optim: lion_8bit"}) {
    const Launched l = read(base + line + "\n");
    CAPTURE(line, render(l.diagnostics));
    REQUIRE(l.run);
    CHECK(l.run->has(LaunchNote::Kind::not_expressible));
    CHECK(l.run->run.workload.optimizer.kind == OptimizerKind::adam);
  }
  const Launched eight = read(base + "optim: paged_adamw_8bit\n");
  REQUIRE(eight.run);
  CHECK_FALSE(eight.run->has(LaunchNote::Kind::not_expressible));
  CHECK(eight.run->run.workload.moment_dtype == DType::u8);
  const Launched unknown = read(base + "optim: adamm\n");
  CHECK_FALSE(unknown.run);
}

TEST_CASE("A LLaMA-Factory v1 file is FSDP over its own sizes", "[framework][llama_factory]") {
  const Launched l = read(
      "model: Qwen/Qwen3-0.6B\nmodel_class: llm\ndist_config:\n  name: fsdp2\ntrain_dataset: d.yaml\n"
      "micro_batch_size: 2\nglobal_batch_size: 64\ncutoff_len: 2048\nmax_steps: 10\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.zero_stage == 3);
  CHECK(l.run->run.workload.global_batch == 64);
  CHECK(l.run->run.plan.recompute == Recompute::full);
  CHECK(l.run->run.workload.optimizer.learning_rate == 1e-4);
}
