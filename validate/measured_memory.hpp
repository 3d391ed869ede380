#pragma once

#include <optional>

#include "validate/measured_run.hpp"

namespace orrery {

/// Measured bytes, by what they count according to the row.
struct MeasuredMemory {
  std::optional<double> allocated;  ///< in tensors: torch.cuda.max_memory_allocated
  std::optional<double> reserved;   ///< by the caching allocator: torch.cuda.max_memory_reserved
  bool last_rank = false;           ///< of the rank that logs; otherwise the largest over ranks
};
/// Unset where the row publishes neither, or its kind is not fully understood: "GiB max_allocated (max over ranks);
/// reserved=29.1 GiB".
[[nodiscard]] std::optional<MeasuredMemory> measured_memory(const MeasuredRun&);
}  // namespace orrery
