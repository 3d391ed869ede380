#define ORRERY_INSTANTIATES
#include "exec/kernels/cuda/topics.cuh"

namespace orrery::device {
ORRERY_TOPIC(, run_query_key_norms)
ORRERY_TOPIC(, run_latent_heads)
ORRERY_TOPIC(, run_attention_sinks)
ORRERY_TOPIC(, run_adapters)
ORRERY_TOPIC(, run_base_weights)
}  // namespace orrery::device
