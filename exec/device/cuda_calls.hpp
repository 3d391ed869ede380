#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "exec/device/device.hpp"

namespace orrery {

/// The functions that the module with all of CUDA gives to the program that loads it, so that the program runs where
/// neither driver nor toolkit is.
///
/// Program and module must be of one build, because C++ objects pass between them. `shape` tells builds apart whose
/// objects differ.
struct CudaCalls {
  static constexpr std::uint64_t version = 5;
  static constexpr std::uint64_t current = version << 48 ^ sizeof(Kernel) << 40 ^ sizeof(Operand) << 28 ^
                                           sizeof(KernelContext) << 16 ^ std::uint64_t{kernel_kind_count} << 4 ^
                                           sizeof(Workload);
  std::uint64_t shape;
  /// The number of GPUs; 0 with the reason where none can be used.
  int (*count)(std::string& why);
  /// Identifies a GPU in the world, whatever its number here. Throws Error.
  std::string (*identity)(int number);
  /// Throws Error.
  std::unique_ptr<Device> (*open)(int number);
};

/// The module's only symbol.
inline constexpr const char* cuda_calls_symbol = "orrery_cuda_calls";

}  // namespace orrery
