#include "planner/best_split.hpp"

#include <algorithm>
#include <utility>

#include "core/plan/stage_split.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/lower/order_memo.hpp"
#include "core/record/live_memory.hpp"
#include "planner/complete.hpp"
#include "planner/longer_stages.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

/// What a split of layers is judged by: whether the tensors of every rank fit, then the step.
struct Rated {
  bool fits = false;
  Picoseconds step = 0;
  /// By more than a thousandth: nearer times say nothing about which is faster.
  [[nodiscard]] bool is_better_than(const Rated& other) const {
    return fits != other.fits ? fits : step < other.step - other.step / 1000;
  }
};

class Rater {
 public:
  Rater(Plan& plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
        const Calibration& calibration)
      : plan_(plan),
        model_(model),
        workload_(workload),
        room_(least_memory(cluster).base()),
        costs_(cluster, calibration, plan.mesh, plan.placement, plan.collective_algorithm) {}

  [[nodiscard]] Rated rate(const std::vector<std::uint32_t>& split) {
    plan_.stage_layers = split;
    program_ = lower(model_, workload_, plan_, {nullptr, &orders_});
    memory_.read(program_);
    peaks_.clear();
    for (std::uint32_t c = 0; c < program_.classes.size(); ++c) {
      peaks_.push_back(static_cast<double>(memory_.peak(program_, c).peak));
    }
    const Picoseconds step = picoseconds(estimator_.step_time(program_, costs_));
    stages_.read(program_, split);
    return {*std::max_element(peaks_.begin(), peaks_.end()) <= room_, step};
  }

  /// Whether it may, as far as the Program that was rated last tells. That saves lowering most splits.
  [[nodiscard]] bool may_be_better(const std::vector<std::uint32_t>& split, const Rated& than) {
    if (!stages_.knows(split)) return true;
    bool may_fit = true;
    for (std::uint32_t c = 0; c < peaks_.size(); ++c)
      may_fit = may_fit && peaks_[c] * stages_.least_share(split, c) <= room_;
    if (may_fit != than.fits) return may_fit;
    return Rated{may_fit, stages_.least_step(program_, estimator_, split)}.is_better_than(than);
  }

  [[nodiscard]] Program& program() { return program_; }

 private:
  Plan& plan_;
  const ModelSpec& model_;
  const Workload& workload_;
  double room_;
  CostModel costs_;
  lowering::OrderMemo orders_;
  Estimator estimator_;
  LiveMemory memory_;
  std::vector<double> peaks_;  ///< bytes of each class of ranks
  Program program_;            ///< of the split that was rated last
  LongerStages stages_;
};

}  // namespace

BestSplit best_split(Plan plan, const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                     const Calibration& calibration) {
  BestSplit best{balanced_stages(plan, model, workload), std::nullopt};
  const auto count = static_cast<std::uint32_t>(best.layers.size());
  if (count == 1) return best;
  Rater rater(plan, model, workload, cluster, calibration);
  Rated of_best = rater.rate(best.layers);
  std::vector<std::uint32_t> rated_last = best.layers;
  const auto near = [&](std::uint32_t a, std::uint32_t b) { return a <= b + 1 && b <= a + 1; };
  const auto all = uneven_stages(model.layers, count, split_reach);
  for (bool better = true; better;) {
    better = false;
    const std::vector<std::uint32_t> from = best.layers;
    for (const std::vector<std::uint32_t>& split : all) {
      if (!near(split.front(), from.front()) || !near(split.back(), from.back()) || split == from) continue;
      if (!rater.may_be_better(split, of_best)) continue;
      const Rated here = rater.rate(split);
      rated_last = split;
      if (!here.is_better_than(of_best)) continue;
      better = true;
      of_best = here;
      best.layers = split;
    }
  }
  if (rated_last == best.layers) best.program = std::move(rater.program());
  return best;
}

}  // namespace orrery
