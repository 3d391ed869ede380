#pragma once

#include "planner/priced_plans.hpp"

namespace orrery {

/// A plan of the coarse space.
struct Start {
  Plan plan;
  Picoseconds step = 0;
  double hope = 0.0;  ///< a step (or bytes, where memory is the objective) that its shape is likely not to be below
};

/// The best of a plan and others, by what they need without regard to what fits.
class Contest {
 public:
  explicit Contest(PricedPlans& plans) : plans_(&plans) {}
  /// The plan, or what is nearest to it within the limits.
  void look_at(Plan);
  /// Orders of axes and ways to cut a layer, one after another.
  void look_around();
  [[nodiscard]] bool is_empty() const { return rating == worst; }

  Start best;
  Rating rating = worst;
  bool fits = false;

 private:
  PricedPlans* plans_;
};

}  // namespace orrery
