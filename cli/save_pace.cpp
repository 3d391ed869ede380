#include "cli/save_pace.hpp"

#include <algorithm>

#include "forecast/checkpoint_interval.hpp"

namespace orrery {

void SavePace::step_ended(Seconds took) {
  ++steps_;
  ++since_;
  step_time_ += took;
}

void SavePace::saved(Seconds took) {
  ++saves_;
  since_ = 0;
  save_time_ += took;
}

Seconds SavePace::between_failures() const {
  // What this process has measured counts before `ran` says so.
  return stated_.value_or(std::max(running_, step_time_ + save_time_) / static_cast<double>(failures_ + 1));
}

std::uint64_t SavePace::interval() const { return best_steps(step(), save(), between_failures()); }

}  // namespace orrery
