#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/plan/limits.hpp"
#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {

struct PlanMemory {
  Plan plan;
  MemoryVerdict memory;
};

/// For a search without a result: of the plainest plans within its limits, the one whose tensors need the least memory,
/// and the fastest that fits on more devices (doubling their number, up to 64 times).
struct NearestFit {
  std::optional<PlanMemory> here, fits;
  std::optional<ClusterSpec> on;                ///< where it fits
  std::optional<std::uint64_t> interrupted_at;  ///< devices
};

/// Draws its own progress; ends early when interrupted().
[[nodiscard]] NearestFit nearest_fit(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&,
                                     Bytes headroom, const SearchLimits& searched);

[[nodiscard]] std::string nearest_text(const NearestFit&);

}  // namespace orrery
