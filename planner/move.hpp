#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/dimension.hpp"

// A run of which a person turns one dimension, and the answer to a wish that cannot be met.

namespace orrery {

/// The run with the wished value, and what had to change with it.
struct Move {
  PlannedRun run;                 ///< passes check()
  std::vector<std::string> also;  ///< "data 8 to 4", "stage_layers to auto"
};
/// Changes one dimension of a valid run.  What depends on it follows: other mesh axes so that the mesh still covers the
/// cluster (data first, else those that nearest_meshes finds), stages are split anew, choices that lose their axis go.
/// Empty where no such run is valid; `reason` then has the first rule that the plain change breaks, with its numbers.
[[nodiscard]] std::optional<Move> moved(const PlannedRun&, const Dimension&, std::uint64_t value, std::string& reason,
                                        Dimensions = dimensions());

/// Values that `moved` reaches, ascending, the run's own among them.
struct LegalValues {
  std::vector<std::uint64_t> values;
  std::vector<std::uint64_t> refused;  ///< of those that have names: the others
};
[[nodiscard]] LegalValues legal_values(const PlannedRun&, const Dimension&, Dimensions = dimensions());

/// The answer to a wish that may be impossible.
struct Answer {
  std::uint64_t value = 0;  ///< the wish, or the nearest legal value
  Move move;
  std::string reason;  ///< why it is not the wish; empty where it is
};
/// Nearest: by the factor between them, the smaller of two that are equally near.
[[nodiscard]] Answer answer(const PlannedRun&, const Dimension&, std::uint64_t wish);

/// The run with another model or cluster, made valid as `moved` does; empty with `reason` where nothing near it is.
[[nodiscard]] std::optional<Move> with_model(const PlannedRun&, ModelSpec, const std::string& reference,
                                             std::string& reason);
[[nodiscard]] std::optional<Move> with_cluster(const PlannedRun&, ClusterSpec, const std::string& reference,
                                               std::string& reason);

}  // namespace orrery
