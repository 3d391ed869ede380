#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "exec/run/execute.hpp"

namespace orrery::test {

struct NumericsOptions {
  double ignored = 0.0;  ///< share of targets that do not count
  /// Starting weights of order 1 in every tensor instead of the model's own
  /// start, whose zeros and small deviations hide biases and attention scores.
  /// Norm weights stay 1 outside fp64: random ones near 0 cancel digits.
  bool rough = true;
  std::uint64_t steps = 1;
  bool concurrent_lanes = false;         ///< of the execution
  bool traffic = true;                   ///< whether the execution counts the bytes that are sent
  std::function<void(Program&)> damage;  ///< applied to the lowered Program, to see whether it is noticed
  /// Runs the Program in place of execute(): another backend.
  std::function<RunResult(const Program&, const DataSource&, const RunOptions&)> execute;
};

/// Largest errors over all steps; an error is max|a-b| / max(max|b|, floor).
struct NumericsResult {
  std::vector<std::string> failures;  ///< one line per broken law; empty: the run is the oracle's
  double loss_error = 0.0;
  double gradient_error = 0.0;  ///< floor: 1e-3 of the rms of all gradients
  double gradient_share = 0.0;  ///< largest gradient error over its bound
  double ceiling_share = 0.0;   ///< 16 bit: largest gradient error over the ceiling, which no spread raises
  double condition = 0.0;       ///< 16 bit: condition number that the ceiling was raised to, where it was
  bool drowned = false;         ///< 16 bit: rounding outweighs a gradient, and the plan was held to fp32
  std::string worst_gradient;
  double update_error = 0.0;  ///< weights and moments after the update
  std::uint64_t skipped = 0;  ///< fp16: steps that overflowed
  std::vector<double> losses;
};

/// Lowers the run, executes it (on threads, unless the options say otherwise) and holds every step against the
/// single-device reference:
///
///   start     the ranks' weights are the reference's, bit for bit
///   step      loss, every gradient before clipping
///   update    weights, masters and moments are what the reference's rule makes
///             of the executed gradients (Adam divides by the size of the
///             gradient: its own errors are not comparable)
///   scalars   target count, step counter, loss scale
///   memory    every rank's peak bytes are the Program's, and so are the bytes sent
///
/// Each step starts from the executed state of the step before, so an error is
/// that of one step alone.
[[nodiscard]] NumericsResult check_numerics(const PlannedRun&, const NumericsOptions&);

/// The bound on gradient and loss errors by precision, u being the unit
/// roundoff.  The longest chain of a run here is 10 layers of some 30 rounded
/// results each, forward and back, and sums of at most about 600 products.
///
///   fp64  1e-10, about 1e6 u
///   fp32  2e-5, 335 u: as many roundings, were they all of one sign; of random
///         signs a twentieth of that, times what norms and cancellation enlarge
///         it by
///   bf16, fp16   u, and six times the spread that rounding alone causes in the
///         reference (StorageRounding, largest of three draws).  Two roundings
///         of one computation differ by about as much as either differs from
///         the exact result; the factor is for the tail over thousands of
///         tensors of a few elements (the median error is a quarter of it).
///         Never more than a ceiling that knows nothing of emulated rounding: a
///         fixed multiple of u sqrt(roundings on the way), or of u times the
///         exact reference's condition number where that is larger, of the
///         larger of max|b| and the rms of all gradients.  Bounds are of first
///         order in u: where an error exceeds one that is larger than the gradient
///         itself, they say nothing (on one device as well), and the same plan is
///         checked in fp32 instead; `drowned` says so, for sweeps to count.
[[nodiscard]] double gradient_bound(Precision);

}  // namespace orrery::test
