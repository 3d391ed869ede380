#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/record/report.hpp"

// Whether a plan fits, and by how much. The window takes it only from here.

namespace orrery::gui {

/// Bytes that a process of the stage holds on its device, as far as the report tells: what the caching allocator
/// reserves, with the context and the communicators. Before that is known, and where nothing is known of processes, it
/// is the bytes of its tensors.
[[nodiscard]] std::uint64_t process_of(const Report&, const StageMemory&);

/// A kind of memory with a known size.
struct MemoryUse {
  enum class Where : std::uint8_t { device, host, disk };
  Where where = Where::device;
  std::uint64_t needs = 0, has = 0;      ///< of host and disk the fullest node's
  std::optional<std::uint32_t> stage{};  ///< of the device: the one that leaves least
};

/// The verdict of a report on memory. `fits` is Report::fits; the figures are the report's.
struct FitVerdict {
  bool fits = true;
  bool whole = false;           ///< what processes hold is counted, not only tensors
  std::vector<MemoryUse> uses;  ///< the device first
  std::string text;             ///< "fits, 4.1 GiB to spare", "does not fit by 6.5 GiB"
  std::string detail;           ///< what, and on which stage
};
[[nodiscard]] FitVerdict fit_verdict(const Report&);

}  // namespace orrery::gui
