#pragma once

#include <functional>
#include <vector>

#include "core/record/calibration.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Rates of kernels on this thread, with the spread of every point.
struct MeasuredRates {
  std::vector<KernelRate> rates;
  std::vector<double> spreads;
};

/// Matrix products over a grid of rows, columns and depth, in the three
/// transpositions that training uses.
void measure_gemm(Precision, MeasuredRates&);
/// Attention of both kernel sets over sequence lengths and head sizes.
void measure_attention(Precision, MeasuredRates&);
/// Every other kernel of a training step, over its bytes.
void measure_others(Precision, MeasuredRates&);

}  // namespace orrery
