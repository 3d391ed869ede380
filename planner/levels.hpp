#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/limits.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// A dimension that a search decides, and the values that it may take.
struct Level {
  std::string key;                  ///< "mesh.tensor"
  std::vector<std::string> values;  ///< in the words of plan files; empty: whole numbers near those of a plan
};
/// What a search looks at: first all sizes of the axes, then changes of the others.
struct Levels {
  std::uint64_t shapes = 0;    ///< sizes of all axes together
  std::vector<Level> coarse;   ///< axes, and sizes of microbatches
  std::vector<Level> changed;  ///< one by one, from the best of the coarse plans on
};

[[nodiscard]] Levels levels_of(const ModelSpec&, const Workload&, const ClusterSpec&, const SearchLimits&);
[[nodiscard]] std::string describe(const Levels&);

}  // namespace orrery
