#pragma once

#include <vector>

#include "exec/device/device.hpp"
#include "tests/unit/exec/kernel_memory.hpp"

// A kernel on a GPU, or its body on threads of the host, beside the kernel of
// exec/kernels/cpu.
namespace orrery::test {

/// Operands by value: what a kernel reads and what it leaves.
using Memories = std::vector<Memory>;

struct Case {
  Kernel kernel;
  Memories memories;
  std::vector<bool> accumulates;  ///< by operand; left out: none
  Workload workload;
  std::vector<Place> places = {};  ///< by operand; left out: whole
  const Mesh* mesh = nullptr;      ///< where the kernel asks who it is
  Rank rank{};
};

/// With the memories that are given, and the case's places.
[[nodiscard]] std::vector<Operand> operands_of(Case&, Memories&);
/// What a kernel on the GPU makes of them.  Requires that it has the kernel.
void run_on(Device& gpu, Case&, Memories&, KernelContext);
/// Both ways, and the largest difference of any operand relative to its size.
void compare(Case, double bound);

/// Two computations of one result differ by twice what each may be off.
[[nodiscard]] inline double bound(DType t) { return 2 * tolerance(t); }
[[nodiscard]] inline Memory values(DType t, std::uint64_t n, std::uint64_t stream) {
  return Memory::random(t, n, stream);
}
[[nodiscard]] inline Memory zeros(DType t, std::uint64_t n) { return Memory::of(t, std::vector<double>(n, 0.0)); }
/// Arithmetic of storage t: f64 in f64, else f32, whose row sums are kept in f32.
[[nodiscard]] inline DType wide(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace orrery::test
