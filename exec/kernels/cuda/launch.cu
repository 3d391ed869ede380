#include "exec/kernels/cuda/cuda_launcher.cuh"
#include "exec/kernels/cuda/launch.hpp"
#include "exec/kernels/cuda/topics.cuh"
#include "exec/kernels/device/device_kernels.hpp"
#include "exec/kernels/device/reduction.hpp"

namespace orrery::cuda {

struct KernelQueue::Part {
  Launcher launcher;
  device::KeptSums kept{};
};

KernelQueue::KernelQueue(cudaStream_t stream, std::uint64_t shared_limit, bool own_products, ProductNotes& notes)
    : part_(new Part{Launcher(stream, shared_limit, own_products, notes)}) {}
KernelQueue::~KernelQueue() = default;

void KernelQueue::run(const Kernel& kernel, std::span<const Operand> operands, const KernelContext& context) {
  if (kernel.compute == DType::f64) {
    device::launch_kernel<double>(part_->launcher, part_->kept, kernel, operands, context);
  } else {
    device::launch_kernel<float>(part_->launcher, part_->kept, kernel, operands, context);
  }
}

void KernelQueue::forget() { part_->kept = {}; }
void KernelQueue::reduce(const ReductionShare& share) {
  forget();
  device::launch_reduction(part_->launcher, share);
}
void* KernelQueue::scratch(std::uint64_t bytes) {
  forget();
  return part_->launcher.scratch(bytes);
}
void KernelQueue::move(const device::MovedElements& x) { device::launch(part_->launcher, x); }
void KernelQueue::move(const device::MovedSums& x) { device::launch(part_->launcher, x); }
std::uint64_t KernelQueue::held_bytes() const { return part_->launcher.held_bytes(); }

}  // namespace orrery::cuda
