#pragma once

#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// By how much a run on this machine's cores differed from its prices.
struct MeasuredFactors {
  double products = 1.0;  ///< time of matrix products, measured over priced
  double others = 1.0;    ///< of all other kernels but attention
  double latency = 1.0;   ///< of messages
  double bytes = 1.0;     ///< time per byte of messages
};

/// The factors by which the prices of a Program's ops come closest to what its traces measured.
///
///     m_k  median time of the ops of price k, n_k their number, L_k and B_k its parts by latency and by bytes
///     kernels     factor = sum n m / sum n price
///     messages    latency, bytes = least squares of n ((m - latency L - bytes B) / m)^2, none below 0
///
/// Source: linear least squares of relative errors, so that small messages decide the latency; Hockney, Parallel
/// Computing 20(3), 1994, for the two parts.
/// Leaves out: attention, which has the factor of products or none; copies between tiers; kinds of nodes.
/// Requires ranks that share one node's cores, and traces of all ranks of the Program.
[[nodiscard]] MeasuredFactors measured_factors(const Program&, const PlannedRun&, const Calibration&,
                                               const std::vector<Trace>&);

/// The calibration with these factors. Where it has no rates of messages it gets those of the cluster's first network
/// level, so that latency and bytes can have factors of their own.
[[nodiscard]] Calibration scaled(const Calibration&, const ClusterSpec&, const MeasuredFactors&);

}  // namespace orrery
