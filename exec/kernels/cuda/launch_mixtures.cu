#define ORRERY_INSTANTIATES
#include "exec/kernels/cuda/topics.cuh"

namespace orrery::device {
ORRERY_TOPIC(, run_expert_rows)
ORRERY_TOPIC(, run_gates)
ORRERY_TOPIC(, run_choices)
}  // namespace orrery::device
