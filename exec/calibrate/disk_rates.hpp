#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/record/calibration.hpp"

namespace orrery {

/// Measures a folder's disk by itself: `bytes` written until they are on the disk, read after the system has forgotten
/// them, and the median of small reads at scattered places.
///
/// The file has no name and is gone afterwards. Where a file system keeps its files in memory, or does not drop them
/// when asked, the rates are memory's. `progress` is called with the share done and may throw. Throws Error when the
/// folder takes no files or is full, or at an error of the disk.
[[nodiscard]] DiskRate measure_disk(const std::filesystem::path& folder, std::uint64_t bytes = std::uint64_t{1} << 30,
                                    const std::function<void(double)>& progress = {});

}  // namespace orrery
