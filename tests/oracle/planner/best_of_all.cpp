#include "tests/oracle/planner/best_of_all.hpp"

#include "core/program/lower/lower.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery::test {
namespace {

/// Prices the plans of one space.
class Pricing {
 public:
  explicit Pricing(const SmallSpace& s)
      : run_(s.run), calibration_(s.calibration), rules_{default_headroom(*run_.cluster, calibration_), false} {}

  /// Whether it fits; then its step counts.
  bool take(const Plan& plan) {
    run_.plan = plan;
    const Program program = lower(run_.model, run_.workload, plan);
    if (!fits_memory(run_, program, calibration_, rules_)) return false;
    const CostModel costs(*run_.cluster, calibration_, plan.mesh, plan.placement, plan.collective_algorithm);
    const Picoseconds step = picoseconds(estimator_.step_time(program, costs));
    if (!best.plan || step < best.step) best.plan = plan, best.step = step;
    return true;
  }
  bool fits(const Plan& plan) {
    run_.plan = plan;
    return fits_memory(run_, lower(run_.model, run_.workload, plan), calibration_, rules_);
  }
  /// Recomputes fewer layers, from all of them down: one of a stage after the other, and from the last stage up.
  void take_with_fewest(Plan plan) {
    const std::vector<std::uint32_t>& layers = *plan.stage_layers;
    for (const bool from_last : {false, true}) {
      plan.recompute_layers = layers;
      for (std::size_t i = 0; i < layers.size(); ++i) {
        std::uint32_t& count = (*plan.recompute_layers)[from_last ? layers.size() - 1 - i : i];
        while (count > 0) {
          --count;
          if (fits(plan)) continue;
          ++count;
          break;
        }
      }
      take(plan);
      if (layers.size() == 1) return;
    }
  }

  BestOfAll best;

 private:
  PlannedRun run_;
  const Calibration calibration_;
  const MemoryRules rules_;
  Estimator estimator_;
};

}  // namespace

BestOfAll best_of_all(const SmallSpace& s) {
  Pricing pricing(s);
  every_plan(s.run, s.limits, s.extent, [&](const Plan& plan) {
    ++pricing.best.valid;
    const bool fits = pricing.take(plan);
    if (fits) ++pricing.best.fitting;
    if (!fits || plan.recompute == Recompute::none) return true;
    Plan none = plan;
    none.recompute = Recompute::none;
    if (!pricing.fits(none)) pricing.take_with_fewest(plan);
    return true;
  });
  return pricing.best;
}

}  // namespace orrery::test
