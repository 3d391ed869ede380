#pragma once

#include "planner/neighbours.hpp"
#include "planner/progress_meter.hpp"
#include "planner/standing.hpp"

namespace orrery {

/// The second half of a search: from plans that fit, one decision after another is changed for the better, until no
/// change of the best plan is better.
class Descent {
 public:
  /// All outlive it.
  Descent(PricedPlans& plans, Standing& standing, ProgressMeter& meter)
      : plans_(plans), standing_(standing), meter_(meter) {}
  /// Where nothing fits so far: from the leanest plans on, each of another shape, whatever change takes less memory,
  /// until one fits.
  void squeeze();
  void run();

  /// Changes of the best plan, none of which is better.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

 private:
  void squeeze(Appraisal);
  [[nodiscard]] std::vector<Seen> starts();
  void improve(Seen&, Reach);
  std::uint64_t step(Seen&, Reach);
  [[nodiscard]] std::vector<Seen> changed(const Candidate&, Reach, const Rating& limit);
  [[nodiscard]] std::uint64_t estimates() const { return plans_.count() + standing_.count(); }

  PricedPlans& plans_;
  Standing& standing_;
  ProgressMeter& meter_;
  std::uint64_t changes_ = 0;
};

}  // namespace orrery
