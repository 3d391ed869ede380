#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/plan/compute_order.hpp"

// Schedules as PyTorch's pipelining writes them: a line of comma-separated cells for each rank.
//
//     0F0,0F1,,0B0,0B1
//     ,1F0,1B0,1F1,1B1
//
// Cells are STAGE KIND MICROBATCH with the kinds F, B, I and W of core/plan/compute_order.hpp. Empty cells are times
// at which the rank waits. "(0F1;1B0)OVERLAP_F_B" is two actions whose messages hide behind one another: they are read
// as neighbours. UNSHARD, RESHARD, REDUCE_GRAD, SEND_F, SEND_B, RECV_F and RECV_B follow from the plan and are left
// out. Source: pytorch/pytorch@00722e64, torch/distributed/pipelining/schedules.py (_Action, _load_csv).

namespace orrery {

/// Reads such a text; empty after any mistake. Codes: launch.schedule-csv and those of read_order().
[[nodiscard]] std::optional<ComputeOrder> read_schedule_csv(const std::string& text, const std::string& file,
                                                            Diagnostics&);
/// The same from a file; one that cannot be read is a diagnostic (file.open).
[[nodiscard]] std::optional<ComputeOrder> read_schedule_csv_file(const std::filesystem::path&, Diagnostics&);

/// A text that reads back equal. Requires stages that lie on one rank each (no StagePlacement::two_way).
[[nodiscard]] std::string write_schedule_csv(const ComputeOrder&);

}  // namespace orrery
