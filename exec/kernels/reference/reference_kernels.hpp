#pragma once

#include <span>
#include <vector>

#include "exec/kernels/kernel_runner.hpp"

/// GEMM and attention as their definitions read: plain loops in double over
/// whole operands of any type.  The measure of exec/kernels/cpu, which blocks,
/// vectorises and skips; not used by a run.  Operands as in kernel_table.cpp.
namespace orrery::reference {

void gemm(const Kernel&, std::span<const Operand>);

/// The context of attention, which is the same for unfused and flash forward. Writes only the context; there is no
/// dropout. A logit for each head in `sinks` stands beside those of the keys.
void attention_forward(const Kernel&, const Operand& qkv, const Operand& context,
                       const std::vector<double>& sinks = {});
/// Writes only dqkv, and returns the gradients of the sinks; no dropout.
std::vector<double> attention_backward(const Kernel&, const Operand& dcontext, const Operand& qkv, const Operand& dqkv,
                                       const std::vector<double>& sinks = {});

}  // namespace orrery::reference
