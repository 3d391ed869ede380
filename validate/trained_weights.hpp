#pragma once

#include "validate/measured_run.hpp"

namespace orrery {

/// Which weights a run trained.
enum class TrainedWeights { all, few, unclear };

/// A row trains all weights unless it names LoRA or its like (QLoRA, DoRA, PEFT), and does not deny it ("no
/// LoRA").  Notes that name both that and full fine-tuning ("SFT/LoRA row" of a source's table of both) leave it to the
/// model, the citation and the id; unclear where these name both or neither.
[[nodiscard]] TrainedWeights trained_weights(const MeasuredRun&);

}  // namespace orrery
