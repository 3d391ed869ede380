#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/limits.hpp"
#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// What the best plan has least of.  Ties go to the shorter step, then to the plan that was looked at first.
enum class Objective : std::uint8_t {
  step_time,
  memory,  ///< peak memory of the fullest rank, then step time
  cost,    ///< GPU-seconds per step times the cluster's price; on one cluster the order of step_time
};
[[nodiscard]] std::string_view name_of(Objective);
[[nodiscard]] std::optional<Objective> objective_named(std::string_view);

/// How far a search has come.
struct SearchProgress {
  std::string phase;  ///< "coarse plans", "changes", "simulate"
  std::uint64_t done = 0;
  std::uint64_t total = 0;  ///< of the phase; a bound on it, where the phase may end earlier
  double elapsed_s = 0.0;
  std::optional<Seconds> best;  ///< best step time so far
};

struct FoundPlan {
  std::uint64_t id = 0;  ///< equal for equal plans of one run
  Plan plan;
  Report report;                    ///< of estimate
  std::optional<Report> simulated;  ///< of simulate, where asked for and not cancelled
};

struct SearchOptions {
  Objective objective = Objective::step_time;
  SearchLimits limits = {};       ///< what may be decided; empty: everything
  std::uint32_t top = 5;          ///< plans wanted, at least 1
  bool simulate = true;           ///< simulate the plans found
  bool judge_memory = true;       ///< false: plans are found that do not fit, too
  std::optional<Bytes> headroom;  ///< of every device's memory kept free; unset: default_headroom (sim/memory/fit.hpp)
  std::uint32_t threads = 0;      ///< 0: all cores; the result does not depend on it
  std::function<void(const SearchProgress&)> progress;  ///< called from one thread at a time
  /// Told of every plan that is the best so far, with its estimate; called from one thread at a time.  May be empty.
  std::function<void(const FoundPlan&)> found = {};
  const std::atomic<bool>* cancel = nullptr;      ///< set it to stop early with what is known
  std::chrono::milliseconds progress_every{100};  ///< least time between two calls of progress
  Dimensions dimensions = orrery::dimensions();   ///< the table whose rows are turned
};

struct SearchResult {
  std::vector<FoundPlan> plans;  ///< best first, at most `top`; all fit (sim/memory/fit.hpp), with the headroom
  /// The best of the plans that would be better than the first and whose processes do not fit though their tensors do;
  /// where no plan fits and there is none, the plan that lacks least memory.
  std::optional<FoundPlan> rejected;
  std::uint64_t shapes = 0;     ///< coarse plans: sizes of axes and of microbatches
  std::uint64_t looked_at = 0;  ///< of those, whose ways to fit were looked at; the others are slower whatever they do
  std::uint64_t estimated = 0;  ///< plans lowered and estimated in all
  std::uint64_t changes = 0;    ///< single changes and pairs of the best plan, none of which is better
  double wall_s = 0.0;
  bool complete = false;  ///< false: cancelled; the plans are the best of those estimated
  std::string claim;      ///< what was done and found, in one or two sentences
};

/// Finds good plans, by estimates alone.
///
/// First a coarse space: one plan for each size of axes and of microbatches, with the usual choices.  In the order of
/// their steps, those that may still be the best are made to fit in some ways (other orders, ZeRO stages, schedules,
/// recomputed layers, what waits in host memory).  From the best of them one decision after another is changed for the
/// better (planner/neighbours.hpp), until no change of the best plan is better; then two at once, and factors of axes.
/// So the answer is a plan that no change of these improves; that no other plan of the space is better is not proven,
/// and the claim does not say so (docs/planner.md).
///
/// Deterministic whatever the number of threads (wall_s apart).  No plan fits: `plans` is empty and `complete`.
[[nodiscard]] SearchResult search(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&,
                                  const SearchOptions& = {});

}  // namespace orrery
