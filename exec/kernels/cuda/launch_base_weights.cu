#define ORRERY_INSTANTIATES
#include "exec/kernels/cuda/topics.cuh"

namespace orrery::device {
ORRERY_TOPIC(, run_base_weights)
}  // namespace orrery::device
