#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "core/spec/hf_config.hpp"
#include "core/spec/model_level.hpp"

// Types whose classes are their authors' own: what the library builds cannot be counted, so the published numbers of
// weights are the reference, or the same model under a type of the library.

using namespace orrery;
using nlohmann::json;

namespace {

ModelSpec read(const json& config, const char* part = "") {
  Diagnostics d;
  std::optional<ModelSpec> model = parse_hf_config(config.dump(), "folder/config.json", d, part);
  CAPTURE(config.dump());
  REQUIRE(render(d) == "");
  REQUIRE(model);
  CHECK(unread_keys(*model).empty());
  return *model;
}

}  // namespace

// GLM-4-9B is published with 9,399,951,360 weights, under its authors' type and as "glm": table and head 2 x 151,552 x
// 4096; 40 layers of 4096 x 4608 + 4608 (queries, 2 groups of keys and values), 4096^2, 3 x 4096 x 13,696 and two
// norms; a last norm.
TEST_CASE("chatglm has the published weights of GLM-4-9B", "[unit][hf]") {
  json config = json::parse(R"({"model_type": "chatglm", "architectures": ["ChatGLMModel"], "add_bias_linear": false,
    "add_qkv_bias": true, "apply_query_key_layer_scaling": true, "apply_residual_connection_post_layernorm": false,
    "attention_dropout": 0.0, "attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "ffn_hidden_size": 13696,
    "fp32_residual_connection": false, "hidden_dropout": 0.0, "hidden_size": 4096, "kv_channels": 128,
    "layernorm_epsilon": 1.5625e-07, "multi_query_attention": true, "multi_query_group_num": 2,
    "num_attention_heads": 32, "num_hidden_layers": 40, "num_layers": 40, "rope_ratio": 500, "original_rope": true,
    "padded_vocab_size": 151552, "post_layer_norm": true, "rmsnorm": true, "seq_length": 131072, "use_cache": true,
    "classifier_dropout": null, "tie_word_embeddings": false, "vocab_size": 151552})");
  const ModelSpec model = read(config);
  CHECK(parameter_count(model) == 9'399'951'360);
  CHECK(model.rotary_dim == 64);
  CHECK(model.rope_theta == 5e6);
  CHECK(level_of(model) == ModelLevel::executed);
}

// Qwen-7B, 7,721,324,544 weights: 2 x 151,936 x 4096; 32 layers of 4096 x 12,288 + 12,288, 4096^2, 3 x 4096 x 11,008
// (half of intermediate_size) and two norms; a last norm.
TEST_CASE("qwen has the published weights of Qwen-7B", "[unit][hf]") {
  const json config = json::parse(R"({"model_type": "qwen", "architectures": ["QWenLMHeadModel"], "hidden_size": 4096,
    "intermediate_size": 22016, "kv_channels": 128, "layer_norm_epsilon": 1e-06, "max_position_embeddings": 32768,
    "no_bias": true, "num_attention_heads": 32, "num_hidden_layers": 32, "onnx_safe": null, "rotary_emb_base": 10000,
    "rotary_pct": 1.0, "scale_attn_weights": true, "seq_length": 8192, "tie_word_embeddings": false, "bf16": false,
    "fp16": false, "fp32": false, "use_cache": true, "use_dynamic_ntk": true, "use_flash_attn": "auto",
    "use_logn_attn": true, "vocab_size": 151936, "attn_dropout_prob": 0.0, "emb_dropout_prob": 0.0})");
  CHECK(parameter_count(read(config)) == 7'721'324'544);
  CHECK(read(config).biases == Biases{true, false, false, false});
}

// Ling-mini-2.0, 16,255,643,392 weights: 2 x 157,184 x 2048; 20 layers of 2048 x (2048 + 1024 + 2048), two norms of 128
// and two of 2048; one feed-forward layer of 3 x 2048 x 5120; 19 mixtures of 257 experts of 3 x 2048 x 512, a router
// 2048 x 256 and 256 biases; a last norm.
TEST_CASE("bailing_moe has the published weights of Ling-mini-2.0", "[unit][hf]") {
  json config = json::parse(R"({"model_type": "bailing_moe", "architectures": ["BailingMoeV2ForCausalLM"],
    "num_hidden_layers": 20, "hidden_size": 2048, "intermediate_size": 5120, "first_k_dense_replace": 1,
    "hidden_act": "silu", "max_position_embeddings": 32768, "moe_intermediate_size": 512, "norm_topk_prob": true,
    "num_experts_per_tok": 8, "num_attention_heads": 16, "num_experts": 256, "num_key_value_heads": 4,
    "rope_theta": 600000, "rope_scaling": null, "tie_word_embeddings": false, "use_bias": false, "use_rmsnorm": true,
    "rms_norm_eps": 1e-06, "head_dim": 128, "num_shared_experts": 1, "use_qkv_bias": false, "embedding_dropout": 0.0,
    "output_dropout": 0.0, "norm_softmax": false, "router_dtype": "fp32", "n_group": 8, "topk_group": 4,
    "score_function": "sigmoid", "moe_router_enable_expert_bias": true, "routed_scaling_factor": 2.5,
    "use_qk_norm": true, "partial_rotary_factor": 0.5, "num_nextn_predict_layers": 0, "vocab_size": 157184})");
  const ModelSpec model = read(config);
  CHECK(published_parameter_count(model) == 16'255'643'392);
  CHECK(model.rotary_dim == 64);
  REQUIRE(model.mixture);
  CHECK(model.mixture->groups == 8);
  CHECK(model.mixture->group_score == Mixture::GroupScore::two_best);
  config["model_type"] = "bailing_moe_v2";
  CHECK(published_parameter_count(read(config)) == 16'255'643'392);
}

// A layer norm has a bias, which an rms norm has not: two in each of 3 layers and the last, 24 wide.
TEST_CASE("types with LLaMA's layers are LLaMA, and Orion's norms have biases", "[unit][hf]") {
  json config{{"vocab_size", 103},        {"hidden_size", 24},        {"num_hidden_layers", 3},
              {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"intermediate_size", 52},
              {"rms_norm_eps", 1e-5},     {"model_type", "llama"}};
  const ModelSpec llama = read(config);
  for (const char* type : {"Yi", "xverse", "aquila", "skywork"}) {
    config["model_type"] = type;
    ModelSpec other = read(config);
    other.source = llama.source;
    CHECK(other == llama);
  }
  config["model_type"] = "orion";
  CHECK(parameter_count(read(config)) == parameter_count(llama) + (2 * 3 + 1) * 24);
  CHECK(read(config).norm_epsilon == 1e-5);
}

TEST_CASE("a known language model inside a model of an unknown type is read alone", "[unit][hf]") {
  const json text{{"model_type", "qwen2"},  {"vocab_size", 103},        {"hidden_size", 24},
                  {"num_hidden_layers", 3}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                  {"intermediate_size", 52}};
  const ModelSpec alone = read(text);
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    json outer{{"model_type", "zebra_audio"}, {key, text}, {"audio_config", {{"hidden_size", 8}}}, {"stripes", 7}};
    ModelSpec part = read(outer, "language");
    CHECK(part.name == alone.name + "-language");
    part.name = alone.name;
    part.source = alone.source;
    CHECK(part == alone);
    outer["tie_word_embeddings"] = true;  // the part does not say
    CHECK(parameter_count(read(outer, "language")) == parameter_count(alone) - 103 * 24);
    outer[key]["tie_word_embeddings"] = false;  // it does
    CHECK(parameter_count(read(outer, "language")) == parameter_count(alone));
  }
  const json deep{{"model_type", "zebra_omni"}, {"thinker_config", {{"text_config", text}, {"vision_config", 1}}}};
  CHECK(parameter_count(read(deep, "language")) == parameter_count(alone));
  json strange = text;
  strange["stripes"] = 7;
  Diagnostics d;
  const auto part =
      parse_hf_config(json{{"model_type", "zebra"}, {"text_config", strange}}.dump(), "config.json", d, "language");
  REQUIRE(part);
  CHECK(unread_keys(*part) == std::vector<std::string>{"text_config.stripes"});
}
