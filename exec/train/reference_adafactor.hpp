#pragma once

#include "core/spec/model_spec.hpp"
#include "exec/train/parameters.hpp"

namespace orrery {

/// Adafactor's second moments of one parameter, with a row for each of its matrices. Vectors have a mean for each
/// element and none for rows.
struct FactoredMoments {
  Matrix rows, columns;
};
[[nodiscard]] FactoredMoments adafactor_moments(const ModelSpec&, const ReferenceParameter&);

/// One step on one parameter, where G is the gradient after clipping (Shazeer and Stern, ICML 2018, algorithms 4 and 5;
/// the rate a is given, decay decoupled):
///
///     b = 1 - t^-0.8
///     R = b R + (1 - b) (row sums of G^2 + eps)      C likewise over columns
///     V = R C / sum of R          a vector: V = b V + (1 - b) (G^2 + eps)
///     U = G / sqrt(V),   X = X - a (U / max(1, RMS(U) / d) + decay X)
///
/// with eps = 1e-30 and d = 1.  Every expert has a matrix of its own.
void adafactor_step(const ReferenceParameter&, const std::vector<double>& gradient, double rate, double decay, double t,
                    FactoredMoments&, std::vector<double>& x);

}  // namespace orrery
