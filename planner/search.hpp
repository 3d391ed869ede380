#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "core/spec/cluster_spec.hpp"
#include "planner/space.hpp"

namespace orrery {

/// What the best plan has least of.  Ties go to the shorter step, then to the
/// lower number in the space.
enum class Objective : std::uint8_t {
  step_time,
  memory,  ///< peak memory of the fullest rank, then step time
  cost,    ///< GPU-seconds per step times the cluster's price; on one cluster the order of step_time
};
[[nodiscard]] std::string_view name_of(Objective);
[[nodiscard]] std::optional<Objective> objective_named(std::string_view);

/// How far a search has come.  `done` counts plans decided (bounded, pruned or
/// estimated) of `total`.  Most are decided at once and the last ones slowly, so nothing is said of the time left.
struct SearchProgress {
  std::string phase;  ///< "estimate", "simulate"
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  double elapsed_s = 0.0;
  std::optional<Seconds> best;  ///< best step time so far
};

struct FoundPlan {
  std::uint64_t number = 0;  ///< in the space
  Plan plan;
  Report report;                    ///< of estimate
  std::optional<Report> simulated;  ///< of simulate, where asked for and not cancelled
};

struct SearchOptions {
  Objective objective = Objective::step_time;
  std::uint32_t top = 5;          ///< plans wanted, at least 1
  bool simulate = true;           ///< simulate the plans found
  bool prune = true;              ///< false: estimate every plan that fits (the brute force of tests)
  std::optional<Bytes> headroom;  ///< of every device's memory kept free; unset: default_headroom (sim/memory/fit.hpp)
  std::uint32_t threads = 0;      ///< 0: all cores; the result does not depend on it
  std::function<void(const SearchProgress&)> progress;  ///< called from one thread at a time
  /// Told of every plan that enters the best so far, with its estimate; called from one thread at a time.  Each costs
  /// another estimate.  May be empty.
  std::function<void(const FoundPlan&)> found = {};
  const std::atomic<bool>* cancel = nullptr;      ///< set it to stop early with what is known
  std::chrono::milliseconds progress_every{100};  ///< least time between two calls of progress
};

/// Why plans were not estimated.
struct PruneCount {
  std::string reason;  ///< "memory": does not fit, by a bound on its peak, its Program or its process; "bound": cannot
                       ///< be among the best; "same": another plan of the space stands for it, which is the same or,
                       ///< with less recomputed or in host memory, no slower
  std::uint64_t count = 0;
};

struct SearchResult {
  std::vector<FoundPlan> plans;  ///< best first, at most `top`; all fit (sim/memory/fit.hpp), with the headroom
  /// The best of the plans that would be better than the first and do not fit; where none fits, the best of all that
  /// were looked at so far.
  std::optional<FoundPlan> rejected;
  std::uint64_t space = 0;       ///< plans in the space
  std::uint64_t evaluated = 0;   ///< lowered and estimated
  std::uint64_t infeasible = 0;  ///< do not fit in memory (by the bound, their Program or their process)
  std::vector<PruneCount> pruned;
  double wall_s = 0.0;
  bool complete = false;  ///< false: cancelled; the plans are the best of those estimated
  /// Whether the least objective over the whole space is proven to be plans[0]'s.
  bool certified = false;
  /// Whether the least simulated time of the space is proven too: no other
  /// plan's bound lies below the best simulated time.
  bool simulated_certified = false;
  std::string certificate;          ///< what was done and found, in one sentence
  std::string certificate_details;  ///< the proof, figure by figure; empty where nothing is proven
};

/// Finds the `top` best plans of a space.
///
/// Branch and bound: families of plans that share their outer choices are
/// looked into in ascending order of one lower bound for all of their plans
/// (planner/families.hpp), plans are lowered and estimated in ascending order of
/// theirs, and what exceeds the worst of the best found is left out, a family
/// at a time.  So the result is the minimum of `estimate` over the whole space,
/// as the certificate says.  Deterministic whatever the number of threads
/// (wall_s apart).
///
/// No plan fits: `plans` is empty and `complete`.
[[nodiscard]] SearchResult search(const Space&, const ModelSpec&, const Workload&, const ClusterSpec&,
                                  const Calibration&, const SearchOptions& = {});
/// The same over the basic space (basic_limits).
[[nodiscard]] SearchResult search(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&,
                                  const SearchOptions& = {});

}  // namespace orrery
