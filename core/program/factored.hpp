#pragma once

#include <cstdint>
#include <vector>

#include "core/program/buffer.hpp"

namespace orrery {

/// Where Adafactor's statistics of one parameter tensor stand in its segment.
///
/// A matrix [in, out] has one number for each row and one for each column, in that order. A vector has one for each
/// element, as a matrix of one row whose sum says nothing. The first dimension of a weight is `in`, the others together
/// are `out`. A tensor whose first dimension the expert axis cuts is one matrix for each expert, one after the other;
/// only the rank's own experts count. Rows and columns are those of the whole matrix, without padding. Every rank that
/// holds a part of the matrix has all its statistics.
struct FactoredTensor {
  const ParameterSlice* slice = nullptr;
  std::uint64_t matrices = 1;
  std::uint64_t rows = 0;  ///< of each matrix; 0: a vector
  std::uint64_t columns = 0;
  std::uint64_t first = 0;         ///< of its statistics
  std::uint64_t first_matrix = 0;  ///< of its matrices

  /// Statistics of one matrix.
  [[nodiscard]] std::uint64_t each() const { return rows + columns; }
};

struct FactoredSegment {
  std::vector<FactoredTensor> tensors;
  std::uint64_t count = 0;     ///< statistics
  std::uint64_t matrices = 0;  ///< vectors counted
  bool experts = false;        ///< ranks along the expert axis have others
};
[[nodiscard]] FactoredSegment factored(const ParameterTable&, const ParameterSegment&, const Mesh&);

}  // namespace orrery
