#pragma once

#include <cstddef>
#include <vector>

namespace orrery {

/// Signed error of a prediction, in percent of the measured value.
///
///     e = 100 (predicted - measured) / measured
///
/// Requires measured > 0.
[[nodiscard]] double error_pct(double predicted, double measured);

/// A summary of errors e_1 .. e_n, in percent.
///
///     mape    mean of |e_i|
///     median  of |e_i|; of an even number the mean of the two in the middle
///     p90     the ceil(0.9 n)-th smallest |e_i| (nearest rank)
///     max     largest |e_i|
///     bias    mean of e_i: above 0 where predictions are too slow or too large
///
/// All are 0 where n is 0.
struct ErrorSummary {
  std::size_t n = 0;
  double mape_pct = 0.0, median_pct = 0.0, p90_pct = 0.0, max_pct = 0.0, bias_pct = 0.0;
  friend bool operator==(const ErrorSummary&, const ErrorSummary&) = default;
};
[[nodiscard]] ErrorSummary summarize_errors(const std::vector<double>& errors_pct);

}  // namespace orrery
