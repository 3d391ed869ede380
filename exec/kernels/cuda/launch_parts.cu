#define ORRERY_INSTANTIATES
#include "exec/kernels/cuda/topics.cuh"

namespace orrery::device {
ORRERY_TOPIC(, run_attention_parts)
ORRERY_TOPIC(, run_rearranging)
ORRERY_TOPIC(, run_ring_scores)
}  // namespace orrery::device
