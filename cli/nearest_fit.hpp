#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery {

/// The plan that needs least memory of the basic plans on a cluster.
struct Leanest {
  std::uint64_t peak = 0;  ///< bytes on the fullest device
  Plan plan;
};

/// For a search without a result: what came nearest, and how many devices would do (doubling the number, up to 64
/// times).
struct NearestFit {
  std::optional<Leanest> here, fits;
  std::optional<ClusterSpec> on;                ///< where it fits
  std::optional<std::uint64_t> interrupted_at;  ///< devices
};

/// Draws its own progress; ends early when interrupted().
[[nodiscard]] NearestFit nearest_fit(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&);

/// `of_basic`: said of plans wherever the search itself looked at more than the basic ones.
[[nodiscard]] std::string nearest_text(const NearestFit&, bool of_basic);

}  // namespace orrery
