#include "exec/kernels/cuda/cuda_launcher.cuh"
#include "exec/kernels/device/plain_product.hpp"

namespace orrery::cuda {

void multiply_plainly(Launcher& l, const device::Product& p) { device::multiply_plainly(l, p); }

}  // namespace orrery::cuda
