#include "validate/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"

namespace orrery {

double error_pct(double predicted, double measured) {
  ORRERY_ASSERT(measured > 0.0, measured);
  return 100.0 * (predicted - measured) / measured;
}

ErrorSummary summarize_errors(const std::vector<double>& errors) {
  ErrorSummary s;
  s.n = errors.size();
  if (errors.empty()) return s;
  const auto n = static_cast<double>(errors.size());
  std::vector<double> sizes;
  for (const double e : errors) {
    sizes.push_back(std::abs(e));
    s.mape_pct += std::abs(e) / n;
    s.bias_pct += e / n;
  }
  std::sort(sizes.begin(), sizes.end());
  const std::size_t middle = sizes.size() / 2;
  s.median_pct = sizes.size() % 2 == 1 ? sizes[middle] : 0.5 * (sizes[middle - 1] + sizes[middle]);
  s.p90_pct = sizes[(9 * sizes.size() + 9) / 10 - 1];  // ceil(0.9 n), in whole numbers
  s.max_pct = sizes.back();
  return s;
}

}  // namespace orrery
