#include "exec/device/cuda_calls.hpp"
#include "exec/kernels/cuda/cuda_device.hpp"

extern "C" __attribute__((visibility("default"))) const orrery::CudaCalls orrery_cuda_calls;
const orrery::CudaCalls orrery_cuda_calls = {orrery::CudaCalls::current, orrery::cuda::count_devices,
                                             orrery::cuda::identity_of, orrery::cuda::open_device};
