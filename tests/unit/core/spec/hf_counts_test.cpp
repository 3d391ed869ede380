#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/spec/hf/keys.hpp"
#include "core/spec/hf_config.hpp"
#include "core/spec/model_level.hpp"

// Parameters of models by the formulas of their readers, held to what version 5.24.0 of Hugging Face's transformers
// builds. hf_counts/small.jsonl has made-up configurations of a few thousand parameters, with no size at its default
// and no two sizes alike where they could be mistaken, so that a formula with a wrong letter does not pass. Their
// numbers are sums over the parameters of the class that `architectures` names, built on PyTorch's meta device, with
// shared ones counted once. hf_counts/defaults.txt has the same for files that hold nothing but their type and class.

using namespace orrery;
using nlohmann::json;

namespace {

const std::filesystem::path folder = std::filesystem::path(ORRERY_SOURCE_DIR) / "tests/unit/core/spec/hf_counts";

std::optional<ModelSpec> read(const json& config, const char* part = "") {
  Diagnostics d;
  std::optional<ModelSpec> model = parse_hf_config(config.dump(), "folder/config.json", d, part);
  CAPTURE(config.dump(), part);
  CHECK(render(d) == "");
  return model;
}

/// The library counts biases that only the choice of experts sees in some classes, and keeps them elsewhere in others.
void check_count(const json& config, std::uint64_t expected) {
  const std::optional<ModelSpec> model = read(config);
  REQUIRE(model);
  CAPTURE(config.dump(), parameter_count(*model), published_parameter_count(*model));
  CHECK((parameter_count(*model) == expected || published_parameter_count(*model) == expected));
  CHECK(active_parameter_count(*model) <= parameter_count(*model));
  CHECK(unread_keys(*model).empty());
}

std::vector<json> small() {
  std::vector<json> rows;
  std::ifstream file(folder / "small.jsonl");
  for (std::string line; std::getline(file, line);) rows.push_back(json::parse(line));
  return rows;
}

}  // namespace

TEST_CASE("a small configuration of each type has the parameters that the library builds", "[unit][hf]") {
  const std::vector<json> rows = small();
  REQUIRE(rows.size() > 140);
  for (const json& row : rows) check_count(row["config"], row["parameters"].get<std::uint64_t>());
}

TEST_CASE("a file that says only its type has the parameters of the library's defaults", "[unit][hf]") {
  std::ifstream file(folder / "defaults.txt");
  std::string type;
  std::size_t types = 0;
  for (std::uint64_t expected = 0; file >> type >> expected; ++types) {
    json config{{"model_type", type}};
    if (type == "deepseek_v2") config["num_experts_per_tok"] = 2;
    check_count(config, expected);
  }
  CHECK(types > 140);
}

TEST_CASE("any size of a model that is only counted changes its count", "[unit][hf]") {
  // A size that a formula left out would not.
  std::size_t tried = 0;
  for (const json& row : small()) {
    const json& config = row["config"];
    if (!config.contains("vocab_size") || !config["vocab_size"].is_number()) continue;
    const std::optional<ModelSpec> plain = read(config);
    REQUIRE(plain);
    for (const char* key : {"vocab_size", "num_hidden_layers", "intermediate_size", "moe_intermediate_size"}) {
      if (!config.contains(key) || !config[key].is_number() || config.contains("layer_types")) continue;
      // ALBERT's layers share their weights, and a pattern says how many Nemotron-H has.
      const bool shared = config["model_type"] == "albert" || config["model_type"] == "nemotron_h";
      if (shared && std::string(key) == "num_hidden_layers") continue;
      json other = config;
      other[key] = config[key].get<std::uint64_t>() * 2;
      Diagnostics d;
      const auto changed = parse_hf_config(other.dump(), "folder/config.json", d);
      if (!changed) continue;  // lists name each layer
      ++tried;
      CAPTURE(config.dump(), key);
      CHECK(parameter_count(*changed) > parameter_count(*plain));
    }
  }
  CHECK(tried > 100);
}

// T5's small sizes with gates and a head of their own: a table and a head of 32128 x 512; 8 layers with 4 x 512 x 384
// of attention, 3 x 512 x 1024 and two norms; 8 with two attentions and three norms; two norms; 32 x 6 distances twice:
// 2 x 16,449,536 + 8 x (786,432 + 1,572,864 + 1,024) + 8 x (1,572,864 + 1,572,864 + 1,536) + 1,024 + 384 = 76,961,152,
// the published size of flan-t5-small (Chung et al., 2022: 80M).
TEST_CASE("T5 with a head of its own counts it", "[unit][hf]") {
  json config{{"model_type", "t5"}, {"d_ff", 1024},       {"num_layers", 8},
              {"num_heads", 6},     {"d_kv", 64},         {"feed_forward_proj", "gated-gelu"},
              {"d_model", 512},     {"vocab_size", 32128}};
  CHECK(parameter_count(*read(config)) == 76'961'152 - 32128 * 512);
  config["tie_word_embeddings"] = false;
  CHECK(parameter_count(*read(config)) == 76'961'152);
}

// h 512, 4 heads of 128, V 100: table and head 2 x 51,200, last norm 512. Block 1: queries and output 2 x 512 x 512,
// one pair of keys and values 2 x 512 x 128, norm 512; width 2/3 x 1.5 x 512 = 512, so 3 x 512 x 512 and a norm. Block
// 2: no attention; one product of 512 x 512 and a norm. Block 3: a product for attention, no feed-forward part. A width
// of 2/3 x 1.6 x 512 = 546.1 is rounded up to 768.
TEST_CASE("DeciLM's blocks are counted one by one", "[unit][hf]") {
  json config = json::parse(R"({"model_type": "nemotron-nas", "hidden_size": 512, "num_attention_heads": 4,
    "vocab_size": 100, "num_hidden_layers": 3, "num_key_value_heads": null, "intermediate_size": null, "block_configs": [
    {"attention": {"n_heads_in_group": 4, "no_op": false}, "ffn": {"ffn_mult": 1.5, "no_op": false}},
    {"attention": {"no_op": true}, "ffn": {"replace_with_linear": true, "ffn_mult": null}},
    {"attention": {"replace_with_linear": true}, "ffn": {"no_op": true}}]})");
  constexpr std::uint64_t square = 512 * 512;
  const std::uint64_t expected =
      102'400 + 512 + (2 * square + 2 * 512 * 128 + 512) + (3 * square + 512) + (square + 512) + (square + 512);
  CHECK(parameter_count(*read(config)) == expected);
  config["block_configs"][0]["ffn"]["ffn_mult"] = 1.6;
  CHECK(parameter_count(*read(config)) == expected + 3 * 512 * 256);
}

// InternVL2-8B, whose class the library does not have, is published with 8,075,365,376 weights (its model card).
TEST_CASE("models whose classes are their authors' own have the published weights", "[unit][hf]") {
  const json internvl = json::parse(R"({"model_type": "internvl_chat", "architectures": ["InternVLChatModel"],
    "downsample_ratio": 0.5, "llm_config": {"architectures": ["InternLM2ForCausalLM"], "model_type": "internlm2",
      "bias": false, "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
      "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-5,
      "tie_word_embeddings": false, "vocab_size": 92553},
    "vision_config": {"architectures": ["InternVisionModel"], "hidden_size": 1024, "image_size": 448,
      "intermediate_size": 4096, "model_type": "intern_vit_6b", "norm_type": "layer_norm", "num_attention_heads": 16,
      "num_channels": 3, "num_hidden_layers": 24, "patch_size": 14, "qk_normalization": false, "qkv_bias": true}})");
  CHECK(parameter_count(*read(internvl)) == 8'075'365'376);
  // Kimi-VL has the tower and the projector of Kimi-K2.5.
  for (const json& row : small()) {
    json config = row["config"];
    if (config["model_type"] != "kimi_k25") continue;
    config.erase("architectures");
    config["tie_word_embeddings"] = false;
    const std::uint64_t other = parameter_count(*read(config));
    config["model_type"] = "kimi_vl";
    CHECK(parameter_count(*read(config)) == other);
  }
}

TEST_CASE("the language model inside a larger one is what its own type reads", "[unit][hf]") {
  const json text{{"vocab_size", 103},        {"hidden_size", 24},        {"num_hidden_layers", 3},
                  {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"intermediate_size", 52}};
  const std::pair<const char*, const char*> types[] = {{"llava", "llama"},
                                                       {"qwen2_vl", "qwen2_vl_text"},
                                                       {"qwen3_vl", "qwen3_vl_text"},
                                                       {"gemma3", "gemma3_text"},
                                                       {"internvl", "qwen2"}};
  for (const auto& [whole, inner] : types) {
    CAPTURE(whole);
    json outer{{"model_type", whole}, {"text_config", text}, {"tie_word_embeddings", false}};
    json alone = text;
    alone["model_type"] = inner;
    alone["tie_word_embeddings"] = false;
    std::optional<ModelSpec> part = read(outer, "language"), own = read(alone), all = read(outer);
    REQUIRE((part && own && all));
    CHECK(part->name == own->name + "-language");
    part->name = own->name;
    part->source = own->source;
    CHECK(*part == *own);
    CHECK(level_of(*all) == ModelLevel::counted);
    CHECK(parameter_count(*all) > parameter_count(*own));
    CHECK(all->hidden == own->hidden);
    outer["tie_word_embeddings"] = true;
    CHECK(parameter_count(*read(outer, "language")) == parameter_count(*own) - 103 * 24);
  }
}

TEST_CASE("older files have the language model's keys beside those of the tower", "[unit][hf]") {
  const json flat = json::parse(
      R"({"model_type": "qwen2_vl", "vocab_size": 103, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
          "num_key_value_heads": 2, "intermediate_size": 52, "zebra": 1, "vision_config": {"depth": 2}})");
  json nested{{"model_type", "qwen2_vl"}, {"vision_config", flat["vision_config"]}, {"text_config", flat}};
  for (const char* key : {"model_type", "vision_config"}) nested["text_config"].erase(key);
  const std::optional<ModelSpec> one = read(flat), other = read(nested);
  REQUIRE((one && other));
  CHECK(*one == *other);
  CHECK(unread_keys(*one) == std::vector<std::string>{"zebra"});
  CHECK(unread_keys(*other) == std::vector<std::string>{"text_config.zebra"});
  CHECK(unread_keys(*read(nested, "language")) == std::vector<std::string>{"text_config.zebra"});
}

TEST_CASE("--part with-head reads a base model as the class with the head that is trained", "[unit][hf]") {
  struct Case {
    const char *type, *base, *trained;
  };
  for (const auto& [type, base, trained] : {Case{"bert", "BertModel", "BertForMaskedLM"},
                                            {"xlm-roberta", "XLMRobertaModel", "XLMRobertaForMaskedLM"},
                                            {"vit", "ViTModel", "ViTForImageClassification"},
                                            {"qwen2", "Qwen2Model", "Qwen2ForCausalLM"}}) {
    json config = {{"model_type", type}, {"architectures", {base}}};
    const std::optional<ModelSpec> bare = read(config), whole = read(config, "with-head");
    config["architectures"] = {trained};
    std::optional<ModelSpec> expected = read(config);
    REQUIRE((bare && whole && expected));
    CHECK(level_of(*bare) == ModelLevel::counted);
    CHECK(bare->counted->because.ends_with("; --part with-head adds it"));
    CHECK(level_of(*whole) == ModelLevel::executed);
    CHECK(whole->name == bare->name + "-with-head");
    CHECK(whole->source.ends_with(std::string("with the head of ") + trained));
    expected->name = whole->name;
    expected->source = whole->source;
    expected->origin = whole->origin;
    CHECK(*whole == *expected);
  }
}

TEST_CASE("ELECTRA's generator with tables as wide as its layers is BERT", "[unit][hf]") {
  json config = {{"model_type", "electra"},
                 {"architectures", {"ElectraForMaskedLM"}},
                 {"vocab_size", 103},
                 {"hidden_size", 24},
                 {"embedding_size", 24},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"intermediate_size", 52},
                 {"max_position_embeddings", 37},
                 {"type_vocab_size", 3}};
  const std::optional<ModelSpec> generator = read(config);
  REQUIRE(generator);
  CHECK(level_of(*generator) == ModelLevel::executed);
  // (V + P + G) h + 2 h, L (4 (h^2 + h) + 2 h f + f + h + 4 h), h^2 + 3 h + V
  CHECK(parameter_count(*generator) == 143 * 24 + 48 + 3 * (2400 + 2496 + 52 + 24 + 96) + 576 + 72 + 103);
  config["embedding_size"] = 12;
  CHECK(level_of(*read(config)) == ModelLevel::counted);
  config["embedding_size"] = 24;
  config["architectures"] = {"ElectraForPreTraining"};
  CHECK(level_of(*read(config)) == ModelLevel::counted);
}

// Counted apart from the program, by the released classes' shapes. CLIP ViT-L/14's tower with its projection has
// 303,966,208 parameters (the paper's 304M; open_clip's table of models gives 303.97M). SigLIP's so400m tower has
// 428,225,600, of which the head that attends to patches has h + (4 h^2 + 4 h) + 2 h + (2 h f + f + h) = 15,238,352 at
// h = 1152 and f = 4304; a classifier of two classes has 2 h + 2.
TEST_CASE("a tower of images is read alone, with a head, and runs", "[unit][hf]") {
  const json clip = {{"model_type", "clip"},
                     {"architectures", {"CLIPModel"}},
                     {"projection_dim", 768},
                     {"vision_config",
                      {{"hidden_size", 1024},
                       {"intermediate_size", 4096},
                       {"num_attention_heads", 16},
                       {"num_hidden_layers", 24},
                       {"patch_size", 14}}}};
  const std::optional<ModelSpec> large = read(clip, "vision");
  REQUIRE(large);
  CHECK(parameter_count(*large) == 303'966'208);
  CHECK(large->activation == Activation::quick_gelu);
  CHECK(large->max_positions == 16 * 16 + 1);
  CHECK(level_of(*large) == ModelLevel::executed);
  CHECK(level_of(*read(clip)) == ModelLevel::counted);
  json alone = clip["vision_config"];
  alone["model_type"] = "clip_vision_model";
  alone["projection_dim"] = 768;
  std::optional<ModelSpec> same = read(alone);
  REQUIRE(same);
  same->name = large->name, same->source = large->source, same->origin = large->origin;
  CHECK(*same == *large);

  const json siglip = {{"model_type", "siglip"},
                       {"vision_config",
                        {{"hidden_size", 1152},
                         {"intermediate_size", 4304},
                         {"num_attention_heads", 16},
                         {"num_hidden_layers", 27},
                         {"image_size", 384},
                         {"patch_size", 14}}}};
  const std::optional<ModelSpec> so400m = read(siglip, "vision");
  REQUIRE(so400m);
  CHECK(parameter_count(*so400m) == 428'225'600 - 15'238'352 + 2 * 1153);
  CHECK(so400m->max_positions == 27 * 27);
  CHECK(level_of(*so400m) == ModelLevel::executed);
}

// DINOv2-large has 304,368,640 parameters as published, without a head. Its classifier of two classes sees class token
// and mean: 4 h + 2. The mask token, h, is not trained.
TEST_CASE("DINOv2 without its head is counted, and runs with it", "[unit][hf]") {
  const json large = {{"model_type", "dinov2"},  {"architectures", {"Dinov2Model"}}, {"hidden_size", 1024},
                      {"num_hidden_layers", 24}, {"num_attention_heads", 16},        {"image_size", 518},
                      {"patch_size", 14}};
  const std::optional<ModelSpec> bare = read(large), whole = read(large, "with-head");
  REQUIRE((bare && whole));
  CHECK(parameter_count(*bare) == 304'368'640);
  CHECK(level_of(*bare) == ModelLevel::counted);
  CHECK(published_parameter_count(*whole) == 304'368'640 + 4 * 1024 + 2);
  CHECK(parameter_count(*whole) == published_parameter_count(*whole) - 1024);
  CHECK(level_of(*whole) == ModelLevel::executed);
}
