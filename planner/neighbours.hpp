#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/dimension.hpp"
#include "core/plan/limits.hpp"

namespace orrery {

/// A plan that differs from another in one decision, or in two that belong together.
struct Neighbour {
  std::string dimension;  ///< "recompute", "microbatch_size", "mesh", ...
  std::string from, to;
  Plan plan;  ///< passes check(); what depends on the change followed it, and may be auto again
};

/// How far neighbours lie.
enum class Reach : std::uint8_t {
  plan,   ///< one decision on the mesh as it is, the order of its axes, or a stage that is a layer longer
  pairs,  ///< two decisions at once: shares, a share and ZeRO, how attention is cut, a schedule and what goes with it
  mesh,   ///< a factor of one axis to another, or another algorithm of matrix products
};

/// The neighbours of a valid plan, in a fixed order.
///
/// They are derived from the table of dimensions: a choice or a switch takes every other value, a share every eighth, a
/// number the ones near it.  A decision that has just begun to apply, as how weights are gathered under ZeRO-3, is
/// tried with its other values at once.  Requires a cluster.
[[nodiscard]] std::vector<Neighbour> neighbours(const PlannedRun&, Reach, const SearchLimits& = {},
                                                Dimensions = dimensions());

/// "recompute none -> full"
[[nodiscard]] std::string describe(const Neighbour&);

}  // namespace orrery
