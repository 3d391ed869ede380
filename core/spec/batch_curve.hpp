#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

// Statistical efficiency: how many steps a run takes with a larger batch. It is an input, since no machine tells it.

/// Steps with batch B over those of an endless batch, and examples over those of a small one.
///
///     S / S_min = 1 + B_crit / B        E / E_min = 1 + B / B_crit        (S / S_min - 1) (E / E_min - 1) = 1
///
///     B_crit  critical batch, in the unit of B
///
/// Source: McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv 1812.06162, section 2.
/// Leaves out: that B_crit grows during a run, learning rates that do not follow the batch.
[[nodiscard]] double steps_over_least(double batch, double critical);
[[nodiscard]] double examples_over_least(double batch, double critical);

/// A measured curve: the noise scale over a run's progress, which counts steps of the base batch.
struct BatchCurve {
  struct Row {
    double progress = 0.0;  ///< at its end
    double noise = 0.0;     ///< noise scale until then, in sequences
    friend bool operator==(const Row&, const Row&) = default;
  };
  double base_batch = 1.0;  ///< sequences
  std::vector<Row> rows;    ///< progress ascends
  friend bool operator==(const BatchCurve&, const BatchCurve&) = default;

  /// Steps of batch B to the end of the curve.
  ///
  ///     steps = sum of progress x (B0 / B) (phi + B) / (phi + B0)
  ///
  /// Source: Qiao et al., "Pollux", OSDI 2021, section 2.2: one step of batch B makes the progress of
  /// B / B0 (phi + B0) / (phi + B) steps of batch B0. The same as 1 + phi / B over 1 + phi / B0.
  [[nodiscard]] double steps_at(double batch) const;
  /// Examples of batch B over those of the base batch.
  [[nodiscard]] double examples_at(double batch) const;
};

/// Reads a table with the columns progress, grad_sqr and grad_var (others are not looked at): squared norm and variance
/// of the gradient of the base batch, which give its noise scale, B0 grad_var / grad_sqr.
/// Codes: batch.curve  csv.quote
[[nodiscard]] std::optional<BatchCurve> parse_batch_curve(const std::string& text, const std::string& file,
                                                          double base_batch, Diagnostics&);

}  // namespace orrery
