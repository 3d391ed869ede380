#include "core/spec/hf_config.hpp"

#include <catch2/catch.hpp>

#include "core/base/random.hpp"
#include "core/spec/library.hpp"

using namespace orrery;

namespace {
const std::filesystem::path models = std::filesystem::path(ORRERY_SOURCE_DIR) / "models";
}

TEST_CASE("a Hugging Face config gives the shipped model", "[unit][hf]") {
  Diagnostics d;
  auto imported = read_hf_config(models / "hf" / "llama-3-70b" / "config.json", d);
  auto shipped = Library(models).model("llama-3-70b", ".", d);
  REQUIRE(imported);
  REQUIRE(shipped);
  CHECK(imported->name == "llama-3-70b");
  imported->source = shipped->source;
  CHECK(*imported == *shipped);
  CHECK(Library(models).model("hf/llama-3-70b", models, d) == read_hf_config(models / "hf/llama-3-70b/config.json", d));
}

TEST_CASE("configurations of other families give the shipped models", "[unit][hf]") {
  for (const char* name : {"bert-base", "vit-b-16", "deepseek-v2", "deepseek-v2-lite", "deepseek-v3"}) {
    CAPTURE(name);
    Diagnostics d;
    auto imported = read_hf_config(models / "hf" / name / "config.json", d);
    const auto shipped = Library(models).model(name, ".", d);
    CHECK(render(d) == "");
    REQUIRE(imported);
    REQUIRE(shipped);
    imported->source = shipped->source;
    CHECK(*imported == *shipped);
  }
}

TEST_CASE("a configuration of DeepSeek gives latent attention", "[unit][hf]") {
  const std::string dense =
      R"({"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 3, "num_attention_heads": 128, "intermediate_size": 18432, "vocab_size": 129280, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128, "num_nextn_predict_layers": 1)";
  Diagnostics d;
  const auto m = parse_hf_config(dense + "}", "x.json", d);
  CHECK(render(d) == "");
  REQUIRE(m);
  CHECK(m->latent == LatentAttention{1536, 512, 64, 128});
  CHECK(attention_parameter_count(*m) == 187'107'328);
  CHECK(m->prediction_modules == 1);
  // DeepSeek-V2-Lite makes its queries from the stream: null.
  std::string none = dense + "}";
  none.replace(none.find("1536"), 4, "null");
  CHECK(parse_hf_config(none, "x.json", d)->latent->query_rank == 0);
}

TEST_CASE("a configuration of Mixtral is the shipped model", "[unit][hf]") {
  const std::string mixtral =
      R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "vocab_size": 32000, "hidden_act": "silu", "sliding_window": null})";
  Diagnostics d;
  const auto m = parse_hf_config(mixtral, "mixtral/config.json", d);
  CHECK(render(d) == "");
  REQUIRE(m);
  CHECK(m->mixture->experts == 8);
  CHECK(m->mixture->per_token == 2);
  CHECK(parameter_count(*m) == 46'702'792'704);
}

// DeepSeek-V3, 2024, section 4.2: 256 experts of width 2048 and a shared one,
// 8 for a token, the first 3 layers dense.  The count, without the prediction
// module: 61 x (attention 187,107,328 + two norms) + 3 dense layers of width
// 18432 + 58 mixtures + table, head and norm.
TEST_CASE("a configuration of DeepSeek-V3 gives its experts", "[unit][hf]") {
  const std::string text =
      R"({"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "intermediate_size": 18432, "vocab_size": 129280, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "norm_topk_prob": true, "topk_method": "noaux_tc"})";
  Diagnostics d;
  const auto m = parse_hf_config(text, "x.json", d);
  CHECK(render(d) == "");
  REQUIRE(m);
  Mixture x;
  x.experts = 256;
  x.per_token = 8;
  x.ffn = x.shared_ffn = 2048;
  x.first_dense = 3;
  x.scores = Mixture::Scores::sigmoid;
  x.scale = 2.5;
  x.score_bias = true;
  x.groups = 8;  // what a file without n_group and topk_group has
  x.groups_per_token = 4;
  x.group_score = Mixture::GroupScore::two_best;
  CHECK(m->mixture == x);
  const std::uint64_t mixtures = 58 * (257ULL * 3 * 7168 * 2048 + 256 * 7168);
  CHECK(parameter_count(*m) ==
        61 * (187'107'328 + 2 * 7168ULL) + 3 * 3 * 7168ULL * 18432 + mixtures + 2 * 129'280ULL * 7168 + 7168);
}

// Layer l is a mixture where l >= first_k_dense_replace and moe_layer_freq divides l: 4, 6, 8 of 9.
TEST_CASE("a configuration of DeepSeek gives how often mixtures come", "[unit][hf]") {
  const std::string text =
      R"({"model_type": "deepseek_v2", "hidden_size": 64, "num_hidden_layers": 9, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100, "kv_lora_rank": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 3, "moe_layer_freq": 2})";
  Diagnostics d;
  const auto m = parse_hf_config(text, "x.json", d);
  CHECK(render(d) == "");
  REQUIRE(m);
  std::string found;
  for (std::uint64_t l = 0; l < 9; ++l) found += is_mixture(*m, l) ? 'm' : '.';
  CHECK(found == "....m.m.m");
}

TEST_CASE("a bare gpt2 config takes that family's defaults", "[unit][hf]") {
  // Without keys GPT-2 is its smallest published size.
  Diagnostics d;
  const auto m = parse_hf_config(R"({"model_type": "gpt2"})", "gpt2/config.json", d);
  CHECK(render(d) == "");
  REQUIRE(m);
  CHECK(parameter_count(*m) == 124'439'808);
}

TEST_CASE("both spellings of the rotary base are read", "[unit][hf]") {
  const std::string head =
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100)";
  Diagnostics d;
  CHECK(parse_hf_config(head + R"(, "rope_theta": 500000.0})", "x.json", d)->rope_theta == 500000.0);
  CHECK(parse_hf_config(head + R"(, "rope_parameters": {"rope_theta": 1000000}})", "x.json", d)->rope_theta == 1e6);
  CHECK(parse_hf_config(head + "}", "x.json", d)->rope_theta == 10000.0);
  const auto plain = parse_hf_config(head + "}", "x.json", d);
  CHECK(plain->kv_heads == 4);  // no key: every head has its own
  CHECK(plain->head_dim == 16);
  CHECK(parse_hf_config(head + R"(, "head_dim": 32})", "x.json", d)->head_dim == 32);
}

TEST_CASE("any change of a config gives a model or diagnostics", "[unit][hf]") {
  const std::string good =
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100, "rope_parameters": {"rope_theta": 1}})";
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  for (std::uint64_t round = 0; round < 3000; ++round) {
    std::string text = good;
    for (std::uint64_t e = 0; e < 3; ++e) {
      const std::uint64_t r = random_bits(seed, e, round);
      if (r % 2 == 0)
        text[(r >> 8) % text.size()] = static_cast<char>((r >> 40) & 0xff);
      else
        text.erase((r >> 8) % text.size(), 1);
    }
    CAPTURE(round, text);
    Diagnostics d;
    const auto model = parse_hf_config(text, "fuzz.json", d);
    CHECK(model.has_value() == d.empty());
  }
}
