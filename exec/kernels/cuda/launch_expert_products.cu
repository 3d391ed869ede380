#define ORRERY_INSTANTIATES
#include "exec/kernels/cuda/topics.cuh"

namespace orrery::device {
ORRERY_TOPIC(, run_expert_products)
}  // namespace orrery::device
