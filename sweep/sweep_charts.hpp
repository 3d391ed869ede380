#pragma once

#include <vector>

#include "planner/study/study.hpp"
#include "sweep/measure.hpp"
#include "sweep/sweep_points.hpp"

namespace orrery {

/// Charts of a sweep.
///
/// Scaling curves: along x the devices, or the first key with several numbers where those do not vary; along y tokens
/// per second (over devices) or per second and GPU. A line for each value of the last key that varies, and a chart for
/// each combination of the others; at most 24 charts. Then, where two measures are asked for, all points and their
/// Pareto front.
[[nodiscard]] std::vector<Chart> sweep_charts(const SweepPoints&, const std::vector<SweptPoint>&,
                                              const std::vector<const SweepMeasure*>& pareto, const WholeRun&);

}  // namespace orrery
