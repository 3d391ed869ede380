#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/program/program.hpp"
#include "exec/kernels/kernel_runner.hpp"
#include "exec/run/issue.hpp"

namespace orrery {

[[nodiscard]] inline const View& view_of(const OpRun& run, std::uint32_t i) {
  return run.block->views[run.op->views.first + i];
}
/// The first byte of the view of an issued op on this rank.
[[nodiscard]] std::byte* address_of(const Program&, const IssuedOp&, std::uint32_t view, Rank);
/// The operands of an issued Compute, with places where the kernel needs them.
void operands_of(const Program&, const IssuedOp&, const Kernel&, Rank, std::vector<Operand>&);

}  // namespace orrery
