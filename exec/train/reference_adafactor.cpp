#include "exec/train/reference_adafactor.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

FactoredMoments adafactor_moments(const ModelSpec& model, const ReferenceParameter& p) {
  const bool experts = p.name.find(".experts.") != std::string::npos;
  const std::uint64_t matrices = experts ? model.mixture->experts : 1;
  const bool vector = !p.decay;
  return {Matrix(matrices, vector ? 0 : p.rows / matrices), Matrix(matrices, p.columns)};
}

void adafactor_step(const ReferenceParameter& p, const std::vector<double>& gradient, double rate, double decay,
                    double t, FactoredMoments& moments, std::vector<double>& x) {
  const double b = 1.0 - std::pow(t, -0.8);
  const std::uint64_t matrices = moments.columns.rows, columns = p.columns, rows = p.rows / matrices;
  for (std::uint64_t m = 0; m < matrices; ++m) {
    const double* g = gradient.data() + m * rows * columns;
    double* const at = x.data() + m * rows * columns;
    double* const C = moments.columns.values.data() + m * columns;
    double* const R = moments.rows.values.data() + m * moments.rows.columns;
    std::vector<double> u(rows * columns);
    if (moments.rows.columns == 0) {
      for (std::uint64_t j = 0; j < columns; ++j) {
        C[j] = b * C[j] + (1.0 - b) * (g[j] * g[j] + 1e-30);
        u[j] = g[j] / std::sqrt(C[j]);
      }
    } else {
      double sum = 0.0;
      for (std::uint64_t i = 0; i < rows; ++i) {
        double squares = 0.0;
        for (std::uint64_t j = 0; j < columns; ++j) squares += g[i * columns + j] * g[i * columns + j] + 1e-30;
        R[i] = b * R[i] + (1.0 - b) * squares;
        sum += R[i];
      }
      for (std::uint64_t j = 0; j < columns; ++j) {
        double squares = 0.0;
        for (std::uint64_t i = 0; i < rows; ++i) squares += g[i * columns + j] * g[i * columns + j] + 1e-30;
        C[j] = b * C[j] + (1.0 - b) * squares;
      }
      for (std::uint64_t i = 0; i < rows; ++i) {
        for (std::uint64_t j = 0; j < columns; ++j)
          u[i * columns + j] = g[i * columns + j] / std::sqrt(R[i] / sum * C[j]);
      }
    }
    double mean = 0.0;
    for (const double v : u) mean += v * v / static_cast<double>(u.size());
    const double scale = 1.0 / std::max(1.0, std::sqrt(mean));
    for (std::uint64_t i = 0; i < u.size(); ++i) at[i] -= rate * (scale * u[i] + decay * at[i]);
  }
}

}  // namespace orrery
