#include "validate/shipped_model.hpp"

#include <catch2/catch.hpp>

#include "tests/unit/validate/runs.hpp"
#include "validate/model_of.hpp"
#include "validate/program_habits.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("shipped models are found by their common names, and by no others", "[unit][validate]") {
  const std::vector<std::string> known = shipped_library().models();
  const auto named = [&](const char* text) { return shipped_model_named(text, known); };
  for (const std::string& name : known) CHECK(shipped_model_named(name, known) == name);
  for (const char* text :
       {"Qwen3-30B-A3B", "Qwen3_30B_a3B", "qwen3 30b a3b", "Qwen/Qwen3-30B-A3B-Base", "Qwen3_30B_a3B (tokendrop)"}) {
    CHECK(named(text) == "qwen3-30b-a3b");
  }
  for (const char* text : {"Llama-3-8B", "llama3-8b", "LLAMA3_8B", "meta-llama/Meta-Llama-3-8B-Instruct"}) {
    CHECK(named(text) == "llama-3-8b");
  }
  for (const char* text : {"Llama3.1-8B", "Llama 3.1 8B"}) CHECK(named(text) == "llama-3.1-8b");
  CHECK(named("Llama-2-7b-chat-hf") == "llama-2-7b");
  CHECK(named("LLAMA3.1_405B") == "llama-3.1-405b");
  CHECK(named("mistralai/Mixtral-8x7B-Instruct-v0.1") == "mixtral-8x7b");
  CHECK(named("DeepSeekV3-671B") == "deepseek-v3");
  CHECK(named("deepseekv3 (4 layers)") == "deepseek-v3");
  CHECK(named("DeepSeekV3 (w/o MTP)") == "deepseek-v3");
  CHECK(named("DeepSeek-V2-Lite") == "deepseek-v2-lite");
  CHECK(named("Grok1-314B") == "grok-1");
  CHECK(named("gpt2-xl") == "gpt2-1.5b");
  for (const char* other :
       {"", "Llama-3", "Llama-38B", "Llama 3 80B", "Llama-3-8B-262k", "Llama-2-8B", "Mixtral-8x7", "Qwen3-30B",
        "Qwen3-3-0B-A3B", "DeepSeek-V3.2", "DeepSeekV3 (dense)", "deepseekv3_proxy_flex", "DeepSeekV", "gpt"}) {
    CAPTURE(other);
    CHECK(named(other).empty());
  }
}

TEST_CASE("a row's own sizes make a dense model; a shipped one stands where they are missing", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.framework = "NeMo 24.07";
  run.model = "Llama-2-7B";
  const auto model = [&] { return model_of(run, *habits_of(run), shipped_library()); };
  REQUIRE(model().model);
  CHECK(model().model->hidden == 6144);  // the row's
  run.layers = run.hidden = run.heads = run.kv_heads = run.ffn = run.vocab = {};
  REQUIRE(model().model);
  CHECK(model().model->hidden == 4096);
  CHECK(model().model->layers == 32);
  CHECK(model().model->ffn == 11008);
  run.layers = 4;
  CHECK(model().model->layers == 4);
  run.experts = 8;
  CHECK(model().reason == "no shipped model has the expert shapes of \"Llama-2-7B\"");
}

TEST_CASE("a mixture of other widths than the shipped one of its name is another model", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.framework = "NeMo 24.07";
  run.model = "Qwen3-30B-A3B";
  run.experts = 128;
  run.heads = 32;
  run.kv_heads = 4;
  run.hidden = 4096;
  CHECK(model_of(run, *habits_of(run), shipped_library()).reason == "hidden is 4096, and \"Qwen3-30B-A3B\" has 2048");
  run.hidden = 2048;
  CHECK(model_of(run, *habits_of(run), shipped_library()).model);
}
