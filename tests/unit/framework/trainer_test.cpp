#include <filesystem>
#include <fstream>

#include "framework/launch/model_names.hpp"
#include "framework/trainer/deepspeed_file.hpp"
#include "framework/trainer/loss.hpp"
#include "framework/trainer/model_kind.hpp"
#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

/// A folder that goes away with the test.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / "orrery_trainer_test";
  Folder() { std::filesystem::create_directories(path / "examples" / "small"); }
  ~Folder() { std::filesystem::remove_all(path); }
};

Launched with_lines(const std::string& lines, std::uint32_t gpus = 8) {
  LaunchInputs options;
  options.gpus = gpus;
  return launched("base_model: llama-3-8b\nsequence_len: 2048\n" + lines, "c.yml", options);
}

}  // namespace

TEST_CASE("A DeepSpeed file is found beside a launch file, or in a folder above it", "[framework][trainer]") {
  const Folder folder;
  std::ofstream(folder.path / "own.json") << R"({"zero_optimization": {"stage": 1, "mystery": 7}, "odd": true})";
  const auto launch = folder.path / "examples" / "small" / "train.yaml";
  const auto found = deepspeed_file("own.json", launch);
  REQUIRE(found);
  CHECK(found->stage == 1);
  CHECK(found->left_aside == std::vector<std::string>{"zero_optimization.mystery", "odd"});
  CHECK_FALSE(deepspeed_file("other.json", launch));
  CHECK_FALSE(deepspeed_file("", launch));
  CHECK_FALSE(deepspeed_file(folder.path.string(), launch));  // a folder is no file
}

TEST_CASE("Every way of FSDP shards as its name says", "[framework][trainer]") {
  struct Case {
    const char* lines;
    std::uint32_t stage;
    bool reshard;
    std::uint64_t replica;
  };
  for (const Case& c :
       {Case{"fsdp: [full_shard, auto_wrap]\n", 3, true, 1}, Case{"fsdp: full_shard auto_wrap\n", 3, true, 1},
        Case{"fsdp: [shard_grad_op]\n", 3, false, 1}, Case{"fsdp: [no_shard]\n", 0, true, 1},
        Case{"fsdp: [hybrid_shard]\n", 3, true, 2},
        Case{"fsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}\n", 3, false, 1},
        Case{"fsdp_config: {reshard_after_forward: false}\n", 3, false, 1}, Case{"fsdp: []\n", 0, true, 1}}) {
    const Launched l = with_lines(c.lines, 16);  // two nodes of eight
    CAPTURE(c.lines, render(l.diagnostics));
    REQUIRE(l.run);
    CHECK(l.run->run.plan.zero_stage == c.stage);
    CHECK(l.run->run.plan.reshard_after_forward == c.reshard);
    CHECK(l.run->run.plan.mesh.size(Axis::replica) == c.replica);
  }
  CHECK_FALSE(with_lines("fsdp: [half_shard]\n").run);
}

TEST_CASE("The learning rate over time is in the plan where the file has all its steps", "[framework][trainer]") {
  const Launched steps = with_lines("lr_scheduler: cosine\nmax_steps: 1000\nwarmup_ratio: 0.1\n");
  INFO(render(steps.diagnostics));
  REQUIRE(steps.run);
  CHECK(steps.run->run.workload.schedule.kind == ScheduleKind::cosine);
  CHECK(steps.run->run.workload.schedule.total_steps == 1000);
  CHECK(steps.run->run.workload.schedule.warmup_steps == 100);  // a tenth
  const Launched epochs = with_lines("lr_scheduler: cosine\nnum_epochs: 3\nwarmup_ratio: 0.1\n");
  REQUIRE(epochs.run);
  CHECK(epochs.run->run.workload.schedule.kind == ScheduleKind::constant);
  CHECK(epochs.said("lr_scheduler", LaunchNote::Kind::without_effect));
}

TEST_CASE("Names of other spelling mean the shipped model of the same shape", "[framework][launch]") {
  const Library library = test::shipped_library();
  struct Case {
    const char* name;
    const char* shipped;
  };
  for (const Case& c :
       {Case{"Qwen/Qwen2-7B-Instruct", "qwen2.5-7b"}, Case{"openai-community/gpt2-xl", "gpt2-1.5b"},
        Case{"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-3.8b"},
        Case{"zai-org/GLM-4.5-Air", "glm-4.5-air-106b-a12b"},
        Case{"meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"}, Case{"databricks/dbrx-base", "dbrx-132b"}}) {
    CAPTURE(c.name);
    CHECK(shipped_model_of(c.name, library) == c.shipped);
  }
  // Another vocabulary is another model, and so are another window and other tied weights.
  for (const char* name : {"mistralai/Mistral-7B-v0.3", "microsoft/Phi-3-mini-128k-instruct", "some/Qwen2-9B",
                           "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", ""}) {
    CAPTURE(name);
    CHECK_FALSE(shipped_model_of(name, library));
  }
}

TEST_CASE("A name says whether a model sees, hears or mixes tokens otherwise", "[framework][trainer]") {
  CHECK(model_beyond_plans("Qwen/Qwen2.5-VL-7B") == "a model of images and text");
  CHECK(model_beyond_plans("mistralai/Voxtral-Mini-3B") == "a model of sound and text");
  CHECK(model_beyond_plans("tiiuae/Falcon-H1-7B-Base").find("hybrid") != std::string_view::npos);
  CHECK(model_beyond_plans("google/flan-t5-xl") == "an encoder with a decoder");
  for (const char* text :
       {"meta-llama/Llama-3.1-8B", "google/gemma-3-1b-it", "Qwen/Qwen3-8B", "tiiuae/falcon-7b", ""}) {
    CHECK(model_beyond_plans(text).empty());
  }
}

TEST_CASE("Liger makes logits in as many pieces as the vocabulary has widths, by powers of two",
          "[framework][trainer]") {
  // 32000 / 4096 is 7.8, so 8 pieces of 2048 positions; 128256 / 4096 is 31.3, so 32 pieces of 256.
  CHECK(liger_pieces(4 * 4096, 32000, 4096) == 8);
  CHECK(liger_pieces(8192, 128256, 4096) == 32);
  // 1000 positions over 3 are 334, which a power of two rounds up to 512.
  CHECK(liger_pieces(1000, 300, 100) == 2);
  CHECK(liger_pieces(1, 50257, 768) == 1);
}
