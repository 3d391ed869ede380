#pragma once

#include <span>

#include "exec/kernels/kernel_runner.hpp"

namespace orrery::device {

/// Whether a body of this folder computes the kernel; the others run on the host.
[[nodiscard]] bool has_kernel(const Kernel&, std::span<const Operand>);

}  // namespace orrery::device
