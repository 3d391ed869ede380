#pragma once

#include <cstdint>

#include "core/program/kernel.hpp"

namespace orrery {

/// Neighbouring columns of one of the matrices of a product that have adapters.
struct AdapterPiece {
  std::uint64_t matrix;  ///< among the adapted ones
  std::uint64_t column;  ///< of the results
  std::uint64_t at;      ///< column of the factor
  std::uint64_t columns;
  bool first;  ///< of its matrix
};

/// Calls visit(AdapterPiece) for all pieces: each matrix has its own inputs and its own columns of the result, which
/// stand in a piece for each block of a packed result (core/program/kernel.hpp).
template <class Visit>
void for_each_adapter_piece(const Kernel& k, Visit&& visit) {
  std::uint64_t at = 0;
  for (std::uint64_t block = 0; block < k.kv_heads; ++block) {
    std::uint64_t column = block * k.heads * k.head_dim, matrix = 0;
    for (std::uint32_t m = 0; m < k.batch; ++m) {
      const std::uint64_t columns = std::uint64_t{m == 0 ? k.heads - (k.batch - 1) : 1} * k.head_dim;
      if ((k.site >> m & 1) != 0) {
        visit(AdapterPiece{matrix++, column, at, columns, block == 0});
        at += columns;
      }
      column += columns;
    }
  }
}

}  // namespace orrery
