#pragma once

#include "core/record/calibration.hpp"

namespace orrery {

/// Measures messages between rank threads: 2 ranks for rates, `cores` + 1 or more (at least 4) for the latency with
/// more ranks than cores.
[[nodiscard]] MessageRate measure_messages(std::uint32_t cores);

/// Time with all cores working over time alone, at least 1, for matrix products and for kernels that move memory.
struct BusySlowdown {
  double compute = 1.0;
  double memory = 1.0;
};
[[nodiscard]] BusySlowdown measure_slowdown(std::uint32_t cores);

}  // namespace orrery
