#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// The verbs that take a model, given Hugging Face configurations under any name.

using namespace orrery::test;
using nlohmann::json;

namespace {

std::string good(const std::string& arguments) {
  const Ran ran = run(ORRERY_PROGRAM, arguments);
  CAPTURE(arguments, ran.err);
  CHECK(ran.status == 0);
  return ran.out;
}

// The count is 2 x 256 x 64 in both tables; in each of 2 layers 4 x 64 x 64 + 3 x 64 x 128 + 2 x 64; 64 in the last
// norm.
const std::string config =
    R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 64, "time_step_limit": [0.0, Infinity],
 "zebra": 1, "_name_or_path": "mine"})";

}  // namespace

TEST_CASE("every verb that takes a model takes JSON under any name, and says what it did not read", "[unit][cli]") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("folder"));
  for (const char* name : {"my-model.json", "model", "folder/config.json"}) write(folder.file(name), config);
  const std::string unread = "not read: time_step_limit, zebra";
  for (const char* name : {"my-model.json", "model", "folder/config.json", "folder"}) {
    const std::string file = folder.file(name);
    CAPTURE(name);
    CHECK(good("check " + file).find(": a Hugging Face config: mine, 115,008 parameters; " + unread + "\n") !=
          std::string::npos);
    CHECK(good("show model " + file).find("# " + unread + "\n") != std::string::npos);
    CHECK(json::parse(good("show model " + file + " --json"))["not_read"] == json{"time_step_limit", "zebra"});
    const std::string plan = folder.file("plan.toml");
    const std::string found =
        good("plan --cluster local-cpu --gpus 2 --batch 4 --seq 32 --precision fp32 --model " + file + " -o " + plan);
    CHECK(found.find("\n" + unread + "\n") != std::string::npos);
    CHECK(good("estimate " + plan).find(unread + "\n") != std::string::npos);
    CHECK(good("check " + plan).find("for mine: ") != std::string::npos);
  }
}

TEST_CASE("a plan whose model asks for YaRN runs, however it asks, and not without its factor", "[unit][cli]") {
  const TemporaryFolder folder;
  write(folder.file("plan.toml"),
        "schema = 1\nmodel = \"model\"\ncluster = \"local-cpu\"\ngpus = 2\n[workload]\nbatch = 4\nsequence = 32\n"
        "precision = \"fp32\"\n[mesh]\norder = [\"data\"]\ndata = 2\n[plan]\nmicrobatch_size = 1\n");
  const auto run_with = [&](const std::string& spelling) {
    write(folder.file("model"),
          R"({"model_type": "deepseek_v2", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 256, "q_lora_rank": null, "kv_lora_rank": 16,
 "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
 "moe_intermediate_size": 32, "n_shared_experts": 1)" +
              spelling + "}");
    return run(ORRERY_PROGRAM, "run " + folder.file("plan.toml") + " --steps 1 --json");
  };
  const auto losses_with = [&](const std::string& spelling) {
    const Ran ran = run_with(spelling);
    CAPTURE(spelling, ran.err);
    REQUIRE(ran.status == 0);
    return nlohmann::json::parse(ran.out)["losses"].dump();
  };
  const std::string scaling = R"("factor": 40, "rope_type": "yarn"})";
  const std::string older = losses_with(R"(, "rope_scaling": {)" + scaling);
  CHECK(older == losses_with(R"(, "rope_parameters": {"rope_theta": 10000.0, )" + scaling));
  CHECK(older != losses_with(""));
  const Ran without = run_with(R"(, "rope_scaling": {"rope_type": "yarn"})");
  CHECK(without.status == 2);
  CHECK(without.err.find("yarn") != std::string::npos);
}

// 2 x 256 x 64 in both tables, 64 in the last norm and in that of each layer. The mixer, with 4 heads of 16 features
// and 2 groups of 8: 64 x (64 + 96 + 4) + 96 x 4 + 96 + 3 x 4 + 64 + 64 x 64. Attention: 64 x 16 x (2 x 4 + 2 x 2). The
// feed-forward part: 2 x 64 x 128.
TEST_CASE("a model that is only counted has no number of parameters in each layer", "[unit][cli]") {
  const TemporaryFolder folder;
  write(folder.file("hybrid"),
        R"({"model_type": "nemotron_h", "hidden_size": 64, "intermediate_size": 128, "hybrid_override_pattern": "M*-",
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256, "mamba_num_heads": 4,
 "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 8, "conv_kernel": 4})");
  write(folder.file("dense"), config);
  CHECK(good("show model " + folder.file("hybrid")).find("# 76,844 parameters\n# counted, not priced") == 0);
  CHECK(good("show model " + folder.file("dense")).find("# 115,008 parameters, 41,088 in each layer\n") == 0);
  const json hybrid = json::parse(good("show model " + folder.file("hybrid") + " --json"));
  CHECK(hybrid["parameters"] == 76844);
  CHECK_FALSE(hybrid.contains("layer_parameters"));
  CHECK(json::parse(good("show model " + folder.file("dense") + " --json"))["layer_parameters"] == 41088);
}
