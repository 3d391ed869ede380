#include "exec/kernels/device/host_launcher.hpp"
#include "exec/kernels/device/tensor_flash.hpp"

namespace orrery::device {
template bool run_tensor_flash_of<DType::bf16>(HostLauncher&, const Kernel&, const NamedOperands&,
                                               const KernelContext&);
template bool run_tensor_flash_of<DType::f16>(HostLauncher&, const Kernel&, const NamedOperands&, const KernelContext&);
}  // namespace orrery::device
