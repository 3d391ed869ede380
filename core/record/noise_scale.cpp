#include "core/record/noise_scale.hpp"

#include <cmath>

namespace orrery {

void NoiseScale::add(double small_square, double large_square) {
  if (!std::isfinite(small_square) || !std::isfinite(large_square)) return;
  sum_true_ += (large_ * large_square - small_ * small_square) / (large_ - small_);
  sum_noise_ += (small_square - large_square) / (1.0 / small_ - 1.0 / large_);
  ++steps_;
}

std::optional<double> NoiseScale::scale() const {
  if (steps_ == 0 || sum_true_ <= 0.0 || sum_noise_ < 0.0) return std::nullopt;
  return sum_noise_ / sum_true_;
}

}  // namespace orrery
