#pragma once

#include <vector>

#include "validate/collective_curve_file.hpp"
#include "validate/collective_table.hpp"

namespace orrery {

/// A measured collective for a fit: its time by NCCL's model, and its measured time.
struct CurvePoint {
  Seconds modelled, measured;
  double weight = 1.0;
  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

/// Constants of a link fitted to measured collectives over it.
///
///     minimize  sum over points w 2 d^2 (sqrt(1 + (r / d)^2) - 1) + v |x - x0|^2
///
///     r   log(measured / curve(modelled))     w  weight of the point
///     d   0.05, residual above which a point counts less     x  logarithms of floor, stretch - 0.96, fill, fill_time
///     x0  those of 40 us, 1.02, 100 us, 200 us     v  0.0005
///
/// Source: pseudo-Huber loss, Charbonnier et al., IEEE Trans. Image Processing 6(2), 1997; minimum by the simplex
/// method of Nelder and Mead, Computer Journal 7(4), 1965, from several starts.  Same points, same result.
[[nodiscard]] LinkCurve fit_curve(const std::vector<CurvePoint>&);

/// A file for each curve that the table names, in order of their names. All-reduces and other collectives that NCCL
/// tunes give the curve, weights 4 from 64 MiB on, 1 from 1 MiB, 0.5 below; all-to-alls give `pairs`. Noisy rows, and
/// rows that cannot be predicted, do not count.
[[nodiscard]] std::vector<CurveFile> fit_curves(const std::vector<MeasuredCollective>&);

}  // namespace orrery
