#include "cli/save_pace.hpp"

#include <algorithm>

#include "forecast/checkpoint_interval.hpp"

namespace orrery {

void SavePace::began() {
  since_ = 0;
  since_time_ = Seconds();
}

void SavePace::step_ended(Seconds took) {
  ++steps_;
  ++since_;
  since_time_ += took;
  step_time_ += took;
}

void SavePace::saved(Seconds took) {
  ++saves_;
  began();
  save_time_ += took;
}

bool SavePace::due() const {
  return saves_ == 0 || since_ >= best_steps(since_time_ / static_cast<double>(since_), save(), between_failures());
}

Seconds SavePace::between_failures() const {
  // What this process has measured counts before `ran` says so.
  return stated_.value_or(std::max(running_, step_time_ + save_time_) / static_cast<double>(failures_ + 1));
}

std::uint64_t SavePace::interval() const { return best_steps(step(), save(), between_failures()); }

}  // namespace orrery
