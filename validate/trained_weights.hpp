#pragma once

#include "validate/measured_run.hpp"

namespace orrery {

/// Which weights a run trained.
enum class TrainedWeights { all, few, unclear };

/// A row trains all weights unless it names LoRA or a relative (QLoRA, DoRA, PEFT), and does not deny it ("no LoRA").
/// Where notes name both that and full fine-tuning ("SFT/LoRA row" of a source's table of both), the model, the
/// citation and the id decide; it is unclear where these name both or neither.
[[nodiscard]] TrainedWeights trained_weights(const MeasuredRun&);

/// Whether the few weights are adapters beside 16-bit weights, and not QLoRA's or DoRA's.
[[nodiscard]] bool trains_plain_adapters(const MeasuredRun&);

}  // namespace orrery
