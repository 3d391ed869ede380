#include "forecast/checkpoint_interval.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"

namespace orrery {

Seconds young_interval(Seconds save, Seconds mean) { return Seconds::of(std::sqrt(2.0 * save.base() * mean.base())); }

Seconds daly_interval(Seconds save, Seconds mean) {
  const double x = save / (2.0 * mean);
  if (x >= 1.0) return mean;
  return (1.0 + std::sqrt(x) / 3.0 + x / 9.0) * young_interval(save, mean) - save;
}

Seconds best_interval(Seconds save, Seconds mean) {
  const double x = save / mean;
  if (x <= 0.0) return Seconds();
  // log(1 - u) + u + x falls and is concave, so Newton's method from the right of its root never passes it. Both starts
  // are right of it.
  double u = std::min(-std::expm1(-1.0 - x), std::sqrt(2.0 * x));
  for (int i = 0; i < 50; ++i) {
    const double next = u + (std::log1p(-u) + u + x) * (1.0 - u) / u;
    if (!(next < u)) break;
    u = next;
  }
  return u * mean;
}

double saved_efficiency(Seconds interval, Seconds save, Seconds until_it_counts, Seconds mean,
                        double undisturbed_restart) {
  const double segment = std::expm1((interval + save) / mean);
  return interval / mean * std::exp(-(until_it_counts / mean)) * undisturbed_restart / segment;
}

std::uint64_t best_steps(Seconds step, Seconds save, Seconds mean) {
  const double steps = best_interval(save, mean) / step;
  if (!(steps > 1.0)) return 1;
  constexpr double most = 0x1p53;
  const double below = std::floor(std::min(steps, most));
  const auto efficiency = [&](double n) { return saved_efficiency(n * step, save, Seconds(), mean, 1.0); };
  return static_cast<std::uint64_t>(efficiency(below) >= efficiency(below + 1.0) ? below : below + 1.0);
}

TwoLevelIntervals two_level_intervals(Seconds memory_save, Seconds storage_save, Seconds mean, double needs_storage) {
  ORRERY_ASSERT(needs_storage > 0.0 && needs_storage < 1.0, needs_storage);
  const Seconds often = mean / (1.0 - needs_storage), seldom = mean / needs_storage;
  TwoLevelIntervals out{young_interval(memory_save, often), young_interval(storage_save, seldom), 0.0};
  // At Young's interval both parts of the waste are equal.
  out.waste = out.memory / often + out.storage / seldom;
  return out;
}

}  // namespace orrery
