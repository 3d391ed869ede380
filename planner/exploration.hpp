#pragma once

#include <span>
#include <vector>

#include "planner/contest.hpp"
#include "planner/progress_meter.hpp"
#include "planner/standing.hpp"

namespace orrery {

/// What makes a plan fit, as far as it may be better than the limit: what was seen of it.
[[nodiscard]] std::vector<Seen> made_to_fit(PricedPlans&, const Plan&, Rating limit);

/// The first half of a search: from coarse plans to plans that fit.
///
/// One coarse plan of every shape is priced, and those that are not far behind the fastest are arranged (orders of
/// axes, cuts of a layer, sizes of microbatches).  What each then is likely to take once it fits follows from a few
/// estimates of it: as it is, and with all done that saves memory.  In that order they are given schedules and ZeRO
/// stages and are made to fit, until what is left is slower than the best.
class Exploration {
 public:
  /// All outlive it.
  Exploration(PricedPlans& plans, Standing& standing, ProgressMeter& meter)
      : plans_(plans), standing_(standing), meter_(meter) {}
  void run();

  [[nodiscard]] std::uint64_t shapes() const { return shapes_; }        ///< coarse plans
  [[nodiscard]] std::uint64_t looked_at() const { return looked_at_; }  ///< of those, that were made to fit

 private:
  [[nodiscard]] std::vector<Contest> coarse_plans();
  [[nodiscard]] std::vector<Start> starts(std::span<Contest> shapes);
  void add_sizes(std::vector<Start>& to, const Plan& shape);
  [[nodiscard]] double bubble_left(const Plan&) const;
  void hope_to_fit(std::vector<Start>&);
  void make_fit(std::vector<Start>);
  [[nodiscard]] std::vector<Start> arranged(const Plan& coarse, double limit);

  PricedPlans& plans_;
  Standing& standing_;
  ProgressMeter& meter_;
  std::uint64_t shapes_ = 0, looked_at_ = 0;
};

}  // namespace orrery
