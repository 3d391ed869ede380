#pragma once

#include "framework/launch/launch_reading.hpp"
#include "framework/launch/launch_sizes.hpp"

namespace orrery {

/// Whether a file is a LLaMA-Factory configuration: it names a model as transformers do, beside a key that only such
/// files have.
[[nodiscard]] bool is_llama_factory_yaml(const LaunchFile&);
/// Reads it (docs/frameworks/llama-factory.md).
void read_llama_factory_yaml(LaunchReading&);

/// The same for the configurations of its second version, whose keys are others.
[[nodiscard]] bool is_llama_factory_v1_yaml(const LaunchFile&);
void read_llama_factory_v1_yaml(LaunchReading&);

// Parts of the reading, each in a file of its own.

/// Ends the reading, with a diagnosis, where the file asks for something other than training all weights of a model on
/// its next tokens. Returns whether it does.
[[nodiscard]] bool beyond_llama_factory_plans(LaunchReading&);
/// Whether the file has Megatron's sizes, so that its training runs on Megatron.
[[nodiscard]] bool runs_on_megatron(const LaunchFile&);
/// Reads Megatron's keys: axes, schedule, recomputation, sharding.
void read_llama_factory_megatron(LaunchReading&, LaunchSizes&);
/// Says of the keys that change no step's time or memory: without effect.
void pass_over_llama_factory_keys(LaunchReading&);

}  // namespace orrery
