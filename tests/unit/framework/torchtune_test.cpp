#include "core/spec/adapters.hpp"
#include "tests/unit/framework/torchtune_files.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("torchtune shards all states over several GPUs, and keeps all in the file's type", "[framework][torchtune]") {
  const Launched l = read(full + rest + adam);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const PlannedRun& run = l.run->run;
  CHECK(l.run->framework == "torchtune");
  CHECK(run.model_reference == "llama-3.1-8b");
  CHECK(run.workload.global_batch == 64);  // 2 x 4 x 8
  CHECK(run.workload.sequence_length == 2048);
  CHECK(run.plan.zero_stage == 3);
  CHECK(run.plan.reshard_after_forward);
  CHECK(run.plan.recompute == Recompute::full);
  CHECK(run.plan.loss_chunks == 8);
  CHECK(run.workload.precision == Precision::bf16);
  CHECK_FALSE(run.workload.master_weights);
  // PyTorch's AdamW keeps gradients and moments as the weights are: 8 bytes of a parameter in all.
  CHECK(moment_dtype(run.workload) == DType::bf16);
  CHECK(gradient_dtype(run.workload) == DType::bf16);
  CHECK_FALSE(l.run->has(LaunchNote::Kind::not_expressible));

  const Launched wide = read("dtype: fp32\n" + full + rest.substr(0, rest.find("dtype")) + adam);
  INFO(render(wide.diagnostics));
  REQUIRE(wide.run);
  CHECK(wide.run->run.workload.precision == Precision::fp32);
  CHECK(moment_dtype(wide.run->run.workload) == DType::f32);
  CHECK(wide.run->run.plan.recompute == Recompute::none);
}

TEST_CASE("One GPU shards nothing, and a file's name says that it is one", "[framework][torchtune]") {
  const Launched one = read(full + rest + adam, 1);
  INFO(render(one.diagnostics));
  REQUIRE(one.run);
  CHECK(one.run->run.plan.zero_stage == 0);
  CHECK(one.run->run.workload.global_batch == 8);
  for (const char* file : {"8B_full_single_device.yaml", "mine.yaml"}) {
    const bool named = std::string(file) != "mine.yaml";
    const Launched guessed =
        launched(full + rest + adam + (named ? "" : "output_dir: /tmp/full_single_device\n"), file);
    INFO(render(guessed.diagnostics));
    REQUIRE(guessed.run);
    CHECK(guessed.run->run.plan.mesh.size(Axis::data) == 1);
    CHECK(guessed.said("gpus", LaunchNote::Kind::assumed));
  }
  const Launched node = launched(full + rest + adam, "run.yaml");
  REQUIRE(node.run);
  CHECK(node.run->run.plan.mesh.size(Axis::data) == 8);
}

// Layers and widths are those of torchtune's builders (pytorch/torchtune@bd2a0fc7
// torchtune/models/*/_model_builders.py).
TEST_CASE("Builders are the shipped models of their shape", "[framework][torchtune]") {
  struct Case {
    const char* component;
    std::uint64_t layers, hidden, kv_heads, ffn, vocabulary;
  };
  for (const Case& c : {Case{"llama2.llama2_13b", 40, 5120, 40, 13824, 32000},
                        Case{"llama3.llama3_70b", 80, 8192, 8, 28672, 128256},
                        Case{"llama3_1.llama3_1_405b", 126, 16384, 8, 53248, 128256},
                        Case{"llama3_2.llama3_2_1b", 16, 2048, 8, 8192, 128256},
                        Case{"llama3_2.llama3_2_3b", 28, 3072, 8, 8192, 128256},
                        Case{"llama3_3.llama3_3_70b", 80, 8192, 8, 28672, 128256},
                        Case{"gemma.gemma_2b", 18, 2048, 1, 16384, 256000},
                        Case{"gemma.gemma_7b", 28, 3072, 16, 24576, 256000},
                        Case{"gemma2.gemma2_2b", 26, 2304, 4, 9216, 256000},
                        Case{"gemma2.gemma2_27b", 46, 4608, 16, 36864, 256000},
                        Case{"phi3.phi3_mini", 32, 3072, 32, 8192, 32064},
                        Case{"phi4.phi4_14b", 40, 5120, 10, 17920, 100352},
                        Case{"qwen2.qwen2_7b", 28, 3584, 4, 18944, 152064},
                        Case{"qwen2.qwen2_0_5b", 24, 896, 2, 4864, 151936},
                        Case{"qwen2_5.qwen2_5_14b_instruct", 48, 5120, 8, 13824, 152064},
                        Case{"qwen2_5.qwen2_5_1_5b_base", 28, 1536, 2, 8960, 151936},
                        Case{"qwen2_5.qwen2_5_72b_base", 80, 8192, 8, 29568, 152064},
                        Case{"qwen3.qwen3_0_6b_base", 28, 1024, 8, 3072, 151936},
                        Case{"qwen3.qwen3_32b", 64, 5120, 8, 25600, 151936},
                        Case{"mistral.mistral_7b", 32, 4096, 8, 14336, 32768}}) {
    const Launched l = read(std::string("model: {_component_: torchtune.models.") + c.component + "}\n" + rest + adam);
    CAPTURE(c.component, render(l.diagnostics));
    REQUIRE(l.run);
    const ModelSpec& m = l.run->run.model;
    CHECK(m.layers == c.layers);
    CHECK(m.hidden == c.hidden);
    CHECK(m.kv_heads == c.kv_heads);
    CHECK(m.ffn == c.ffn);
    CHECK(m.vocabulary == c.vocabulary);
  }
}

TEST_CASE("A builder that takes sizes gives the model that they describe", "[framework][torchtune]") {
  // TinyLlama 1.1B by its sizes; the width of the feed-forward part follows from 2,048.
  const std::string sizes =
      "model: {_component_: torchtune.models.llama2.llama2, vocab_size: 32000, num_layers: 22, num_heads: 32, "
      "num_kv_heads: 4, embed_dim: 2048, max_seq_len: 2048, attn_dropout: 0.0, norm_eps: 1e-5}\n";
  const Launched l = read(sizes + rest + adam);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->own_model);
  CHECK(l.run->run.model.ffn == 5632);
  CHECK(parameter_count(l.run->run.model) == parameter_count(test::shipped_model("tinyllama-1.1b")));
  CHECK(said_of("model: {_component_: torchtune.models.llama2.llama2, vocab_size: 32000}\n" + rest + adam, 1) ==
        "the builder needs num_layers, num_heads, num_kv_heads, embed_dim, max_seq_len");
}

TEST_CASE("Adapters stand beside the matrices that the builder is told", "[framework][torchtune]") {
  const Launched l = read(adapters() + rest + adam);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const Adapters& a = l.run->run.workload.adapters.value();
  CHECK(a.rank == 64);
  CHECK(a.alpha == 128.0);
  CHECK(matrices_text(a) == "q, v, o, gate, up, down");
  CHECK(a.base == BaseWeights::unquantized);
  CHECK(l.run->run.plan.zero_stage == 3);
  CHECK_FALSE(l.run->run.workload.master_weights);

  const Launched few =
      read("model: {_component_: torchtune.models.llama2.lora_llama2_7b, lora_attn_modules: [k_proj]}\n" + rest + adam);
  INFO(render(few.diagnostics));
  REQUIRE(few.run);
  CHECK(few.run->run.workload.adapters->rank == 8);  // the builder's default
  CHECK(few.run->run.workload.adapters->alpha == 16.0);
  CHECK(matrices_text(*few.run->run.workload.adapters) == "k");

  CHECK(said_of(
            "model: {_component_: torchtune.models.llama2.lora_llama2_7b, lora_attn_modules: [o_proj]}\n" + rest + adam,
            1) == "no matrix of attention is named \"o_proj\"");
  CHECK(said_of("model: {_component_: torchtune.models.llama2.lora_llama2_7b}\n" + rest + adam, 1) ==
        "no matrix has an adapter");
}

TEST_CASE("QLoRA's matrices are in NF4 on one GPU, and FSDP's parts of them are refused", "[framework][torchtune]") {
  for (const std::string& text :
       {adapters("qlora_llama3_1_8b"), adapters("lora_llama3_1_8b", "  quantize_base: True\n")}) {
    const Launched one = read(text + rest + adam, 1);
    INFO(render(one.diagnostics));
    REQUIRE(one.run);
    CHECK(one.run->run.workload.adapters->base == BaseWeights::nf4);
    CHECK(one.run->run.workload.adapters->double_quantization);
    CHECK_FALSE(one.run->has(LaunchNote::Kind::not_expressible));
    const Launched two = read(text + rest + adam, 2);
    INFO(render(two.diagnostics));
    REQUIRE(two.run);  // the nearest
    CHECK(two.run->run.plan.zero_stage == 2);
    const bool said = text.find("quantize_base") != std::string::npos;
    CHECK(two.refuses(said ? "model.quantize_base" : "model._component_"));
  }
}

TEST_CASE("torchtune's axes stand in its order", "[framework][torchtune]") {
  const std::string tensor =
      "tensor_parallel_dim: 2\ntensor_parallel_plan: {_component_: torchtune.models.llama3.base_llama_tp_plan}\n";
  const Launched l = read(full + rest + adam + tensor +
                              "context_parallel_dim: 2\ndata_parallel_replicate_dim: 2\ndata_parallel_shard_dim: -1\n"
                              "fsdp_reshard_after_forward: False\n",
                          32);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const Plan& plan = l.run->run.plan;
  CHECK(plan.mesh.size(Axis::data) == 4);
  CHECK(plan.mesh.size(Axis::replica) == 2);
  CHECK(plan.context == ContextAlgorithm::all_gather);
  CHECK(plan.zigzag);
  CHECK(plan.sequence_parallel);
  CHECK_FALSE(plan.reshard_after_forward);
  CHECK(plan.mesh.axes.front().axis == Axis::replica);
  CHECK(plan.mesh.axes.back().axis == Axis::tensor);
  CHECK(l.run->run.workload.global_batch == 2 * 4 * 8);

  const Launched ring =
      read(full + rest + adam + "context_parallel_dim: 2\ncontext_parallel_rotate_method: alltoall\n");
  REQUIRE(ring.run);
  CHECK(ring.run->run.plan.context == ContextAlgorithm::ring);

  CHECK(said_of(full + "tensor_parallel_dim: 2\n" + rest + adam, 2) == "tensor ranks need a tensor_parallel_plan");
  CHECK(said_of("tensor_parallel_dim: 2\n" + adapters() + rest + adam, 1) ==
        "torchtune's recipes with adapters take no tensor ranks");
  CHECK(read(full + rest + adam + "data_parallel_replicate_dim: 8\n").refuses("data_parallel_replicate_dim"));
  CHECK(said_of("data_parallel_shard_dim: 4\n" + full + rest + adam, 1, 16) ==
        "the data-parallel size is not what the number of GPUs leaves");
}
