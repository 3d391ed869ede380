#pragma once

#include <string_view>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// The type in which the run keeps the weights that the optimizer updates.
enum class WeightStorage { f32, bf16 };

/// What is said of moments in CUDA's unified memory: pages leave the device only where it is full, and a plan that
/// needs that does not fit.
inline constexpr std::string_view pages_on_device = "pages of moments, which stay on the device unless it is full";

/// Reads the optimizer that `key` names, one of transformers' OptimizerNames or of axolotl's own, and the Trainer's
/// numbers: learning_rate, weight_decay, adam_beta1, adam_beta2, adam_epsilon, max_grad_norm. Adam's moments are kept
/// in the type of the weights. Optimizers that plans do not have are refused; the nearest is Adam.
void read_trainer_optimizer(LaunchReading&, std::string_view key, WeightStorage);

/// Refuses an optimizer that another key turns on ("use_galore"); the nearest is Adam.
void refuse_optimizer(LaunchReading&, std::string_view key, std::string_view name);

/// Reads the learning rate over time: `key` names its kind, beside max_steps, warmup_steps and warmup_ratio. Where the
/// number of steps follows from the data, a plan keeps a constant rate, which changes no step's time.
void read_trainer_schedule(LaunchReading&, std::string_view key);

}  // namespace orrery
