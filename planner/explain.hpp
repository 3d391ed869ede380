#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/work_progress.hpp"
#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/record/report.hpp"
#include "planner/neighbours.hpp"
#include "planner/resolve.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {

/// A part of the step on the compute lane, mean over ranks.
struct TimeTerm {
  std::string name;  ///< "forward", ..., "waiting for collectives", "bubble"
  Seconds time;
};

/// A neighbour, priced.
struct PlanChange : Neighbour {
  Seconds step_time;
  MemoryVerdict memory;
};
/// Neighbours with one decision changed, resolved, the mesh's factors among them.
[[nodiscard]] std::vector<PlanChange> single_changes(const PlannedRun&);

/// What keeps a plan from being faster.
enum class Binding : std::uint8_t {
  memory,   ///< a single change would be faster, but does not fit
  choice,   ///< a single change is faster and fits: the plan is not the best of its neighbours
  largest,  ///< no single change is faster: the largest term it is
};

/// Why a plan is as good or bad as it is.
struct Explanation {
  Plan plan;  ///< resolved
  std::vector<Resolution> resolved;
  Report report;                ///< of estimate
  std::vector<TimeTerm> terms;  ///< add up to the step time; on CPU ranks that share cores, at most
  std::uint32_t fullest_stage = 0;
  Binding binding = Binding::largest;
  /// Single changes that would be faster, fastest first: those that fit, and those that do not.
  std::vector<PlanChange> faster;
  std::vector<PlanChange> faster_if_it_fitted;
  /// For a plan that does not fit: of the single changes that fit the one with
  /// the shortest step; where none fits, the one that needs least memory.
  std::optional<PlanChange> smallest_fix;
  std::string text;  ///< all of this for a person
};

/// Explains one plan: where its time goes, what binds it, and if it does not
/// fit, the smallest single change that would (the fitting one that costs the
/// least time).  Requires run.cluster and a plan that passes check(); autos are
/// resolved first.
/// A change fits with `headroom` to spare on every device, as what a search finds does; unset: default_headroom.
/// `progress` counts single changes.
[[nodiscard]] Explanation explain(const PlannedRun& run, const Calibration&, const WorkProgress& progress = {},
                                  std::optional<Bytes> headroom = {});

struct TermDifference {
  std::string name;
  Seconds reference;
  Seconds other;
};

/// Why not that one.
struct Difference {
  bool valid = true;                   ///< `other` passes check()
  std::string first_violation;         ///< rendered, where it does not
  bool fits = true;                    ///< `other` fits in memory
  bool reference_fits = true;          ///< `reference` does; looked at even where `other` is not valid
  Report reference, other_report;      ///< empty where not valid
  std::vector<std::string> decisions;  ///< what the plans decide differently: "recompute: none | full"
  std::vector<TermDifference> terms;   ///< by how much `other` is longer, most first
  std::string text;
};

/// Explains why `other` is not better than `reference`: the first rule that it
/// breaks, or by how much it does not fit, or which terms of the step are
/// longer.  Both are priced on reference.cluster (required), each with its own model and workload.
[[nodiscard]] Difference explain_difference(const PlannedRun& reference, const PlannedRun& other, const Calibration&);

}  // namespace orrery
