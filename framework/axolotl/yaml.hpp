#pragma once

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// Whether a file is an axolotl configuration: it has base_model and a key that only such files have beside it.
[[nodiscard]] bool is_axolotl_yaml(const LaunchFile&);
/// Reads it (docs/frameworks/axolotl.md).
void read_axolotl_yaml(LaunchReading&);

// Parts of the reading, each in a file of its own.

/// Ends the reading, with a diagnosis, where the file asks for something other than training all weights of a model on
/// its next tokens. Returns whether it does.
[[nodiscard]] bool beyond_axolotl_plans(LaunchReading&);
/// Plugins, and what they turn on.
void read_axolotl_plugins(LaunchReading&);
/// Attention, recomputation, offload of activations and the loss.
void read_axolotl_memory(LaunchReading&);
/// Says of the keys that change no step's time or memory: without effect.
void pass_over_axolotl_keys(LaunchReading&);

}  // namespace orrery
