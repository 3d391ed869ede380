#include "exec/kernels/cuda/cuda_launcher.cuh"
#include "exec/kernels/device/tensor_flash.hpp"

namespace orrery::device {
template bool run_tensor_flash_of<DType::f16>(cuda::Launcher&, const Kernel&, const NamedOperands&,
                                              const KernelContext&);
}  // namespace orrery::device
