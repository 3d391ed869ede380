#include "forecast/save_count.hpp"

#include <cmath>

namespace orrery {

SaveCount::SaveCount(const SavePlan& s)
    : interval_(s.interval.base()),
      blocking_(s.blocking.base()),
      storage_more_(s.storage_every > 1 ? s.storage_blocking.base() - s.blocking.base() : 0.0),
      every_(static_cast<double>(s.storage_every)) {}

double SaveCount::to_storage(double saves) const { return every_ * std::floor(saves / every_); }

double SaveCount::end_of(double k) const {
  return k * (interval_ + blocking_) + (storage_more_ == 0.0 ? 0.0 : std::floor(k / every_) * storage_more_);
}

double SaveCount::ended(double x) const {
  if (!(x > 0.0)) return 0.0;
  double k = std::floor(x / (interval_ + blocking_ + storage_more_ / every_));
  // The mean length of a segment is off by less than two saves to storage, and division by rounding.
  while (k > 0.0 && end_of(k) > x) k -= 1.0;
  while (end_of(k + 1.0) <= x) k += 1.0;
  return k;
}

double SaveCount::time_for(double work) const {
  if (!(work > 0.0)) return 0.0;
  // A rounding error of work is no interval.
  const double whole = std::floor(work / interval_ * (1.0 + 1e-12));
  const double rest = work - whole * interval_;
  if (rest <= 1e-9 * interval_) return end_of(whole);
  return end_of(whole) + rest + blocking_;
}

}  // namespace orrery
