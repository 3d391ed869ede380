#pragma once

#include <memory>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// Prices a Program exactly, as if every op and every message had the machine
/// to itself: no shared links, no shared cores, no noise.
///
/// It works on classes of equal ranks and on blocks. A block in which only its own class takes part is walked once for
/// each state of the lanes in which it is met. So a step costs as many looks as it has slots, whatever the number of
/// ranks and layers. The result equals `simulate` without contention, to the picosecond.
///
/// Where nodes are of several kinds, ranks that differ only along the Program's class axes form a column (one pipeline,
/// say). The slowest column decides, and the breakdown is its own. `simulate` then takes as long or longer, since slow
/// ranks of different columns may hold each other up in turn.
///
/// The object keeps its working storage between calls: use one Estimator per thread.
class Estimator {
 public:
  Estimator();
  ~Estimator();
  Estimator(Estimator&&) noexcept;
  Estimator& operator=(Estimator&&) noexcept;

  /// Step time with its full breakdown, and memory. `program` is lower(run.model, run.workload, run.plan), and `costs`
  /// belongs to the cluster with the plan's mesh and placement.
  ///
  /// compute, exposed_communication and bubble_fraction follow the rules of core/record/summarize.hpp. On devices whose
  /// ranks share cores the step takes at least the compute time of a node's ranks divided by its cores. Throws Error
  /// when the program's ranks wait for each other forever.
  [[nodiscard]] Report estimate(const PlannedRun& run, const Program& program, const CostModel& costs);

  /// The step time alone, which is all that a search needs at first.
  [[nodiscard]] Seconds step_time(const Program& program, const CostModel& costs);

  /// The step of the program whose step was asked for last, walked again: since then its slots may have come to repeat
  /// more or less often. Nothing else of it may have changed, and it must still be where it was.
  [[nodiscard]] Picoseconds step_again();
  /// What a rank of a class of that program does in blocks of a pass, were it done one op after another.
  [[nodiscard]] Picoseconds time_in(Pass, std::uint32_t rank_class) const;

 private:
  struct Scratch;
  Picoseconds evaluate(const Program&, const CostModel&);
  [[nodiscard]] Picoseconds walked(const Program&) const;
  void walk(const Program&);
  std::unique_ptr<Scratch> scratch_;
};

/// Makes one estimate with storage of its own.
[[nodiscard]] Report estimate(const PlannedRun&, const Program&, const CostModel&);

}  // namespace orrery
