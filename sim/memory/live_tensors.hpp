#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program/program.hpp"
#include "sim/memory/framework_memory.hpp"

namespace orrery {

/// Equal tensors that are live at a rank's peak: the instances of one buffer.
struct LiveTensor {
  std::string name;
  std::string shape;  ///< on the rank: "[4096, 8192]"; tensors without a shape in elements: "[1024]"
  std::string dtype;  ///< "bf16"; empty: bytes
  std::string role;   ///< "weight", "gradient", ..., "framework"
  std::string where;  ///< whose: "layers 0-7", "layers 0-7, microbatches 0-3", ""
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< of all of them together
  friend bool operator==(const LiveTensor&, const LiveTensor&) = default;
};

/// The tensors of ranks of one class at the first instant of setup and two steps at which they hold most.
struct PeakTensors {
  std::uint32_t stage = 0;
  std::uint64_t bytes = 0;          ///< the peak: the sum over `tensors`
  std::vector<LiveTensor> tensors;  ///< largest first; of equal ones in order of declaration
  friend bool operator==(const PeakTensors&, const PeakTensors&) = default;
};

/// The tensors of every class of ranks.
[[nodiscard]] std::vector<PeakTensors> peak_tensors(const Program&, const FrameworkMemory& = {});

}  // namespace orrery
