#pragma once

#include <cstdint>

#include "exec/kernels/device/on_device.hpp"

namespace orrery {

/// The values of 4-bit NormalFloat, over the scale of a block: quantiles of a normal distribution, cut to [-1, 1], with
/// an exact 0. Source: Dettmers et al., "QLoRA: efficient finetuning of quantized LLMs", arXiv 2305.14314, 2023,
/// appendix E.
[[nodiscard]] ORRERY_ON_DEVICE inline float nf4_value(std::uint32_t code) {
  static constexpr float values[16] = {-1.0F,
                                       -0.6961928009986877F,
                                       -0.5250730514526367F,
                                       -0.39491748809814453F,
                                       -0.28444138169288635F,
                                       -0.18477343022823334F,
                                       -0.09105003625154495F,
                                       0.0F,
                                       0.07958029955625534F,
                                       0.16093020141124725F,
                                       0.24611230194568634F,
                                       0.33791524171829224F,
                                       0.44070982933044434F,
                                       0.5626170039176941F,
                                       0.7229568362236023F,
                                       1.0F};
  return values[code];
}

/// The code of the nearest value; of two, the lower.
[[nodiscard]] ORRERY_ON_DEVICE inline std::uint8_t nf4_of(double x) {
  std::uint8_t code = 0;
  while (code < 15 && x - static_cast<double>(nf4_value(code)) > static_cast<double>(nf4_value(code + 1U)) - x) ++code;
  return code;
}

}  // namespace orrery
