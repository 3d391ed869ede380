#pragma once

#include "framework/deepspeed/json.hpp"
#include "framework/deepspeed/keys.hpp"

namespace orrery {

/// The precision of a file, and the type in which it sums gradients.
struct DeepSpeedTypes {
  std::string precision;  ///< "bf16"
  std::string sums;       ///< "f32"
  unsigned bytes = 4;     ///< of a gradient
};

/// bf16, fp16, amp and data_types. `stage` is ZeRO's.
DeepSpeedTypes read_deepspeed_types(DeepSpeedKeys&, std::uint64_t stage, const DeepSpeedOutside&);
/// zero_optimization but for its stage. Returns the ranks of a MiCS shard; 0 where there is none.
std::uint64_t read_deepspeed_zero(DeepSpeedKeys&, std::uint64_t stage, const DeepSpeedTypes&);
/// optimizer, scheduler and gradient_clipping.
void read_deepspeed_optimizer(DeepSpeedKeys&, std::uint64_t stage);
/// Keys without effect, and those that no plan can say.
void read_deepspeed_rest(DeepSpeedKeys&);

}  // namespace orrery
