#pragma once

#include "exec/kernels/cuda/cuda_launcher.cuh"
#include "exec/kernels/device/device_kernels.hpp"

/// The kernels are compiled topic by topic, each in a source of its own (launch_*.cu), side by side.
#define ORRERY_TOPIC(keyword, function)                                                                        \
  keyword template bool function<float>(cuda::Launcher&, const Kernel&, const NamedOperands&,                  \
                                        const KernelContext&);                                                 \
  keyword template bool function<double>(cuda::Launcher&, const Kernel&, const NamedOperands&,                 \
                                         const KernelContext&);

namespace orrery::device {

#if !defined(ORRERY_INSTANTIATES)
ORRERY_TOPIC(extern, run_elementwise)
ORRERY_TOPIC(extern, run_norms)
ORRERY_TOPIC(extern, run_embeddings)
ORRERY_TOPIC(extern, run_attention)
ORRERY_TOPIC(extern, run_flash_attention)
ORRERY_TOPIC(extern, run_losses)
ORRERY_TOPIC(extern, run_optimizer)
ORRERY_TOPIC(extern, run_trust_ratios)
ORRERY_TOPIC(extern, run_adafactor)
ORRERY_TOPIC(extern, run_query_key_norms)
ORRERY_TOPIC(extern, run_latent_heads)
ORRERY_TOPIC(extern, run_attention_sinks)
ORRERY_TOPIC(extern, run_adapters)
ORRERY_TOPIC(extern, run_base_weights)
ORRERY_TOPIC(extern, run_attention_parts)
ORRERY_TOPIC(extern, run_rearranging)
ORRERY_TOPIC(extern, run_ring_scores)
ORRERY_TOPIC(extern, run_expert_rows)
ORRERY_TOPIC(extern, run_gates)
ORRERY_TOPIC(extern, run_choices)
ORRERY_TOPIC(extern, run_expert_products)
#endif

}  // namespace orrery::device
