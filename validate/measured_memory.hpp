#pragma once

#include <optional>

#include "validate/measured_run.hpp"

namespace orrery {

/// Measured bytes, by what the row says that they count.
struct MeasuredMemory {
  std::optional<double> allocated;  ///< in tensors: torch.cuda.max_memory_allocated
  std::optional<double> reserved;   ///< by the caching allocator: torch.cuda.max_memory_reserved
  bool last_rank = false;           ///< of the rank that logs, else the largest over ranks
};
/// Unset where the row publishes neither, or its kind is not understood whole: "GiB max_allocated (max over ranks);
/// reserved=29.1 GiB".
[[nodiscard]] std::optional<MeasuredMemory> measured_memory(const MeasuredRun&);
}  // namespace orrery
