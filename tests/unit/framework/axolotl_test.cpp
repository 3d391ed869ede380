#include <cmath>

#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

/// A small whole file: eight GPUs, FSDP in its second version.
const std::string fsdp =
    "base_model: NousResearch/Meta-Llama-3-8B\n"
    "datasets:\n"
    "  - path: some/data\n"
    "    type: alpaca\n"
    "sequence_len: 4096\n"
    "sample_packing: true\n"
    "micro_batch_size: 2\n"
    "gradient_accumulation_steps: 4\n"
    "optimizer: adamw_torch_fused\n"
    "lr_scheduler: cosine\n"
    "learning_rate: 2e-5\n"
    "bf16: true\n"
    "gradient_checkpointing: true\n"
    "flash_attention: true\n"
    "fsdp_version: 1\n"
    "fsdp_config:\n"
    "  reshard_after_forward: true\n"
    "  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n";

Launched read(const std::string& text, std::uint32_t gpus = 8) { return launched(text, "config.yml", with_gpus(gpus)); }

}  // namespace

TEST_CASE("axolotl's FSDP is ZeRO-3, and its batch is micro x accumulation x ranks", "[framework][axolotl]") {
  const Launched l = read(fsdp);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const PlannedRun& run = l.run->run;
  CHECK(l.run->framework == "axolotl");
  CHECK(run.model_reference == "llama-3-8b");
  CHECK(run.plan.zero_stage == 3);
  CHECK(run.plan.reshard_after_forward);
  CHECK(run.plan.mesh.size(Axis::data) == 8);
  CHECK(run.plan.microbatch_size == 2);
  CHECK(run.workload.global_batch == 64);  // 2 x 4 x 8
  CHECK(run.workload.sequence_length == 4096);
  CHECK(run.plan.recompute == Recompute::full);
  CHECK(run.plan.attention == AttentionKernel::flash);
  CHECK(run.workload.optimizer.beta2 == 0.999);  // the Trainer's default, not Orrery's
  CHECK(run.workload.clip_norm == 1.0);
  // Accelerate upcasts weights before FSDP shards them, so masters and moments are f32: nothing is lost.
  CHECK_FALSE(run.workload.moment_dtype);
  CHECK_FALSE(l.run->has(LaunchNote::Kind::not_expressible));
}

TEST_CASE("axolotl keeps weights in bf16 alone under DDP", "[framework][axolotl]") {
  const Launched l = read("base_model: meta-llama/Llama-3.2-1B\nsequence_len: 1024\nbf16: auto\n", 2);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.zero_stage == 0);
  CHECK(l.run->run.workload.moment_dtype == DType::bf16);    // torch's AdamW keeps moments in the weights' type
  CHECK(l.run->run.workload.gradient_dtype == DType::bf16);  // and autograd gradients
  CHECK_FALSE(l.run->run.workload.master_weights);
  CHECK_FALSE(l.refuses("bf16"));
  CHECK(l.note("sequence_len")->says.find("upper bound") != std::string::npos);  // nothing is packed
}

TEST_CASE("A run on one GPU is read", "[framework][axolotl]") {
  for (const char* line :
       {"", "fsdp_version: 2\nfsdp_config: {reshard_after_forward: true}\n", "deepspeed: zero1.json\n"}) {
    const Launched l = read(std::string("base_model: llama-3-8b\nsequence_len: 1024\n") + line, 1);
    CAPTURE(line, render(l.diagnostics));
    CHECK(l.run);
  }
}

TEST_CASE("axolotl's axes become a mesh, and what is left of the GPUs copies", "[framework][axolotl]") {
  const std::string axes =
      "base_model: Qwen/Qwen3-8B\nsequence_len: 8192\nsample_packing: true\nfsdp_version: 2\nfsdp_config:\n"
      "  offload_params: false\ndp_shard_size: 2\ncontext_parallel_size: 2\ntensor_parallel_size: 2\n";
  const Launched l = read(axes, 16);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const Mesh& mesh = l.run->run.plan.mesh;
  CHECK(mesh.size(Axis::data) == 2);
  CHECK(mesh.size(Axis::context) == 2);
  CHECK(mesh.size(Axis::tensor) == 2);
  CHECK(mesh.size(Axis::replica) == 2);  // 16 / 8
  // Packed sequences gather keys and values of the whole sequence (varlen_llama3).
  CHECK(l.run->run.plan.context == ContextAlgorithm::all_gather);
  const Launched ring = read(axes + "ring_attn_func: batch_zigzag\n", 8);
  REQUIRE(ring.run);
  CHECK(ring.run->run.plan.context == ContextAlgorithm::ring);
  CHECK(ring.run->run.plan.zigzag);
}

TEST_CASE("Activations that axolotl offloads wait on the host, or on disk", "[framework][axolotl]") {
  for (const auto& [line, tier] : {std::pair{"gradient_checkpointing: offload\n", OffloadTier::host},
                                   std::pair{"gradient_checkpointing: offload_disk\n", OffloadTier::disk},
                                   std::pair{"activation_offloading: disk\n", OffloadTier::disk}}) {
    const Launched l = read(std::string("base_model: llama-3-8b\nsequence_len: 2048\n") + line);
    CAPTURE(line, render(l.diagnostics));
    REQUIRE(l.run);
    CHECK(l.run->run.plan.offload_activations == 8);
    CHECK(l.run->run.plan.activations_tier == tier);
  }
}

TEST_CASE("What axolotl trains and plans do not have is diagnosed at its line, alone", "[framework][axolotl]") {
  const std::string base = "base_model: llama-3-8b\nsequence_len: 2048\nfoo: 1\n";  // foo is unknown
  for (const char* line :
       {"adapter: llama-adapter", "peft_use_dora: true", "rl: dpo", "reward_model: true", "load_in_4bit: true",
        "qat: {weight_dtype: "
        "int8}",
        "lisa_n_layers: 4", "processor_type: AutoProcessor", "unfrozen_parameters: [lm_head]", "relora: true",
        "relora_steps: 100", "peft: {weight_dtype: nf4}", "peft_layers_to_transform: [0, 1]",
        "lora_exclude_modules: [v_proj]", "diffusion: {noise_schedule: cosine}"}) {
    const Launched l = read(base + line + "\n");
    CAPTURE(line, render(l.diagnostics));
    CHECK_FALSE(l.run);
    REQUIRE(l.diagnostics.size() == 1);
    CHECK(l.diagnostics.list()[0].position.line == 4);
  }
  // The same keys turned off are nothing.
  const Launched off = read("base_model: llama-3-8b\nsequence_len: 2048\nadapter:\nload_in_4bit: false\nrl:\n");
  CHECK(off.run);
}

TEST_CASE("axolotl's QLoRA keeps the layers' matrices in NF4 with scales in 8 bits, and lora may keep 8 bits",
          "[framework][axolotl]") {
  const std::string head =
      "base_model: llama-3-8b\nsequence_len: 2048\nlora_r: 32\nlora_alpha: 16\nlora_target_linear: true\n";
  const auto adapters = [&](const std::string& lines) {
    const Launched l = read(head + lines);
    CAPTURE(lines, render(l.diagnostics));
    REQUIRE(l.run);
    return l.run->run.workload.adapters.value();
  };
  const Adapters four = adapters("adapter: qlora\nload_in_4bit: true\n");
  CHECK(four.base == BaseWeights::nf4);
  CHECK(four.double_quantization);
  const Adapters single = adapters(
      "adapter: qlora\nload_in_4bit: true\npeft_use_rslora: true\nbnb_config_kwargs:\n  bnb_4bit_use_double_quant: "
      "false\n");
  CHECK(single.base == BaseWeights::nf4);
  CHECK_FALSE(single.double_quantization);
  CHECK(single.rank_stabilized);
  CHECK(single.scale() == Approx(16.0 / std::sqrt(32.0)));
  CHECK(adapters("adapter: lora\nload_in_8bit: true\n").base == BaseWeights::int8);
  CHECK(adapters("adapter: lora\n").base == BaseWeights::unquantized);
  // For lora axolotl's loader asks for 8 bits alone.
  CHECK(adapters("adapter: lora\nload_in_4bit: true\nbnb_config_kwargs:\n  bnb_4bit_quant_type: fp4\n").base ==
        BaseWeights::unquantized);
  CHECK(adapters("adapter: lora\nload_in_8bit: true\nload_in_4bit: true\n").base == BaseWeights::int8);
  // axolotl itself takes neither.
  CHECK_FALSE(read(head + "adapter: qlora\n").run);
  CHECK_FALSE(read(head + "adapter: qlora\nload_in_8bit: true\n").run);
  const Launched fp4 =
      read(head + "adapter: qlora\nload_in_4bit: true\nbnb_config_kwargs:\n  bnb_4bit_quant_type: fp4\n");
  REQUIRE(fp4.run);
  CHECK(fp4.refuses("bnb_config_kwargs.bnb_4bit_quant_type"));
}

TEST_CASE("activations off the device beside adapters have the nearest, none off it", "[framework][axolotl]") {
  const Launched l = read(
      "base_model: llama-3-8b\nsequence_len: 2048\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n"
      "gradient_checkpointing: offload\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.refuses("gradient_checkpointing"));
  CHECK(l.run->run.plan.recompute == Recompute::full);
  CHECK(l.run->run.plan.offload_activations == 0U);
}

// The check speaks of [workload.adapters] as a whole; the first key that sets something of it is lora_r.
TEST_CASE("adapters of a model that takes none are diagnosed where the file asks for them", "[framework][axolotl]") {
  const Launched l = read(
      "base_model: mixtral-8x7b\nsequence_len: 2048\nadapter: lora\nlora_r: 8\nlora_target_modules: [q_proj, "
      "v_proj]\n");
  INFO(render(l.diagnostics));
  CHECK_FALSE(l.run);
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].code == "plan.adapters-model");
  CHECK(l.diagnostics.list()[0].position.line == 4);
}

TEST_CASE("axolotl's adapters are read, and what plans do not have of them is refused with the nearest",
          "[framework][axolotl]") {
  const Launched l = read(
      "base_model: llama-3-8b\nsequence_len: 2048\nadapter: lora\nlora_r: 32\nlora_alpha: 16\nlora_dropout: 0.05\n"
      "lora_target_modules:\n  - q_proj\n  - v_proj\n  - lm_head\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const auto& a = l.run->run.workload.adapters;
  REQUIRE(a);
  CHECK(a->rank == 32);
  CHECK(a->alpha == 16.0);
  CHECK(matrices_text(*a) == "q, v");
  CHECK(l.run->run.workload.master_weights);  // PEFT keeps adapters in fp32
  CHECK(l.refuses("lora_dropout"));
  CHECK(l.refuses("lora_target_modules"));
  const Launched all =
      read("base_model: llama-3-8b\nsequence_len: 2048\nadapter: lora\nlora_r: 8\nlora_target_linear: true\n");
  INFO(render(all.diagnostics));
  REQUIRE(all.run);
  CHECK(all.run->run.workload.adapters->matrices == Adapters::all_matrices);
  const std::string head = "base_model: llama-3-8b\nsequence_len: 2048\nadapter: lora\n";
  // Without a rank or matrices axolotl itself fails; patterns are not read, and are no list of names.
  for (const char* lines : {"lora_target_linear: true\n", "lora_r: 8\n",
                            "lora_r: 8\nlora_target_modules: \"layers.[0-9]+.(q|v)_proj\"\n"}) {
    CAPTURE(lines);
    CHECK_FALSE(read(head + lines).run);
  }
  const Launched packed = read(head + "lora_r: 8\nlora_target_modules: [qkv_proj]\n");
  REQUIRE(packed.run);
  CHECK(matrices_text(*packed.run->run.workload.adapters) == "q, k, v");
  CHECK(packed.refuses("lora_target_modules"));
  const Launched first = read(head + "lora_r: 8\nlora_target_modules: [model.layers.0.self_attn.q_proj]\n");
  REQUIRE(first.run);
  CHECK(first.refuses("lora_target_modules"));
  const Launched narrow =
      read(head + "bf16: true\nlora_r: 8\nlora_target_linear: true\npeft_autocast_adapter_dtype: false\n");
  REQUIRE(narrow.run);
  CHECK_FALSE(narrow.run->run.workload.master_weights);
}

TEST_CASE("Liger's loss is a loss in chunks", "[framework][axolotl]") {
  const Launched l = read(fsdp + "liger_fused_linear_cross_entropy: true\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.said("liger_fused_linear_cross_entropy", LaunchNote::Kind::taken));
  // llama-3-8b: 128256 / 4096 is 31.3, hence 32 pieces.
  CHECK(l.run->run.plan.loss_chunks == 32);
}

TEST_CASE("A loss without whole logits is refused with the nearest", "[framework][axolotl]") {
  const Launched l = read(fsdp +
                          "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"
                          "  - axolotl.integrations.liger.LigerPlugin\nliger_rms_norm: true\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.refuses("plugins"));
  CHECK(l.run->run.plan.loss_chunks == 16);
  CHECK(l.said("liger_rms_norm", LaunchNote::Kind::without_effect));
}

// bitsandbytes' and torchao's Adam of 8 bits have a code of a byte for each moment; pages stay where there is room.
TEST_CASE("Adam in 8 bits has moments in codes of a byte, in pages or not", "[framework][axolotl]") {
  struct Case {
    const char* name;
    DType moments;
    bool refused, paged;
  };
  for (const Case& c :
       {Case{"adamw_bnb_8bit", DType::u8, false, false}, Case{"adamw_8bit", DType::u8, false, false},
        Case{"adamw_torch_8bit", DType::u8, false, false}, Case{"ao_adamw_8bit", DType::u8, false, false},
        Case{"paged_adamw_8bit", DType::u8, false, true}, Case{"paged_adamw_32bit", DType::f32, false, true},
        Case{"ao_adamw_fp8", DType::u8, true, false}, Case{"ao_adamw_4bit", DType::u8, true, false}}) {
    const Launched l = read("base_model: llama-3-8b\nsequence_len: 2048\noptimizer: " + std::string(c.name) + "\n");
    CAPTURE(c.name, render(l.diagnostics));
    REQUIRE(l.run);
    CHECK(moment_dtype(l.run->run.workload) == c.moments);
    CHECK(l.refuses("optimizer") == c.refused);
    const auto notes = [&](std::string_view part) {
      return std::any_of(l.run->notes.begin(), l.run->notes.end(), [&](const LaunchNote& n) {
        return n.key == "optimizer" && n.says.find(part) != std::string::npos;
      });
    };
    CHECK(notes("pages of moments, which stay on the device unless it is full") == c.paged);
    // The Trainer keeps the embedding's moments in 32 bits with bitsandbytes, not with torchao.
    const std::string_view name = c.name;
    const bool bitsandbytes = name == "adamw_bnb_8bit" || name == "adamw_8bit" || name == "paged_adamw_8bit";
    CHECK(notes("6 bytes more of each") == bitsandbytes);
  }
}

TEST_CASE("A published model that is no decoder of text is named as what it is", "[framework][axolotl]") {
  const Launched l = read("base_model: Qwen/Qwen2.5-VL-7B-Instruct\nsequence_len: 2048\n");
  CHECK_FALSE(l.run);
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].message.find("images") != std::string::npos);
  // With a model of the person's, its shape is taken.
  CHECK(launched("base_model: Qwen/Qwen2.5-VL-7B-Instruct\nsequence_len: 2048\n", "c.yml", with_model("qwen2.5-7b", 8))
            .run);
}
