#pragma once

#include <cstdint>

#include "core/program/program.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery {

/// The angles by which a kernel turns `features` features of a head: those of its table, or theta^(-2 i / features)
/// for pair i with theta = Kernel::parameter.
[[nodiscard]] Rotation rotation_of(const Kernel&, const KernelContext&, std::uint64_t features);

/// Features of a head that rope turns, the first ones.
[[nodiscard]] inline std::uint64_t rotating_features(const Kernel& k) { return k.depth > 0 ? k.depth : k.head_dim; }

}  // namespace orrery
