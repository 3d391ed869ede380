#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>

#include "exec/kernels/cuda/product_notes.hpp"
#include "exec/kernels/device/part_rows.hpp"
#include "exec/kernels/device/reduction_share.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery::cuda {

/// Launches kernels on one stream, for sources that nvcc does not compile.
class KernelQueue final : public device::AroundLibrary {
 public:
  /// `own_products`: cuBLASLt is asked for none. The notes outlive it.
  KernelQueue(cudaStream_t stream, std::uint64_t shared_limit, bool own_products, ProductNotes&);
  ~KernelQueue() override;
  /// Requires has_kernel.
  void run(const Kernel&, std::span<const Operand>, const KernelContext&);
  void reduce(const ReductionShare&);
  [[nodiscard]] void* scratch(std::uint64_t bytes) override;
  void move(const device::MovedElements&) override;
  void move(const device::MovedSums&) override;
  /// Something else than kernels from here is given to the stream.
  void forget();
  [[nodiscard]] std::uint64_t held_bytes() const;

 private:
  struct Part;
  std::unique_ptr<Part> part_;
};

}  // namespace orrery::cuda
