#include "core/base/random.hpp"

#include <cmath>
#include <numbers>

namespace orrery {

double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  const double u = 1.0 - random_uniform(seed, stream, 2 * counter);  // (0, 1]: the logarithm is finite
  const double v = random_uniform(seed, stream, 2 * counter + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace orrery
