#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/plan/plan.hpp"
#include "core/program/lower/order_memo.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/record/live_memory.hpp"
#include "core/record/report.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {

/// A count whose direction is known: more of it holds less memory and takes no less time
/// (docs/formulas/raised-counts.md).  It is raised until the plan fits, not searched.
enum class Raised : std::uint8_t {
  nothing,
  recomputed_layers,      ///< of each stage, from none on
  offloaded_activations,  ///< eighths, from one on
  offloaded_states        ///< eighths, from one on
};

/// A plan that may be looked at: its autos are those of complete(), and one count may follow from what fits.
struct Candidate {
  Plan plan;
  Raised raised = Raised::nothing;
};

/// What a look at a candidate says.
struct Appraisal {
  Plan plan;               ///< resolved, with its count; where nothing fits, with the least
  Picoseconds step = 0;    ///< of estimate
  std::uint64_t peak = 0;  ///< bytes of tensors on the fullest rank
  bool fits = false;       ///< tensors fit in the room, on every tier
};

/// Lowers, raises and prices plans of one model on one cluster.  Keeps its storage: use one per thread.
class Appraiser {
 public:
  /// All outlive it. `close` gives what plans leave open the values that they must have (SearchLimits::close).
  Appraiser(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&,
            void (*close)(PlannedRun&) = nullptr);

  /// Whether check() accepts the plan; completes it first.
  [[nodiscard]] bool is_valid(Plan&);
  /// Bytes of tensors on the fullest rank of a completed plan.
  [[nodiscard]] std::uint64_t held(const Plan& plan) { return lower_and_measure(plan); }
  /// The candidate with the least count, whatever memory it takes.  Requires a valid plan.
  [[nodiscard]] Appraisal least(const Candidate&, std::uint64_t room);
  /// The candidate with the first count whose tensors fit in `room` bytes of a device, and in hosts and disks.
  /// Requires a valid plan.
  [[nodiscard]] Appraisal appraise(const Candidate&, std::uint64_t room);

  /// An appraised candidate with `more` recomputed layers on the pipeline rank that holds stage `stage`, or one more
  /// eighth.  False where there is no more, or hosts do not hold it.
  [[nodiscard]] bool raise_by(std::uint32_t more, Appraisal&, const Candidate&, std::uint32_t stage,
                              std::uint64_t room);

  /// What the processes of an appraised plan need, and whether that fits.
  [[nodiscard]] MemoryVerdict processes(const Plan&, const MemoryRules&);

  /// The plan with everything it names, until the next call.
  [[nodiscard]] const PlannedRun& run(const Plan&);
  [[nodiscard]] Estimator& estimator() { return estimator_; }
  [[nodiscard]] CostModel costs(const Plan&) const;

 private:
  /// Puts a value in place of every auto.
  void complete_plan(Plan&);
  /// Lowers the plan, unless it was lowered last; bytes of its fullest rank, and of each pipeline rank.
  std::uint64_t lower_and_measure(const Plan&);
  [[nodiscard]] Picoseconds price(const Plan&);
  [[nodiscard]] bool fits(const Plan&, std::uint64_t room);
  [[nodiscard]] bool raise_recomputed(Plan&, std::uint64_t room);
  [[nodiscard]] bool raise_eighths(Plan&, std::optional<std::uint32_t> Plan::*, std::uint64_t room);
  [[nodiscard]] bool find_tiers(Plan&, std::uint64_t room);

  const Calibration& calibration_;
  PlannedRun run_;
  void (*close_)(PlannedRun&);
  lowering::OrderMemo orders_;
  std::optional<Plan> lowered_;  ///< the plan of `program_`
  Program program_;
  LiveMemory memory_;
  Estimator estimator_;
  std::vector<std::uint64_t> held_;  ///< by pipeline rank
};

/// Which part of the way from a plan to one that holds less is to be gone so that it fits, in proportion to memory:
/// from 0 to 1.
[[nodiscard]] double part_that_fits(const Appraisal& none, const Appraisal& all, std::uint64_t room);

/// The candidate's plan with the least count, and with the most.
[[nodiscard]] Plan with_least(const Candidate&);
[[nodiscard]] Candidate with_most(const Candidate&);

}  // namespace orrery
