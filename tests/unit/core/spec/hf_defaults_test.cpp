#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "core/spec/hf_config.hpp"
#include "core/spec/library.hpp"

// Defaults of missing keys, compared with published models; both spellings of rotary angles; numbers that are not
// finite.

using namespace orrery;

namespace {

ModelSpec read(const std::string& text) {
  Diagnostics d;
  const auto model = parse_hf_config(text, "folder/config.json", d);
  CAPTURE(text);
  CHECK(render(d) == "");
  REQUIRE(model);
  return *model;
}

std::string refused(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_hf_config(text, "config.json", d));
  return render(d);
}

ModelSpec shipped(const char* name) {
  Diagnostics d;
  const auto model = Library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models").model(name, ".", d);
  REQUIRE(model);
  return *model;
}

}  // namespace

// The library's classes are by default a published model: GPT-2 small, LLaMA-7B (6,738,415,616), BERT-base with the
// head for masked words (109,514,298), Mixtral 8x7B (46,702,792,704). ViT-B/16 without classes has 85,798,656 (the
// paper's 86M); two classes, the library's default, add 2 x 769.
TEST_CASE("a file that leaves all out is the model that its type is by default", "[unit][hf]") {
  const std::pair<const char*, std::uint64_t> table[] = {{"gpt2", 124'439'808},
                                                         {"llama", 6'738'415'616},
                                                         {"bert", 109'514'298},
                                                         {"mixtral", 46'702'792'704},
                                                         {"vit", 85'798'656 + 2 * 769}};
  for (const auto& [type, parameters] : table) {
    CAPTURE(type);
    CHECK(parameter_count(read(std::string("{\"model_type\": \"") + type + "\"}")) == parameters);
  }
  const ModelSpec mixtral = read(R"({"model_type": "mixtral"})");
  CHECK(mixtral.rope_theta == 1e6);
  CHECK(mixtral.kv_heads == 8);
  CHECK(read(R"({"model_type": "mixtral", "num_key_value_heads": null})").kv_heads == 32);
}

// The library's class writes neither topk_method nor scoring_func, but it has sigmoid scores, biases, and 4 of 8
// groups.
TEST_CASE("DeepSeek-V3 without the keys that the library lacks is DeepSeek-V3", "[unit][hf]") {
  const ModelSpec paper = shipped("deepseek-v3");
  for (const char* more :
       {"", R"(, "topk_method": "noaux_tc")", R"(, "scoring_func": "sigmoid", "n_group": 8, "topk_group": 4)"}) {
    const ModelSpec m = read(std::string(R"({"model_type": "deepseek_v3")") + more + "}");
    CHECK(m.mixture == paper.mixture);
    CHECK(m.latent == paper.latent);
    CHECK(parameter_count(m) == parameter_count(paper));
    CHECK(m.prediction_modules == 0);
  }
  CHECK(read(R"({"model_type": "deepseek_v3", "num_mtp_layers": 1})").prediction_modules == 1);
  CHECK(refused(R"({"model_type": "deepseek_v3", "topk_method": "greedy"})").find("another choice of experts") !=
        std::string::npos);
  // Null says that there are none, but a missing key does not.
  CHECK_FALSE(read(R"({"model_type": "deepseek_v3", "n_routed_experts": null})").mixture);
  CHECK(read(R"({"model_type": "deepseek_v3", "q_lora_rank": null})").latent->query_rank == 0);
}

TEST_CASE("DeepSeek-V2 by default looks at all experts, and has no number of them for a token", "[unit][hf]") {
  const ModelSpec m = read(R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6})");
  CHECK(m.mixture->experts == 64);
  CHECK(m.mixture->groups == 1);
  CHECK(m.mixture->scores == Mixture::Scores::softmax_all);
  CHECK(refused(R"({"model_type": "deepseek_v2"})") ==
        "config.json: error: the key num_experts_per_tok is missing [hf.missing-key]\n");
  CHECK(refused(R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6, "topk_method": "group_limited_greedy"})")
            .find("the key n_group is missing") != std::string::npos);
}

TEST_CASE("both spellings of rotary angles are read alike by every type that has them", "[unit][hf]") {
  const std::pair<const char*, const char*> kinds[] = {
      {R"("rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096)", "yarn"},
      {R"("type": "yarn", "factor": 40)", "yarn"},
      {R"("rope_type": "linear", "type": "linear", "factor": 2.0)", "linear"},
      {R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0)", "llama3"},
      {R"("type": "su", "short_factor": [1.0], "long_factor": [1.0])", "longrope"},
      {R"("rope_type": "default")", ""}};
  for (const char* type : {"llama", "mixtral", "deepseek_v2", "deepseek_v3"}) {
    const std::string head =
        std::string(R"({"model_type": ")") + type + R"(", "num_experts_per_tok": 2, "hidden_size": 4096)";
    for (const auto& [given, kind] : kinds) {
      CAPTURE(type, given);
      const std::string inner(given);
      const ModelSpec old = read(head + R"(, "rope_theta": 12345.0, "rope_scaling": {)" + inner + "}}");
      CHECK(old.rope_scaling == kind);
      CHECK(old.rope_theta == 12345.0);
      for (const std::string& same :
           {R"(, "rope_parameters": {"rope_theta": 12345.0, )" + inner + "}}",
            R"(, "rope_theta": 12345.0, "rope_parameters": {)" + inner + "}}",
            R"(, "rope_theta": 1.0, "rope_scaling": {"rope_theta": 12345.0, )" + inner + "}}",
            R"(, "rope_scaling": {)" + inner + R"(}, "rope_parameters": {"rope_theta": 12345, )" + inner +
                R"(}, "rope_theta": 12345})"}) {
        CAPTURE(same);
        CHECK(read(head + same) == old);
      }
    }
    CHECK(refused(head + R"(, "rope_scaling": {"type": "yarn"}, "rope_parameters": {"type": "linear"}})")
              .find("rope_scaling and rope_parameters differ") != std::string::npos);
    CHECK(refused(head + R"(, "rope_parameters": {"factor": 2.0}})")
              .find("rope_parameters does not name its kind (rope_type)") != std::string::npos);
    CHECK(refused(head + R"(, "rope_parameters": {"rope_tipe": "yarn"}})").find("Did you mean rope_type?") !=
          std::string::npos);
    // Newer files have angles for each kind of layers.
    CHECK(read(head + R"(, "rope_parameters": {"full_attention": {"rope_theta": 7.0}}})").rope_theta == 7.0);
    const ModelSpec listed = read(head + R"(, "rope_parameters": {"zebra": 1}})");
    CHECK(unread_keys(listed).back() == "rope_parameters.zebra");
  }
}

TEST_CASE("the classes of a vision transformer are those it names, else as many as it says", "[unit][hf]") {
  const auto classes = [](const std::string& more) { return read(R"({"model_type": "vit")" + more + "}").vocabulary; };
  CHECK(classes("") == 2);
  CHECK(classes(R"(, "num_labels": 5)") == 5);
  CHECK(classes(R"(, "id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 5)") == 3);
  CHECK(read(R"({"model_type": "vit", "image_size": [224, 224], "patch_size": [16, 16]})") ==
        read(R"({"model_type": "vit"})"));
  CHECK(refused(R"({"model_type": "vit", "image_size": [224, 192]})").find("not the same on both sides") !=
        std::string::npos);
}

TEST_CASE("numbers that are not finite are read as Python writes them, and judged by their key", "[unit][hf]") {
  const std::string head = R"({"model_type": "gpt2", "_name_or_path": "NaN, Infinity")";
  const ModelSpec plain = read(head + "}");
  CHECK(plain.name == "NaN, Infinity");
  for (const char* value : {"NaN", "Infinity", "-Infinity", R"({"__float__": "Infinity"})"}) {
    CAPTURE(value);
    CHECK(read(head + R"(, "initializer_range": )" + value + "}") == plain);
    CHECK(unread_keys(read(head + R"(, "time_step_limit": [0.0, )" + value + "]}")).size() == 1);
    CHECK(refused(head + R"(, "n_embd": )" + value + "}").find("n_embd is not a whole number [hf.type]") !=
          std::string::npos);
    CHECK(refused(head + R"(, "layer_norm_epsilon": )" + value + "}").find("is out of range [hf.range]") !=
          std::string::npos);
    CHECK(refused(head + R"(, "tie_word_embeddings": )" + value + "}").find("is not true or false") !=
          std::string::npos);
  }
  CHECK(
      refused("{\n\"initializer_range\": Infinity, \"x\": NaN,\n \"model_type\": \"gpt2\", \"n_layer\": -Infinity}") ==
      R"(config.json:3:35: error: n_layer is not a whole number [hf.type]
    3 |  "model_type": "gpt2", "n_layer": -Infinity}
      |                                   ^
  It is -Infinity.
)");
  for (const char* wrong : {R"({"a": NaNs})", R"({"a": nan})", R"({NaN: 1})", R"({"a": +Infinity})", R"({"a" NaN})"}) {
    CAPTURE(wrong);
    CHECK(refused(wrong).find("not valid JSON [hf.syntax]") != std::string::npos);
  }
}
