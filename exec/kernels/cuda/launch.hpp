#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>

#include "exec/kernels/device/reduction_share.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery::cuda {

/// Launches kernels on one stream, for sources that nvcc does not compile.
class KernelQueue {
 public:
  KernelQueue(cudaStream_t stream, std::uint64_t shared_limit);
  ~KernelQueue();
  KernelQueue(const KernelQueue&) = delete;
  KernelQueue& operator=(const KernelQueue&) = delete;
  /// Requires has_kernel.
  void run(const Kernel&, std::span<const Operand>, const KernelContext&);
  void reduce(const ReductionShare&);
  /// Memory for one kernel's own use, in the stream's order; void at the next kernel.
  [[nodiscard]] void* scratch(std::uint64_t bytes);
  /// Something else than kernels from here is given to the stream.
  void forget();
  [[nodiscard]] std::uint64_t held_bytes() const;

 private:
  struct Part;
  std::unique_ptr<Part> part_;
};

}  // namespace orrery::cuda
