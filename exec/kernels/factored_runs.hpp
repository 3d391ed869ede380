#pragma once

#include <cstdint>
#include <vector>

#include "core/program/factored.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery {

/// The segment that an operand with a place is part of, and its statistics.
[[nodiscard]] FactoredSegment factored_segment(const Operand&, const KernelContext&);

/// Elements of an operand that belong to one tensor: their place in the rank's box of it, and its statistics. The
/// members are plain numbers, so that a kernel on a GPU can get them.
struct FactoredRun {
  static constexpr std::uint32_t max_dims = 4;
  std::uint64_t first = 0;  ///< in the operand
  std::uint64_t count = 0;
  std::uint64_t box_first = 0;          ///< in the rank's box
  std::uint64_t rows = 1, columns = 1;  ///< of a matrix in the rank's box; a vector has one row
  std::uint64_t first_row = 0;          ///< of the whole matrix
  std::uint64_t valid_rows = 1;         ///< of the whole matrix, without padding
  std::uint32_t dims = 0;               ///< for the columns: where the box begins, its sizes, and the whole's sizes
  std::uint64_t offset[max_dims]{}, extent[max_dims]{}, valid[max_dims]{};
  std::uint64_t matrices = 1;                   ///< of the tensor on this rank
  std::uint64_t all_rows = 0, all_columns = 0;  ///< statistics of each; no rows: a vector
  std::uint64_t statistics = 0;                 ///< where the first matrix's begin in the segment's
  std::uint64_t norms = 0;                      ///< likewise its norm
};

/// At most one run of each tensor in the operand's segment, in the segment's order. Requires a place with a table, and
/// the context's mesh.
[[nodiscard]] std::vector<FactoredRun> factored_runs(const Operand&, const FactoredSegment&, const KernelContext&);

}  // namespace orrery
