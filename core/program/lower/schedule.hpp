#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"

namespace orrery::lowering {

/// One step of a pipeline schedule on one stage.
struct ComputeAction {
  enum class Phase : std::uint8_t { forward, backward };
  Phase phase = Phase::forward;
  std::uint32_t microbatch = 0;
  friend bool operator==(const ComputeAction&, const ComputeAction&) = default;
};

/// Compute order of `stage`.  Authors of a schedule write this alone: transfers
/// and memory follow from it.  Every microbatch runs forward once, then
/// backward once; both in ascending order (messages between stages are FIFO).
using Schedule = std::vector<ComputeAction> (*)(std::uint32_t stage, std::uint32_t stages, std::uint32_t microbatches);

/// All forwards, then all backwards (Huang et al., GPipe, NeurIPS 2019).
std::vector<ComputeAction> schedule_gpipe(std::uint32_t stage, std::uint32_t stages, std::uint32_t microbatches);

/// Stage i runs min(m, p - 1 - i) forwards ahead, then one forward, one
/// backward (Narayanan et al., SC '21).
std::vector<ComputeAction> schedule_1f1b(std::uint32_t stage, std::uint32_t stages, std::uint32_t microbatches);

[[nodiscard]] Schedule schedule_of(ScheduleName);

}  // namespace orrery::lowering
