#include "core/base/checkpoint_interval.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

constexpr double e = 2.718281828459045;

/// 1 + W0(z) for p = sqrt(2 (e z + 1)) below 0.01, where the next term is below 1e-15 of it.
double above_branch_point(double p) {
  constexpr double c[] = {1.0, -1.0 / 3.0, 11.0 / 72.0, -43.0 / 540.0, 769.0 / 17280.0, -221.0 / 8505.0};
  double sum = 0.0;
  for (std::size_t i = std::size(c); i-- > 0;) sum = (sum + c[i]) * p;
  return sum;
}
constexpr double near_branch_point = 0.01;

}  // namespace

double lambert_w0(double z) {
  // -1/e has no double of its own: the nearest ones may lie a little below.
  ORRERY_ASSERT(e * z >= -1.0 - 1e-12, z);
  const double p = std::sqrt(std::max(0.0, 2.0 * (e * z + 1.0)));
  if (p < near_branch_point) return above_branch_point(p) - 1.0;
  double w = z < 1.0 ? p / (1.0 + p / 3.0) - 1.0 : std::log(z) - (z > e ? std::log(std::log(z)) : 0.0);
  for (int i = 0; i < 50; ++i) {
    const double grown = std::exp(w);
    const double miss = w * grown - z;
    const double next = w - miss / (grown * (w + 1.0) - (w + 2.0) * miss / (2.0 * w + 2.0));
    const bool settled = std::abs(next - w) <= 1e-15 * std::max(1e-300, std::abs(next));
    w = next;
    if (settled) break;
  }
  return w;
}

Seconds optimal_interval(Seconds mean_time_between_failures, Seconds save) {
  const double m = mean_time_between_failures.base(), x = save.base() / m;
  ORRERY_ASSERT(m > 0.0 && x >= 0.0, m, x);
  // e z + 1 = 1 - e^-x, here without cancellation.
  const double p = std::sqrt(-2.0 * std::expm1(-x));
  return (p < near_branch_point ? above_branch_point(p) : 1.0 + lambert_w0(-std::exp(-1.0 - x))) *
         mean_time_between_failures;
}

std::uint64_t steps_between_saves(Seconds mean_time_between_failures, Seconds save, Seconds step) {
  ORRERY_ASSERT(step.base() > 0.0, step.base());
  constexpr double most = 1e15;  // steps; no run has as many
  const double wanted = optimal_interval(mean_time_between_failures, save) / step;
  const double below = std::clamp(std::floor(wanted), 1.0, most);
  const auto kept = [&](double steps) {
    return steps / std::expm1((steps * step + save) / mean_time_between_failures);
  };
  return static_cast<std::uint64_t>(kept(below + 1.0) > kept(below) ? below + 1.0 : below);
}

}  // namespace orrery
