#pragma once

#include <optional>
#include <string_view>

namespace orrery {

/// The framework whose rule holds for a framework cell.
enum class FrameworkRule {
  megatron_lm,       ///< of 2021 and 2022
  megatron_main,     ///< Megatron-LM's main branch, from 2024 on
  megatron_simumax,  ///< the commit that SimuMax measured, with all overlap off
  megatron_core,     ///< a release of Megatron-Core
  megatron_deepspeed,
  megatron_deepspeed_bloom,
  nemo,
  llm_foundry_default,  ///< mixed_precision=DEFAULT
  llm_foundry_pure,
  torchtitan,
  maxtext,
  oneflow,
  internevo,
  fms_fsdp,
  automodel,
  megatron_swift,
  deepspeed,  ///< ZeRO under Hugging Face's trainer or ms-swift
  nanotron
};

struct FrameworkCell {
  FrameworkRule rule = FrameworkRule::megatron_lm;
  std::string_view program;  ///< the training program whose costs price it (training_programs()); empty: none
};

/// The content of a framework cell: a name, a version where the family has generations, and software named beside them.
/// Empty where a part of the cell is not known: another program of the same name ("NeMo-RL"), another commit.
[[nodiscard]] std::optional<FrameworkCell> read_framework(std::string_view cell);

}  // namespace orrery
