#pragma once

#include <cstdint>
#include <vector>

#include "exec/kernels/kernel_runner.hpp"

namespace orrery {

/// Elements of an operand that belong to one parameter tensor.
struct TensorRun {
  std::uint64_t tensor = 0;  ///< of the operand's segment
  std::uint64_t first = 0;   ///< in the operand
  std::uint64_t count = 0;
};

/// The parts of tensors that lie in an operand on a segment of a parameter table: at most one of each tensor, in the
/// table's order. Padding belongs to none. Requires a place with a table, and the context's mesh.
[[nodiscard]] std::vector<TensorRun> tensor_runs(const Operand&, const KernelContext&);

}  // namespace orrery
