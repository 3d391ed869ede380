#pragma once

#include "framework/framework.hpp"

// The rooms, one function each: framework/NAME/room.cpp.

namespace orrery {

[[nodiscard]] Framework accelerate();
[[nodiscard]] Framework axolotl();
[[nodiscard]] Framework colossal_ai();
[[nodiscard]] Framework deepspeed();
[[nodiscard]] Framework llama_factory();
[[nodiscard]] Framework megatron_core();
[[nodiscard]] Framework nanotron();
[[nodiscard]] Framework orrery_cuda();
[[nodiscard]] Framework torchtitan();
[[nodiscard]] Framework torchtune();

}  // namespace orrery
