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
  std::vector<bool> rooms = {};    ///< by operand: a kernel's own room, which a GPU's kernel need not use
  std::uint64_t shared_limit = 0;  ///< bytes of a block on the host's threads, as a small GPU has; 0: the usual ones
};

/// Operands with the given memories, and the case's places.
[[nodiscard]] std::vector<Operand> operands_of(Case&, Memories&);
/// Runs the case's kernel on the GPU. Requires that the GPU has the kernel.
void run_on(Device& gpu, Case&, Memories&, KernelContext);
/// Computes both ways, and compares the largest difference of any operand relative to its size.
void compare(Case, double bound);

/// Two computations of one result differ by twice the error of each.
[[nodiscard]] inline double bound(DType t) { return 2 * tolerance(t); }
[[nodiscard]] inline Memory values(DType t, std::uint64_t n, std::uint64_t stream) {
  return Memory::random(t, n, stream);
}
[[nodiscard]] inline Memory zeros(DType t, std::uint64_t n) { return Memory::of(t, std::vector<double>(n, 0.0)); }
/// Type of the arithmetic for storage t: f64 for f64, otherwise f32, in which row sums are kept.
[[nodiscard]] inline DType wide(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace orrery::test
