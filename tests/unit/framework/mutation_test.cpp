#include <array>
#include <random>

#include "tests/unit/framework/launch_test.hpp"

// Small valid launch files, changed byte by byte at random: each reading ends in a run or in diagnostics, never in
// both, in neither, or in a crash. The seed is fixed, so that a failure repeats.

using namespace orrery;

namespace {

struct Seed {
  const char* file;
  const char* text;
};
constexpr std::array seeds{
    Seed{"axolotl.yml",
         "base_model: llama-3-8b\nsequence_len: 2048\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"
         "optimizer: adamw_torch_fused\nlr_scheduler: cosine\nlearning_rate: 2e-5\nbf16: auto\nmax_steps: 100\n"
         "gradient_checkpointing: true\ndeepspeed: zero2.json\nplugins:\n  - axolotl.integrations.liger.LigerPlugin\n"},
    Seed{"axolotl.yaml",
         "base_model: qwen3-8b\nsequence_len: 4096\ndp_shard_size: 2\ncontext_parallel_size: 2\nfsdp_version: 2\n"
         "fsdp_config:\n  reshard_after_forward: true\n  offload_params: false\nfsdp: [full_shard, auto_wrap]\n"},
    Seed{"factory.yaml",
         "model_name_or_path: llama-3-8b\nstage: sft\ndo_train: true\nfinetuning_type: full\ncutoff_len: 2048\n"
         "per_device_train_batch_size: 1\nbf16: true\noptim: adamw_torch\ndeepspeed: {zero_optimization: {stage: 3, "
         "offload_optimizer: {device: cpu, ratio: 0.5}}, gradient_clipping: 1.0}\n"},
    Seed{"megatron.yaml",
         "model_name_or_path: llama-3-8b\nstage: pt\ndo_train: true\nfinetuning_type: full\n"
         "tensor_model_parallel_size: 2\npipeline_model_parallel_size: 2\nvirtual_pipeline_model_parallel_size: 2\n"
         "gradient_accumulation_steps: 8\nbf16: true\nuse_distributed_optimizer: true\n"},
    Seed{"v1.yaml",
         "model: qwen3-0.6b\nmodel_class: llm\ndist_config:\n  name: fsdp2\ntrain_dataset: d.yaml\ncp_size: 2\n"
         "micro_batch_size: 2\nglobal_batch_size: 64\ncutoff_len: 2048\n"},
    Seed{"tune.yaml",
         "model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\n  lora_attn_modules: [q_proj, v_proj]\n"
         "  lora_rank: 8\ntokenizer: {max_seq_len: 2048}\nbatch_size: 2\ngradient_accumulation_steps: 4\n"
         "optimizer: {_component_: torch.optim.AdamW, lr: 2e-5, betas: [0.9, 0.95]}\ndtype: bf16\n"
         "loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}\ncontext_parallel_dim: 2\n"
         "data_parallel_shard_dim: -1\nbatch_size_val: ${batch_size}\n"},
    Seed{"sizes.yaml",
         "model: {_component_: torchtune.models.llama2.llama2, vocab_size: 32000, num_layers: 4, num_heads: 8, "
         "num_kv_heads: 4, embed_dim: 512, max_seq_len: 2048}\ntokenizer: {max_seq_len: 512}\nbatch_size: 1\n"
         "optimizer: {_component_: torch.optim.SGD, lr: 0.1, momentum: 0.9}\ndtype: bf16\nac_mode: selective\n"
         "ac_option: 2\n"},
    Seed{"ds_config.json",
         "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": 2}}"},
};

constexpr std::array<const char*, 16> words{
    "0", "-1", "1e9", "99999999999999999999", "nan", "\"\"", "true", "[]", "{}", "auto", ": ", "\n", "- ",
    "~", "*",  "\\"};

std::string mutated(std::string text, std::mt19937_64& random) {
  const auto draw = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  for (std::size_t change = 1 + draw(3); change > 0 && !text.empty(); --change) {
    const std::size_t at = draw(text.size());
    switch (draw(5)) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text.erase(at, 1 + draw(8)); break;
      case 2: text.insert(at, words[draw(words.size())]); break;
      case 3: {  // another value for a digit
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text.replace(digit, 1, words[draw(words.size())]);
        break;
      }
      default: text.insert(at, text.substr(draw(text.size()), 1 + draw(30))); break;
    }
  }
  return text;
}

/// Empty where the reading keeps the rule.
std::string fault_of(const Launched& l) {
  if (l.run && !l.diagnostics.empty()) return "a run and diagnostics";
  if (!l.run && l.diagnostics.empty()) return "neither a run nor a diagnostic";
  static_cast<void>(render(l.diagnostics));
  return {};
}

}  // namespace

TEST_CASE("Each seed of the mutations is a valid launch file", "[framework][launch]") {
  for (const Seed& seed : seeds) {
    const Launched l = launched(seed.text, seed.file, with_model("llama-3-8b", 8));
    CAPTURE(seed.file, render(l.diagnostics));
    CHECK(l.run);
  }
}

TEST_CASE("A mutated launch file ends in a run or in diagnostics", "[framework][launch]") {
  std::mt19937_64 random(20260101);
  constexpr int times = 600;  // of each seed
  int read = 0;
  for (const Seed& seed : seeds) {
    for (int i = 0; i < times; ++i) {
      const std::string text = mutated(seed.text, random);
      const Launched l = launched(text, seed.file, with_model("llama-3-8b", 8));
      read += l.run ? 1 : 0;
      if (const std::string fault = fault_of(l); !fault.empty()) {
        CAPTURE(seed.file, text, fault);
        FAIL_CHECK();
      }
    }
  }
  CHECK(read > 0);  // some changes leave a file valid, so that plans are built and checked too
}
