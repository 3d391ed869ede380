#pragma once

#include <cstdint>
#include <span>

#include "core/record/trace.hpp"

namespace orrery {

/// A number for all that happened in a step: start and end of every op of every rank, in whole picoseconds, ranks and
/// ops in order. Two histories that differ anywhere have the same number only with a chance of 2^-64. The hash takes
/// integers only, so it is the same on every machine and with every compiler that gives the same history.
///
/// ranks[of_rank[r]] is what rank r did; where of_rank is empty, ranks[r] is. So a step that was simulated folded has
/// the same number as one that was simulated expanded, where both have the same times.
[[nodiscard]] std::uint64_t history_hash(const Trace&, std::span<const std::uint32_t> of_rank = {});

}  // namespace orrery
