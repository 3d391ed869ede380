#include "forecast/spare_nodes.hpp"

#include <cmath>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

/// Chance that a Poisson number is k, in logarithms so that large means do not underflow.
double poisson(double mean, double k) { return std::exp(k * std::log(mean) - mean - std::lgamma(k + 1.0)); }

/// Below it less than e^-50 of the chance lies, which no sum of doubles near 1 keeps (Chernoff's bound).
double first_of_sum(double mean) { return std::floor(std::fmax(0.0, mean - 10.0 * std::sqrt(mean))); }

}  // namespace

double mean_nodes_down(double nodes, double failures_per_node_second, Seconds repair) {
  return nodes * failures_per_node_second * repair.base();
}

std::uint64_t spares_for(double mean_down, double share) {
  ORRERY_ASSERT(mean_down >= 0.0 && share < 1.0, mean_down, share);
  if (mean_down == 0.0) return 0;
  double sum = 0.0;
  const double end = mean_down + 100.0 * std::sqrt(mean_down) + 100.0;  // beyond it nothing is left of the sum
  for (double k = first_of_sum(mean_down); k < end; k += 1.0) {
    sum += poisson(mean_down, k);
    if (sum >= share) return static_cast<std::uint64_t>(k);
  }
  return static_cast<std::uint64_t>(end);
}

double share_without_spare(double mean_down, std::uint64_t spares) {
  if (mean_down == 0.0) return 0.0;
  double sum = 0.0;
  for (double k = first_of_sum(mean_down); k <= static_cast<double>(spares); k += 1.0) sum += poisson(mean_down, k);
  return std::fmax(0.0, 1.0 - sum);
}

}  // namespace orrery
