#pragma once

#include <string_view>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// Whether a file is a torchtune configuration: a value of it is a component of torchtune.
[[nodiscard]] bool is_torchtune_yaml(const LaunchFile&);
/// Reads it (docs/frameworks/torchtune.md).
void read_torchtune_yaml(LaunchReading&);

// Parts of the reading, each in a file of its own.

/// Ends the reading, with a diagnosis, where the file asks for something other than training a text model on its next
/// tokens. Returns whether it does.
[[nodiscard]] bool beyond_torchtune_plans(LaunchReading&);
/// What a component builds that plans do not have: "a model of images and text"; empty where nothing is known of it.
[[nodiscard]] std::string_view torchtune_model_beyond_plans(std::string_view component);
/// The model that model._component_ builds, and its adapters.
void read_torchtune_model(LaunchReading&);
/// The numbers' types, recomputation, offload of activations and the loss. Sizes come before.
void read_torchtune_memory(LaunchReading&);
/// The optimizer, clipping and the learning rate over time.
void read_torchtune_optimizer(LaunchReading&);
/// Says of the keys that change no step's time or memory: without effect.
void pass_over_torchtune_keys(LaunchReading&);

}  // namespace orrery
