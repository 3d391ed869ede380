#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/units.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/workload.hpp"
#include "exec/calibrate/sample_programs.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

/// Rates of kernels on one core, with the spread of every point.
struct MeasuredRates {
  std::vector<KernelRate> rates;
  std::vector<double> spreads;
  std::vector<double> gaps;  ///< seconds between two ops of a step
};

/// The size of a step: layers, sequences, length, hidden.
struct StepSize {
  std::uint64_t layers, sequences, length, hidden;
};
/// How steps are run, and their sizes.
struct StepRuns {
  std::function<RunResult(const SampleProgram&, const DataSource&, const RunOptions&)> run;
  std::vector<StepSize> sizes;
  std::uint64_t heads = 4;
};

/// Measures matrix products over a grid of rows, columns and depth, in the three transpositions that training uses, one
/// shape after the other.
void measure_gemm(Precision, MeasuredRates&);

/// Measures attention of both kernel sets over sequence lengths and head sizes.
void measure_attention(Precision, MeasuredRates&);

/// Runs training steps of several sizes on one rank and reads off
///   every kernel but matrix products and attention: its rate over its bytes;
///   these two: how much slower they are amid a step, where caches hold other
///   things, than alone; their tables, measured before, are scaled by that;
///   the gap between ops.
void measure_steps(Precision, MeasuredRates&);
void measure_steps(Precision, const StepRuns&, MeasuredRates&);

}  // namespace orrery
