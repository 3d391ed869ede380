#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"

namespace orrery {

/// A dense row-major matrix in double: the only container of the single-device
/// reference.  Plain loops; nothing here is shared with exec/kernels.
struct Matrix {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(std::uint64_t r, std::uint64_t c) : rows(r), columns(c), values(r * c, 0.0) {}
  [[nodiscard]] double& operator()(std::uint64_t r, std::uint64_t c) { return values[r * columns + c]; }
  [[nodiscard]] double operator()(std::uint64_t r, std::uint64_t c) const { return values[r * columns + c]; }
  friend bool operator==(const Matrix&, const Matrix&) = default;
};

/// Tensors by full parameter name ("layers.3.attention.qkv.weight"), in global
/// shapes without padding.
using ParameterSet = std::map<std::string, Matrix>;

[[nodiscard]] Matrix product(const Matrix& a, const Matrix& b);             ///< a b
[[nodiscard]] Matrix product_transposed(const Matrix& a, const Matrix& b);  ///< a b^T
void add_transposed_product(Matrix& c, const Matrix& a, const Matrix& b);   ///< c += a^T b
void add(Matrix& a, const Matrix& b);                                       ///< a += b
void multiply(Matrix& a, double factor);                                    ///< a *= factor
void add_to_rows(Matrix& a, const Matrix& row);                             ///< every row of a += row [1, columns]
void add_column_sums(Matrix& row, const Matrix& a);                         ///< row [1, columns] += sum of a's rows

/// The nearest value of a floating type (ties to even), as a double; infinity beyond the largest finite value plus half
/// a unit. f64 returns x itself.
[[nodiscard]] double rounded(double x, DType);
[[nodiscard]] ParameterSet rounded(const ParameterSet&, DType);
/// Rounds every value to the nearest multiple of its block's scale by a number of the type. The scale is an f32 that
/// makes the largest of `block` neighbours the type's largest number.
void round_in_blocks(std::vector<double>&, DType, std::size_t block);

}  // namespace orrery
