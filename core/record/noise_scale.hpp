#pragma once

#include <cstdint>
#include <optional>

namespace orrery {

/// The gradient noise scale, from the squared norms of gradients over two batch sizes.
///
///     |G|^2 = (B' |g'|^2 - B |g|^2) / (B' - B)        S = (|g|^2 - |g'|^2) / (1/B - 1/B')        scale = S / |G|^2
///
///     B, g    sequences of the small batch, and the mean gradient over them
///     B', g'  the same of the large batch
///     G       the true gradient     S  trace of the covariance of the gradient of one sequence
///
/// Both are unbiased for every step. Their quotient is not, so each is averaged over steps first. The scale is about
/// the batch beyond which larger ones save few steps.
///
/// Source: McCandlish, Kaplan, Amodei and the OpenAI Dota Team, "An empirical model of large-batch training",
/// arXiv:1812.06162, 2018, appendix A.1.
/// Leaves out: that the gradient changes during the steps; the paper averages with decay.
class NoiseScale {
 public:
  /// Requires 0 < small batch < large batch.
  NoiseScale(double small_batch, double large_batch) : small_(small_batch), large_(large_batch) {}

  /// Squared norms of one step. Those that are not finite, as where a loss scale was too large, do not count.
  void add(double small_square, double large_square);

  /// In sequences; empty before the first step, and while noise hides the gradient (|G|^2 <= 0) or there is none (S <
  /// 0).
  [[nodiscard]] std::optional<double> scale() const;
  [[nodiscard]] double true_square() const { return sum_true_ / static_cast<double>(steps_); }  ///< |G|^2, mean
  [[nodiscard]] double noise() const { return sum_noise_ / static_cast<double>(steps_); }       ///< S, mean
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  double small_, large_;
  double sum_true_ = 0.0, sum_noise_ = 0.0;
  std::uint64_t steps_ = 0;
};

}  // namespace orrery
