#pragma once

#include <functional>
#include <string>
#include <vector>

#include "validate/serving_case.hpp"
#include "validate/statistics.hpp"

namespace orrery {

/// Whether costs are fitted to the point: aggregated ones alone.
[[nodiscard]] bool is_fitted_to(const ServingCase&);

/// Costs of engines fitted to measured points of serving.
///
///     minimize  sum over points  2 d^2 (sqrt(1 + (r / d)^2) - 1) / s^2  +  sum over costs  ((x - x0) / w)^2
///     r = log(predicted / measured) of TPOT, and of TTFT where requests do not queue, with a tenth of the weight
///     x = log(value)   x0, w  the prior's logarithm and spread (EngineFigure)   s  0.1   d  0.1
///
/// The fit begins at the priors. Costs that all engines share are fitted to all points, an engine's own to its own.
/// Source: Levenberg and Marquardt on the pseudo-Huber loss (Charbonnier et al., IEEE Trans. Image Processing 6(2),
/// 1997), differences for derivatives. The same input gives the same bytes.
[[nodiscard]] EngineTable fit_engines(EngineTable, const std::vector<const ServingCase*>&);

/// Times of points, in their order, by costs that were fitted, from the priors on, to the points of all other groups
/// (those that is_fitted_to). `key` names a point's group. `go_on` gets the share done; false ends it.
[[nodiscard]] std::vector<ServingTimes> held_out(const EngineTable&, const std::vector<ServingCase>&,
                                                 const std::function<std::string(const ServingCase&)>& key,
                                                 const std::function<bool(double)>& go_on = {});

}  // namespace orrery
