#pragma once

#include <array>
#include <cstdint>

namespace orrery {

/// The values of 4-bit NormalFloat, over the scale of a block: quantiles of a normal distribution, cut to [-1, 1], with
/// an exact 0. Source: Dettmers et al., "QLoRA: efficient finetuning of quantized LLMs", arXiv 2305.14314, 2023,
/// appendix E.
inline constexpr std::array<float, 16> nf4_values = {-1.0F,
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

/// The code of the nearest value; of two, the lower.
[[nodiscard]] inline std::uint8_t nf4_of(double x) {
  std::uint8_t code = 0;
  while (code < 15 && x - nf4_values[code] > nf4_values[code + 1] - x) ++code;
  return code;
}

}  // namespace orrery
