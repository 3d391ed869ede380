#include "exec/train/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

/// Precision (bits of the significand) and exponent range of a binary format.
struct Format {
  int digits;
  int least_exponent;  // of the smallest normal number
  double largest;
};

Format format_of(DType type) {
  switch (type) {
    case DType::f32: return {24, -126, static_cast<double>(std::numeric_limits<float>::max())};
    case DType::bf16: return {8, -126, 0x1.fep127};
    case DType::f16: return {11, -14, 65504.0};
    case DType::f8: return {4, -6, 448.0};  // E4M3
    case DType::f64:
    case DType::i32:
    case DType::u8: break;
  }
  ORRERY_ASSERT(false, type);
  return {};
}

}  // namespace

Matrix product(const Matrix& a, const Matrix& b) {
  ORRERY_ASSERT(a.columns == b.rows, a.columns, b.rows);
  Matrix c(a.rows, b.columns);
  for (std::uint64_t i = 0; i < a.rows; ++i) {
    for (std::uint64_t k = 0; k < a.columns; ++k) {
      const double x = a(i, k);
      for (std::uint64_t j = 0; j < b.columns; ++j) c(i, j) += x * b(k, j);
    }
  }
  return c;
}

Matrix product_transposed(const Matrix& a, const Matrix& b) {
  ORRERY_ASSERT(a.columns == b.columns, a.columns, b.columns);
  Matrix c(a.rows, b.rows);
  for (std::uint64_t i = 0; i < a.rows; ++i) {
    for (std::uint64_t j = 0; j < b.rows; ++j) {
      double sum = 0.0;
      for (std::uint64_t k = 0; k < a.columns; ++k) sum += a(i, k) * b(j, k);
      c(i, j) = sum;
    }
  }
  return c;
}

void add_transposed_product(Matrix& c, const Matrix& a, const Matrix& b) {
  ORRERY_ASSERT(a.rows == b.rows && c.rows == a.columns && c.columns == b.columns, c.rows, c.columns);
  for (std::uint64_t k = 0; k < a.rows; ++k) {
    for (std::uint64_t i = 0; i < a.columns; ++i) {
      const double x = a(k, i);
      for (std::uint64_t j = 0; j < b.columns; ++j) c(i, j) += x * b(k, j);
    }
  }
}

void add(Matrix& a, const Matrix& b) {
  ORRERY_ASSERT(a.values.size() == b.values.size(), a.values.size(), b.values.size());
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += b.values[i];
}

void multiply(Matrix& a, double factor) {
  for (double& x : a.values) x *= factor;
}

void add_to_rows(Matrix& a, const Matrix& row) {
  ORRERY_ASSERT(row.values.size() == a.columns, row.values.size(), a.columns);
  for (std::uint64_t i = 0; i < a.rows; ++i) {
    for (std::uint64_t j = 0; j < a.columns; ++j) a(i, j) += row.values[j];
  }
}

void add_column_sums(Matrix& row, const Matrix& a) {
  ORRERY_ASSERT(row.values.size() == a.columns, row.values.size(), a.columns);
  for (std::uint64_t i = 0; i < a.rows; ++i) {
    for (std::uint64_t j = 0; j < a.columns; ++j) row.values[j] += a(i, j);
  }
}

double rounded(double x, DType type) {
  if (type == DType::f64 || x == 0.0 || !std::isfinite(x)) return x;
  const Format format = format_of(type);
  const int exponent = std::max(std::ilogb(x), format.least_exponent);
  // Scaling by a power of two is exact, and nearbyint breaks ties to even.
  const double unit = std::ldexp(1.0, exponent - (format.digits - 1));
  const double nearest = std::nearbyint(x / unit) * unit;
  if (std::abs(nearest) > format.largest) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return nearest;
}

void round_in_blocks(std::vector<double>& values, DType type, std::size_t block) {
  const double largest = format_of(type).largest;
  for (std::size_t first = 0; first < values.size(); first += block) {
    const std::size_t end = std::min(values.size(), first + block);
    double most = 0.0;
    for (std::size_t i = first; i < end; ++i) most = std::max(most, std::abs(values[i]));
    const double scale = rounded(most / largest, DType::f32);
    for (std::size_t i = first; i < end; ++i) {
      // Rounding the scale may carry the largest value a little beyond the type's range.
      values[i] = scale == 0.0 ? 0.0 : scale * rounded(std::clamp(values[i] / scale, -largest, largest), type);
    }
  }
}

ParameterSet rounded(const ParameterSet& set, DType type) {
  ParameterSet result = set;
  for (auto& [name, tensor] : result) {
    for (double& x : tensor.values) x = rounded(x, type);
  }
  return result;
}

}  // namespace orrery
