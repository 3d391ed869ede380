#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/record/calibration.hpp"
#include "planner/search.hpp"
#include "planner/space.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// What an objective compares, in its order; least is best.  For plans: exact.
/// For bounds: at most the plan's.
struct Rating {
  std::int64_t first = 0;   ///< picoseconds of a step, or bytes of the fullest rank
  std::int64_t second = 0;  ///< memory: picoseconds of a step
  friend auto operator<=>(const Rating&, const Rating&) = default;
};

[[nodiscard]] Rating rating(Objective, Picoseconds step, std::uint64_t peak_bytes);

/// A plan of the space that fits in memory, and its bound.
struct Candidate {
  Rating bound;
  std::uint64_t number = 0;
  Picoseconds step_bound = 0;
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

struct Candidates {
  std::vector<Candidate> list;   ///< ascending in (bound, number)
  std::uint64_t looked_at = 0;   ///< plans; fewer than the space when cancelled
  std::uint64_t infeasible = 0;  ///< of them, do not fit
};

/// Told how many plans of the space are done, from one thread at a time.
class ProgressMeter;

/// Bounds every plan of the space: memory first, time for those that fit.
/// Parallel over meshes on the calling arena.
[[nodiscard]] Candidates find_candidates(const Space&, const ModelSpec&, const Workload&, const ClusterSpec&,
                                         const Calibration&, const SearchOptions&, ProgressMeter&);

}  // namespace orrery
