#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "sim/memory/memory_figures.hpp"

namespace orrery {

/// Communicators of a process: distinct groups of several ranks in which the Program's ranks communicate.
[[nodiscard]] std::uint64_t communicator_count(const Program&);

/// What a plan's tensors should leave of a device's memory, before the plan is
/// known.
///
///     margin = context + workspace + 4 c + M / 20
///
///     c  buffers of a communicator     M  the device's memory
///
/// Four communicators: tensor, pipeline and data groups, and all ranks.  A
/// twentieth for what fragments: 21 published runs of Megatron-LM reserved 3 to
/// 8 % more than they allocated, 4.4 % in the mean (traces/measured/runs.csv).
/// Nothing where the constants are not known; at most half of the memory.
[[nodiscard]] Bytes memory_margin(Bytes device, const std::optional<ProcessMemory>&);

/// What a plan's processes hold: of each class of ranks, and outside tensors.
struct ProcessFigures {
  std::vector<MemoryFigures> classes;
  std::uint64_t communicators = 0;
  std::optional<ProcessMemory> outside;
};

/// On a device whose memory is known, the allocator has what context and communicators leave of it, and gives unused
/// segments back before it gives up.
[[nodiscard]] ProcessFigures process_figures(const PlannedRun&, const Program&,
                                             const std::optional<ProcessMemory>& outside, bool expandable = false);

/// Fills the report's figures of reserved and process memory and of setup, and
/// judges `fits` by the largest.
///
///     process = reserved + context + communicators x their buffers
///
/// Without constants (`outside`), process memory stays unset.  Memory outside a process, and pieces of segments that
/// are lost between processes, are not known.
void add_process_memory(Report&, const ProcessFigures&);
void add_process_memory(Report&, const PlannedRun&, const Program&, const std::optional<ProcessMemory>& outside,
                        bool expandable = false);

}  // namespace orrery
