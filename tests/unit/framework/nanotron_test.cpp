#include "framework/nanotron/stages.hpp"
#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

std::string config(const std::string& parallelism, const std::string& model = "", const std::string& rest = "") {
  return "model:\n"
         "  dtype: bfloat16\n"
         "  model_config:\n"
         "    is_qwen2_config: true\n"
         "    hidden_size: 64\n"
         "    intermediate_size: 128\n"
         "    num_hidden_layers: 8\n"
         "    num_attention_heads: 4\n"
         "    num_key_value_heads: 2\n"
         "    vocab_size: 512\n" +
         model + "parallelism:\n" + parallelism +
         "tokens:\n"
         "  sequence_length: 128\n"
         "  micro_batch_size: 2\n"
         "  batch_accumulation_per_replica: 4\n" +
         rest;
}

Launched nanotron_launched(const std::string& text) { return launched(text, "run.yaml"); }

}  // namespace

TEST_CASE("nanotron's sizes give the mesh, the batch and the model", "[framework][nanotron]") {
  const Launched l = nanotron_launched(
      config("  dp: 2\n  pp: 2\n  tp: 2\n  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\n  recompute_layer: true\n",
             "    attention_bias: true\n", "optimizer:\n  zero_stage: 1\n  accumulate_grad_in_fp32: true\n"));
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const PlannedRun& run = l.run->run;
  CHECK(l.run->framework == "nanotron");
  CHECK(l.run->own_model);
  CHECK_FALSE(l.run->has(LaunchNote::Kind::not_expressible));
  CHECK(run.plan.mesh.size() == 8);
  CHECK(run.workload.global_batch == 16);  // 2 x 4 x 2
  CHECK(run.plan.microbatch_size == 2);
  CHECK(run.plan.schedule == ScheduleName::one_f_one_b);
  CHECK(run.plan.sequence_parallel);
  CHECK(run.plan.zero_stage == 1);
  CHECK(run.plan.recompute == Recompute::full);
  CHECK(run.model.kv_heads == 2);
  CHECK(run.model.norm == Norm::rms_norm);
  CHECK(run.model.biases == Biases{true, false, false, false});
  CHECK_FALSE(run.model.tied_embeddings);
}

TEST_CASE("nanotron's defaults are all forward and then all backward, and sums on every tensor rank",
          "[framework][nanotron]") {
  const Launched l = nanotron_launched(config("  dp: 1\n  pp: 2\n  tp: 2\n"));
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.schedule == ScheduleName::gpipe);
  CHECK_FALSE(l.run->run.plan.sequence_parallel);
}

TEST_CASE("nanotron's stages hold layers until their cost is above the rank's share", "[framework][nanotron]") {
  ModelSpec m = test::shipped_model("llama-3-8b");
  // With h = 64 and f = 128: 4 h^2 + 3 h f = 40960 for a layer; the head of 1280 tokens costs two of them.
  m.layers = 8, m.hidden = 64, m.ffn = 128, m.vocabulary = 1280;
  // 10 in all: half is 5, and the sixth layer goes above it.
  CHECK(nanotron_stage_layers(m, 2) == std::vector<std::uint32_t>{6, 2});
  CHECK(nanotron_stage_layers(m, 1) == std::vector<std::uint32_t>{8});
  m.vocabulary = 64000;  // A head of 100 layers is all that the last rank has.
  CHECK(nanotron_stage_layers(m, 2) == std::vector<std::uint32_t>{8, 0});
  CHECK_FALSE(nanotron_stage_layers(m, 3));  // and leaves nothing for a rank between
}

TEST_CASE("What plans cannot say of nanotron is refused with the nearest", "[framework][nanotron]") {
  const Launched l = nanotron_launched(
      config("  dp: 2\n  pp: 1\n  tp: 2\n  expert_parallel_size: 2\n",
             "    moe_config:\n      num_experts: 4\n      top_k: 2\n      moe_intermediate_size: 64\n",
             "optimizer:\n  accumulate_grad_in_fp32: false\n"));
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.mesh.size(Axis::expert) == 2);
  CHECK(l.run->run.model.mixture->experts == 4);
  CHECK(l.refuses("parallelism.expert_parallel_size"));
  CHECK(l.refuses("parallelism.tp"));
  CHECK_FALSE(l.run->run.workload.master_weights);  // bf16 sums: no copies in f32 either
}

TEST_CASE("A StarCoder of nanotron has layer norms, biases, dropout and a window", "[framework][nanotron]") {
  std::string text = config("  dp: 1\n  pp: 1\n  tp: 1\n",
                            "    grouped_query: true\n    num_kv_heads: 2\n"
                            "    sliding_window_size: 32\n    resid_pdrop: 0.2\n");
  text.replace(text.find("is_qwen2_config"), 15, "is_starcoder2_config");
  text.erase(text.find("    num_key_value_heads: 2\n"), 27);
  const Launched l = nanotron_launched(text);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const ModelSpec& m = l.run->run.model;
  CHECK(m.norm == Norm::layer_norm);
  CHECK(m.biases == Biases::of_layers(true));
  CHECK(m.kv_heads == 2);
  CHECK(m.local->size == 32);
  CHECK(l.run->run.workload.hidden_dropout == 0.2);
  CHECK(l.run->run.workload.attention_dropout == 0.1);
}

TEST_CASE("Families that plans do not have, and unknown keys, are errors at their lines", "[framework][nanotron]") {
  std::string text = config("  dp: 1\n  pp: 1\n  tp: 1\n");
  text.replace(text.find("is_qwen2_config"), 15, "is_mamba_config");
  const Launched mamba = nanotron_launched(text);
  CHECK_FALSE(mamba.run);
  REQUIRE(mamba.diagnostics.size() == 1);
  CHECK(mamba.diagnostics.list()[0].position.line == 4);
  const Launched unknown = nanotron_launched(config("  dp: 1\n  pp: 1\n  tp: 1\n  vp: 2\n"));
  REQUIRE(unknown.diagnostics.size() == 1);
  CHECK(unknown.diagnostics.list()[0].code == "launch.unknown-key");
  // A model that cannot be: 4 heads do not divide 65.
  std::string odd = config("  dp: 1\n  pp: 1\n  tp: 1\n");
  odd.replace(odd.find("hidden_size: 64"), 15, "hidden_size: 65");
  CHECK_FALSE(nanotron_launched(odd).run);
}

TEST_CASE("Context ranks of nanotron gather keys or pass them around, and route their own positions",
          "[framework][nanotron]") {
  const std::string sizes = "  dp: 1\n  pp: 1\n  tp: 1\n  context_parallel_size: 4\n";
  const Launched gathered =
      nanotron_launched(config(sizes,
                               "    _attn_implementation: llama3_ring_attention\n    ring_attn_heads_k_stride: 1\n"
                               "    no_rope_layer: 4\n    sliding_window_size: 32\n"));
  INFO(render(gathered.diagnostics));
  REQUIRE(gathered.run);
  CHECK(gathered.run->run.plan.context == ContextAlgorithm::all_gather);
  CHECK_FALSE(gathered.run->run.plan.zigzag);
  CHECK(gathered.run->run.model.unrotated.every == 4);
  CHECK(gathered.run->run.model.local->global.every == 4);  // layers without rotation see all keys
  const Launched ring = nanotron_launched(
      config(sizes, "    _attn_implementation: ring\n    moe_config:\n      num_experts: 4\n      top_k: 2\n"));
  INFO(render(ring.diagnostics));
  REQUIRE(ring.run);
  CHECK(ring.run->run.plan.context == ContextAlgorithm::ring);
  CHECK(ring.run->run.workload.routing.group == 32);  // 128 / 4
}
