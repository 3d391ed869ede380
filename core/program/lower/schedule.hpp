#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Compute order of `stage`: forward and backward actions alone.  Authors of a
/// schedule write nothing else: transfers and memory follow from it.  Every
/// microbatch runs forward once, then backward once; both in ascending order
/// (messages between stages are FIFO).
using Schedule = std::vector<Action> (*)(std::uint32_t stage, std::uint32_t stages, std::uint32_t microbatches);

/// All forwards, then all backwards (Huang et al., GPipe, NeurIPS 2019).
std::vector<Action> schedule_gpipe(std::uint32_t stage, std::uint32_t stages, std::uint32_t microbatches);

/// Stage i runs min(m, p - 1 - i) forwards ahead, then one forward, one
/// backward (Narayanan et al., SC '21).
std::vector<Action> schedule_1f1b(std::uint32_t stage, std::uint32_t stages, std::uint32_t microbatches);

[[nodiscard]] Schedule schedule_of(ScheduleName);

}  // namespace orrery::lowering
