#include <catch2/catch.hpp>

#include <filesystem>

#include "core/spec/hf/keys.hpp"
#include "tests/error/core/spec_cases.hpp"

// Hugging Face configurations that cannot be read, or that are for models which this program does not have: one wrong
// input for each code, and the exact text.

using namespace orrery;
using namespace orrery::test;

TEST_CASE("hf.syntax: half a file in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "llama",
)";
  CHECK(config_error(text) == R"(config.json:3:1: error: not valid JSON [hf.syntax]
)");
}

namespace {

/// The text with N for the number of types, which grows.
std::string types_left_out(std::string text) {
  return with(std::move(text), std::to_string(hf::families().size()) + " types", "N types");
}

}  // namespace

TEST_CASE("hf.model-type: another kind of model in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "qwen3_audio"
})";
  CHECK(types_left_out(config_error(text)) ==
        R"(config.json:2:17: error: model type "qwen3_audio" is not supported [hf.model-type]
    2 |   "model_type": "qwen3_audio"
      |                 ^
  Near it: qwen, qwen2_audio, qwen3.
  N types are read; docs/model-file.md lists them.
  A model of another type with the same layers can be written as a .toml file: orrery show model gpt2-124m shows one.
)");
}

TEST_CASE("hf.model-type: an unknown model around a known language model", "[error]") {
  const std::string text = R"({
  "model_type": "qwen3_audio",
  "architectures": ["Qwen3AudioForConditionalGeneration"],
  "text_config": {"model_type": "qwen3"}
})";
  CHECK(config_error(text) == R"(config.json:2:17: error: model type "qwen3_audio" is not supported [hf.model-type]
    2 |   "model_type": "qwen3_audio",
      |                 ^
  The language model in its text_config is read: --part language, or FILE#language in a plan file.
)");
}

TEST_CASE("hf.missing-key: no model type in a config.json", "[error]") {
  const std::string text = R"({
  "hidden_size": 64
})";
  CHECK(types_left_out(config_error(text)) == R"(config.json: error: the key model_type is missing [hf.missing-key]
  N types are read; docs/model-file.md lists them.
)");
}

TEST_CASE("hf.type: text where a number belongs in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "gpt2",
  "n_layer": "12"
})";
  CHECK(config_error(text) == R"(config.json:3:14: error: n_layer is not a whole number [hf.type]
    3 |   "n_layer": "12"
      |              ^
)");
}

TEST_CASE("hf.type: a wrong number is the only mistake told of it", "[error]") {
  CHECK(config_error(R"({"model_type": "gpt2", "n_embd": 12.5, "n_head": 7})") ==
        R"(config.json:1:34: error: n_embd is not a whole number [hf.type]
    1 | {"model_type": "gpt2", "n_embd": 12.5, "n_head": 7}
      |                                  ^
  It is 12.5.
)");
}

TEST_CASE("hf.unsupported: another scaling of rotary angles", "[error]") {
  const std::string text = R"({
  "model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "vocab_size": 100,
  "rope_scaling": {"type": "spiral"}
})";
  CHECK(config_error(text) ==
        R"(config.json:4:19: error: rope_scaling of the kind "spiral" is not supported [hf.unsupported]
    4 |   "rope_scaling": {"type": "spiral"}
      |                   ^
  Supported: default, linear, dynamic, yarn, longrope, llama3.
)");
  for (const auto& [given, kind] : {std::pair{R"({"type": "linear", "factor": 2.0})", "linear"},
                                    std::pair{R"({"rope_type": "llama3", "factor": 8.0})", "llama3"},
                                    std::pair{R"({"rope_type": "default"})", ""}, std::pair{"null", ""}}) {
    Diagnostics d;
    const auto model = parse_hf_config(with(text, R"({"type": "spiral"})", given), "config.json", d);
    CHECK(render(d) == "");
    REQUIRE(model);
    CHECK(model->rope_scaling == kind);
    CHECK(parse_model(write_model(*model), "again.toml", d) == model);
  }
}

TEST_CASE("a config.json names its model, else its folder does", "[error]") {
  const auto name = [](const std::string& own, const std::string& file) {
    Diagnostics d;
    const auto model = parse_hf_config(R"({"model_type": "gpt2", "_name_or_path": ")" + own + "\"}", file, d);
    CHECK(render(d) == "");
    return model ? model->name : "";
  };
  CHECK(name("openai/gpt2-xl", "/nowhere/some-folder/config.json") == "gpt2-xl");
  CHECK(name("", "/nowhere/some-folder/config.json") == "some-folder");
  CHECK(name("./", "/nowhere/some-folder/../other/config.json") == "other");
  CHECK(name("..", "/config.json") == "gpt2");
  CHECK(name("", "config.json") == std::filesystem::current_path().filename());
}

TEST_CASE("hf.range: a negative number in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "gpt2",
  "n_layer": -1
})";
  CHECK(config_error(text) == R"(config.json:3:14: error: n_layer is out of range [hf.range]
    3 |   "n_layer": -1
      |              ^
  It is -1; from 1 to 10000 is allowed.
)");
}

TEST_CASE("hf.unsupported: another activation in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "gpt2",
  "activation_function": "tanh"
})";
  CHECK(config_error(text) == R"(config.json:3:26: error: activation_function "tanh" is not supported [hf.unsupported]
    3 |   "activation_function": "tanh"
      |                          ^
  Supported: gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, gelu_python, gelu_tanh, relu, relu2, relu_squared, quick_gelu.
)");
}

TEST_CASE("hf.unsupported: a key that asks for another model", "[error]") {
  CHECK(config_error("{\"model_type\": \"llama\",\n  \"add_cross_attention\": true}") ==
        R"(config.json:2:26: error: add_cross_attention true is not supported [hf.unsupported]
    2 |   "add_cross_attention": true}
      |                          ^
  It asks for cross-attention. Supported: false.
)");
  CHECK(config_error("{\"model_type\": \"phi\",\n  \"qk_layernorm\": true}") ==
        R"(config.json:2:19: error: qk_layernorm true is not supported [hf.unsupported]
    2 |   "qk_layernorm": true}
      |                   ^
  It asks for layer norms of queries and keys. Supported: false.
)");
}

TEST_CASE("hf.unsupported: a class with another head", "[error]") {
  CHECK(config_error("{\"model_type\": \"llama\",\n  \"architectures\": [\"LlamaForRewardModels\"]}") ==
        R"(config.json:2:20: error: the class LlamaForRewardModels is not supported [hf.unsupported]
    2 |   "architectures": ["LlamaForRewardModels"]}
      |                    ^
  Supported: LlamaForCausalLM. Others have another head, or none.
  A file without architectures is read as the supported class.
)");
  const std::pair<const char*, const char*> classes[] = {
      {"gpt2", "GPT2LMHeadModel"},       {"llama", "LlamaForCausalLM"},
      {"bert", "BertForMaskedLM"},       {"vit", "ViTForImageClassification"},
      {"mixtral", "MixtralForCausalLM"}, {"deepseek_v3", "DeepseekV3ForCausalLM"}};
  for (const auto& [type, own] : classes) {
    for (const auto& [other, name] : classes) {
      const std::string text = R"({"model_type": ")" + std::string(type) + R"(", "architectures": [")" + name + "\"]}";
      Diagnostics d;
      CAPTURE(text);
      CHECK(parse_hf_config(text, "config.json", d).has_value() == (own == name));
    }
  }
  for (const char* none : {"null", "[]"}) {
    Diagnostics d;
    CHECK(parse_hf_config(with(R"({"model_type": "gpt2", "architectures": X})", "X", none), "config.json", d));
  }
  CHECK(config_error(R"({"model_type": "vit", "architectures": "ViTModel"})")
            .find("architectures is not a list of names") != std::string::npos);
}

TEST_CASE("hf.unknown-key: a slip of the pen in a config.json", "[error]") {
  CHECK(config_error("{\"model_type\": \"llama\", \"a\": {\"num_key_value_head\": 1},\n  \"num_key_value_head\": 8}") ==
        R"(config.json:2:3: error: num_key_value_head is not a key of llama [hf.unknown-key]
    2 |   "num_key_value_head": 8}
      |   ^
  Did you mean num_key_value_heads?
)");
}

TEST_CASE("model.heads: heads that do not divide in a config.json", "[error]") {
  const std::string text = R"({
  "model_type": "gpt2",
  "n_head": 13
})";
  CHECK(config_error(text) == R"(config.json:3:13: error: n_head does not divide n_embd [model.heads]
    3 |   "n_head": 13
      |             ^
  n_embd is 768, and 768 / 13 leaves 1.
)");
}

TEST_CASE("hf.part: a part that a model does not have", "[error]") {
  Diagnostics d;
  const std::string text = "{\"model_type\": \"gpt2\"}";
  CHECK_FALSE(parse_hf_config(text, "config.json", d, "language"));
  CHECK(render(d) == R"(config.json:1:16: error: model type gpt2 has no part "language" [hf.part]
    1 | {"model_type": "gpt2"}
      |                ^
  It is a single model: leave the part out.
)");
  Diagnostics other;
  CHECK_FALSE(parse_hf_config("{\"model_type\": \"llava\"}", "config.json", other, "vision"));
  CHECK(render(other) == R"(config.json:1:16: error: model type llava has no part "vision" [hf.part]
    1 | {"model_type": "llava"}
      |                ^
  It has the part "language": the language model alone.
)");
}

TEST_CASE("hf.part: a model of two towers has its tower of images, and no language model", "[error]") {
  Diagnostics d;
  CHECK_FALSE(parse_hf_config("{\"model_type\": \"clip\"}", "config.json", d, "language"));
  CHECK(render(d) == R"(config.json:1:16: error: model type clip has no part "language" [hf.part]
    1 | {"model_type": "clip"}
      |                ^
  It has the part "vision": the tower of images of CLIPVisionModelWithProjection alone.
)");
}

TEST_CASE("hf.part: a base model has the part with its head, and no other", "[error]") {
  const std::string text = R"({"model_type": "bert", "architectures": ["BertModel"]})";
  Diagnostics d;
  CHECK_FALSE(parse_hf_config(text, "config.json", d, "language"));
  CHECK(render(d) == R"(config.json:1:16: error: model type bert has no part "language" [hf.part]
    1 | {"model_type": "bert", "architectures": ["BertModel"]}
      |                ^
  It has the part "with-head": the base model with the head of BertForMaskedLM.
)");
  // The trained class has its head, and a class with another head is no base model.
  for (const char* name : {"BertForMaskedLM", "BertForSequenceClassification"}) {
    Diagnostics other;
    const std::string file = std::string(R"({"model_type": "bert", "architectures": [")") + name + "\"]}";
    CHECK_FALSE(parse_hf_config(file, "config.json", other, "with-head"));
    REQUIRE(other.size() == 1);
    CHECK(other.list().front().message == "model type bert has no part \"with-head\"");
  }
}

TEST_CASE("mistakes inside a model's language model have their place in the whole file", "[error]") {
  CHECK(config_error("{\"model_type\": \"llava\",\n \"text_config\": {\n  \"hidden_size\": -1}}") ==
        R"(config.json:3:18: error: hidden_size is out of range [hf.range]
    3 |   "hidden_size": -1}}
      |                  ^
  It is -1; from 1 to 1048576 is allowed.
)");
  CHECK(config_error("{\"model_type\": \"llava\",\n \"text_config\": {\"model_type\": \"zebra\"}}")
            .find("config.json:2:17: error: model type \"zebra\" in text_config is not supported [hf.model-type]") ==
        0);
  CHECK(config_error("{\"model_type\": \"llava\",\n \"vision_config\": 3}")
            .find("config.json:2:19: error: vision_config is not an object [hf.type]") == 0);
  CHECK(config_error("{\"model_type\": \"llava\",\n \"text_config\": {\"hidden_sise\": 3}}")
            .find("config.json:2:18: error: hidden_sise is not a key of llama [hf.unknown-key]") == 0);
}
