#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/launch/launch_reading.hpp"
#include "framework/launch/launch_sizes.hpp"

// How programs over Hugging Face's Trainer share out the states of training: by DDP, FSDP or DeepSpeed. The keys are
// those of transformers' TrainingArguments and of accelerate's plugins.

namespace orrery {

struct TrainerSharding {
  enum class By : std::uint8_t { ddp, fsdp, deepspeed };
  By by = By::ddp;
  std::uint32_t stage = 0;            ///< of DeepSpeed's ZeRO
  std::string gradient_dtype = {};    ///< as DeepSpeed's configuration has it; empty: by its rule
  std::optional<double> bucket = {};  ///< elements of one of DeepSpeed's reductions; empty: the Trainer's choice
};

/// Reads `fsdp`, `fsdp_config` and `fsdp_version` of a launch file; false where they ask for no FSDP.
[[nodiscard]] bool read_trainer_fsdp(LaunchReading&, LaunchSizes&);

/// Reads the DeepSpeed configuration that a key names or holds; empty where there is none. One that cannot be read and
/// is none that the programs ship is an error at the key.
[[nodiscard]] std::optional<TrainerSharding> read_trainer_deepspeed(LaunchReading&, std::string_view key, LaunchSizes&);

/// Says what DDP does: whole states on every rank, gradients reduced in buckets beside the backward pass.
void read_trainer_ddp(LaunchReading&);

/// All three, in the order in which the Trainer looks at them.
[[nodiscard]] TrainerSharding read_trainer_sharding(LaunchReading&, LaunchSizes&);

/// The type in which DeepSpeed sums gradients of weights in `precision`, and the bytes that it reduces at once; nothing
/// is said of the other two. It looks at the model.
void put_trainer_gradients(LaunchReading&, const TrainerSharding&, std::string_view precision);

}  // namespace orrery
