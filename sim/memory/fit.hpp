#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// Whether a plan fits: the one answer that every verb, the search and the window give.
///
/// A plan fits where on every device the process of its rank, and on every node what its ranks keep in host memory and
/// on disk, stay within what is there.  A process holds
///
///     reserved + context + communicators x their buffers
///
/// with what the caching allocator takes from the device for the rank's list (`reserved`), and the constants of the
/// device's calibration (ProcessMemory).  A device without these constants is no GPU that PyTorch's allocator manages:
/// there tensors alone count.

/// How a fit is judged.
struct MemoryRules {
  Bytes headroom = {};      ///< kept free on every device that has process constants
  bool expandable = false;  ///< expandable segments of the caching allocator
};

/// What is short, or nearest to it: need and room of the device, host or disk that has least left.
struct MemoryVerdict {
  enum class Where : std::uint8_t { device, host, disk };
  bool fits = true;
  Where where = Where::device;
  std::uint32_t stage = 0;      ///< of a device
  std::uint64_t need = 0;       ///< bytes; on a device of the process, or of tensors where that is unknown
  std::uint64_t room = 0;       ///< bytes; 0: nothing is known of any memory
  std::uint64_t kept_free = 0;  ///< bytes of the room: MemoryRules::headroom, of devices with process constants
  std::uint64_t live = 0;       ///< bytes of tensors on the fullest device
};

/// "80.2 GiB of the 79.6 GiB of a device (stage 0)", "181.7 GiB of the 64 GiB of a host"; where the headroom alone
/// decides it says so.
[[nodiscard]] std::string text_of(const MemoryVerdict&);

/// Fills the report's figures of reserved and process memory and of setup, all capacities, and `fits`, whatever it was.
///
/// Where the allocator has too little it gives unused segments back before it gives up, and the report's assumptions
/// say how often.  Memory outside a process, and pieces of segments lost between processes, are not known.
void judge_memory(Report&, const PlannedRun&, const Program&, const Calibration&, const MemoryRules& = {});

/// Takes the judgement over from another report of the same Program on the same cluster, with host and disk, and
/// its assumptions.
void judge_alike(Report&, const Report& judged);

/// Communicators of a process: distinct groups of several ranks in which the Program's ranks communicate.
[[nodiscard]] std::uint64_t communicator_count(const Program&);

/// What judge_memory would say of a plan without a report.  Quick where tensors alone are too large: `need` is then the
/// least that the process holds.
[[nodiscard]] MemoryVerdict memory_verdict(const PlannedRun&, const Program&, const Calibration&,
                                           const MemoryRules& = {});
/// The memory figures of a plan that fits, for judge_alike; nothing where it does not.
[[nodiscard]] std::optional<Report> judged_if_it_fits(const PlannedRun&, const Program&, const Calibration&,
                                                      const MemoryRules& = {});
[[nodiscard]] inline bool fits_memory(const PlannedRun& run, const Program& program, const Calibration& calibration,
                                      const MemoryRules& rules = {}) {
  return memory_verdict(run, program, calibration, rules).fits;
}

/// The pipeline ranks whose processes do not fit on their devices, one for each such class.  Hosts and disks do not
/// count.
[[nodiscard]] std::vector<std::uint32_t> stages_that_do_not_fit(const PlannedRun&, const Program&, const Calibration&,
                                                                const MemoryRules& = {});

/// What a judged report says of the tier that has least left, with the headroom that it was judged by.
[[nodiscard]] MemoryVerdict memory_verdict(const Report&, Bytes headroom = {});

/// What the tensors of a rank have at most, on the largest device: its memory less context, workspace and headroom.
/// A plan whose tensors need more on some rank does not fit anywhere.
[[nodiscard]] Bytes most_for_tensors(const ClusterSpec&, const Calibration&, Bytes headroom);

/// Tensors of so much are taken to fit on every device, whatever the allocator makes of them: a fifth of what the
/// smallest device has for them is left to fragments, and eight communicators are counted.  Measured fragments took 3
/// to 8 % (docs/memory.md).
[[nodiscard]] Bytes safe_for_tensors(const ClusterSpec&, const Calibration&, Bytes headroom);

/// What a search keeps free of a device's memory unless told otherwise: the share by which processes were measured to
/// hold more than is predicted.
///
///     headroom = e M        e = 3 %     M  memory of the smallest device
///
/// 28 published runs say what the allocator reserved. 25 of them reserved at most 3.0 % more than is predicted, and the
/// quantile of 95 % is 5.4 % (orrery validate, docs/memory.md).  Zero where the constants of a process are not
/// known.
[[nodiscard]] Bytes default_headroom(const ClusterSpec&, const Calibration&);

}  // namespace orrery
