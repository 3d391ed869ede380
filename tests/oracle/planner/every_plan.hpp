#pragma once

#include <cstddef>
#include <functional>

#include "core/plan/limits.hpp"
#include "core/plan/plan.hpp"

// Every plan of a small space, one after the other. It shares no code with the search or with the code that proposes
// its plans (planner/openings, planner/neighbours): it has plain loops, and check() at the end.

namespace orrery::test {

/// Dimensions that would make a space too large, and when to give up.
struct Extent {
  bool kernels = false;  ///< both attention kernels; else the one that `complete` takes
  bool chunks_of_parameters = false;
  std::size_t looks = ~std::size_t{0};  ///< at combinations, valid or not
};

/// Calls `visit` for each plan that passes check() and is within the limits, until `visit` returns false. Returns false
/// then, and also when there were too many looks. Everything is decided except the counts of recomputed layers: a plan
/// recomputes all layers or none. Requires a cluster.
///
///   sizes of axes     all that multiply to the devices, tensor ranks in 1D and on every grid
///   order of axes     all
///   microbatch size   all divisors of a replica's sequences
///   schedule          all but custom ones, with every number of chunks that they take
///   stages            first and last up to two layers more or less than an even share, the others even
///   states            ZeRO 0 to 3; under ZeRO-3 gathered again or not, ahead or not
///   host memory       eighths of states, parameters and activations
///   and sequence parallelism, cuts of the context with zigzag and inner rings, recomputation, overlap
bool every_plan(const PlannedRun&, const SearchLimits&, const Extent&, const std::function<bool(const Plan&)>& visit);

}  // namespace orrery::test
