#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "validate/cost_file.hpp"
#include "validate/prepared_run.hpp"
#include "validate/statistics.hpp"

namespace orrery {

/// Constants of software, fitted to measured runs.
///
///     minimize  sum over runs  2 d^2 (sqrt(1 + (r / d)^2) - 1) / s^2  +  sum over constants  ((x - x0) / w)^2
///     r = log(measured / predicted)     x = log(value)
///
///     s   error that a run has anyway, 0.04        d   residual above which the loss grows as its size, 0.02
///     x0  logarithm of the prior                   w   its spread: few runs leave a value near the prior
///
/// s is 1.48 times the median residual that is left, which is the deviation of normal errors with that median. d is
/// half of it, because fits are judged by mean absolute errors, and some sources contradict others.
///
/// Source: Gauss-Newton on the pseudo-Huber loss (Charbonnier et al., IEEE Trans.
/// Image Processing 6(2), 1997) with normal priors; differences of the
/// estimator's own times stand for derivatives.
/// Leaves out: correlation between runs of one source.
struct Fit {
  std::vector<CostFile> files;  ///< with new values, errors and runs
  std::size_t free_constants = 0;
  std::size_t runs = 0;
  ErrorSummary in_sample;
  /// Errors of each run predicted from a fit without all runs of its architecture and size. The constants after that
  /// are those of the linearized problem, the times the estimator's.
  ErrorSummary held_out;
  std::vector<double> held_out_pct;  ///< by run, in the order of the runs that are consistent
  /// The same without all runs of its training program (the first label), and without all of its device. They tell what
  /// to expect of a program or a device without measurements.
  ErrorSummary without_program, without_device;
  ErrorSummary without_source;  ///< without all runs that the same page published
};

/// Fits every constant with a spread to runs whose times were measured. `go_on` gets the share done and stops the fit
/// by returning false; the result is empty then. The same input gives the same bytes.
[[nodiscard]] std::optional<Fit> fit_costs(const std::vector<PreparedRun>&, std::vector<CostFile> files,
                                           const std::function<bool(double)>& go_on = {});

/// Mean absolute error, in percent, of the runs that the constants of `files` have not seen. For runs that they were
/// fitted to, it is the held-out error in the file for all. A new fit must not be worse than this.
struct FitComparison {
  std::size_t unseen = 0;   ///< runs that `files` were not fitted to
  double before_pct = 0.0;  ///< error of these runs, or of all where none is unseen
  double after_pct = 0.0;   ///< the new fit's, held out, over the same runs
  std::size_t missing = 0;  ///< number of runs that `files` were fitted to and the new fit was not
  /// A new fit is also worse where runs are missing and none is new, because it knows less.
  [[nodiscard]] bool worse() const { return after_pct > before_pct + 1e-9 || (unseen == 0 && missing > 0); }
};
[[nodiscard]] FitComparison compare_fits(const std::vector<PreparedRun>&, const std::vector<CostFile>& before,
                                         const Fit&);

}  // namespace orrery
