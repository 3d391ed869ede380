#pragma once

#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// Bytes that `rank` sends in its step.
[[nodiscard]] std::uint64_t sent_by(const Program&, Rank rank);

/// Writes figures that no event gives into each rank of a simulated trace: its peak of live memory and the bytes that
/// it sends.
void add_totals(Trace&, const Program&);

}  // namespace orrery
