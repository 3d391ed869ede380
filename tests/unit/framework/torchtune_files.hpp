#pragma once

#include "tests/unit/framework/launch_test.hpp"

// Parts of torchtune's configurations, and what reading them says.

namespace orrery::test {

inline const std::string rest =
    "tokenizer:\n"
    "  _component_: torchtune.models.llama3.llama3_tokenizer\n"
    "  path: /tmp/tokenizer.model\n"
    "  max_seq_len: 2048\n"
    "dataset:\n"
    "  _component_: torchtune.datasets.alpaca_dataset\n"
    "  packed: True\n"
    "batch_size: 2\n"
    "batch_size_val: ${batch_size}\n"
    "gradient_accumulation_steps: 4\n"
    "loss:\n"
    "  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\n"
    "dtype: bf16\n"
    "enable_activation_checkpointing: True\n";
inline const std::string adam = "optimizer: {_component_: torch.optim.AdamW, lr: 2e-5, fused: True}\n";
inline const std::string full = "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\n";

inline std::string adapters(const std::string& builder = "lora_llama3_1_8b", const std::string& more = "") {
  return "model:\n  _component_: torchtune.models.llama3_1." + builder +
         "\n  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']\n  apply_lora_to_mlp: True\n"
         "  lora_rank: 64\n  lora_alpha: 128\n" +
         more;
}

inline Launched read(const std::string& text, std::uint32_t gpus = 8) {
  return launched(text, "run.yaml", with_gpus(gpus));
}

/// Reads a file that ends in one diagnosis, at this line.
inline std::string said_of(const std::string& text, std::size_t line, std::uint32_t gpus = 8) {
  const Launched l = read(text, gpus);
  CAPTURE(text, render(l.diagnostics));
  CHECK_FALSE(l.run);
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].position.line == line);
  return l.diagnostics.list()[0].message;
}

}  // namespace orrery::test
