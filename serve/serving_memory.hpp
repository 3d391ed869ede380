#pragma once

#include <cstdint>

#include "core/base/units.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "serve/serving_plan.hpp"

namespace orrery {

/// Weights that the fullest device of a replica holds.
///
///     W = L_s (A b + F b + E x b_e) + H,   L_s = ceil(layers / stages)
///
///     A  attention of a layer over `tensor` (keys and values are copied where there are more ranks than KV heads;
///        the narrow products of latent attention are whole on each)
///     F  dense or shared feed-forward weights over `tensor`, and the router, whole
///     E  experts over `expert` times the slices of each
///     b, b_e  bytes of a weight     H  embedding and head over `tensor`, in bf16; norms and biases in bf16, whole
///
/// Source: the layouts of Megatron-LM and of the engines' model files. Prediction modules are not served.
/// Leaves out: padding, copies in other layouts.
[[nodiscard]] Bytes serving_weights(const ModelSpec&, const ServingPlan&);

/// Keys and values of one sequence of `tokens` on one device.
///
///     grouped queries  2 max(1, h_kv / tp) d b  for each layer and token     latent  (r_kv + d_rope) b, on each rank
///     layers with a window or chunks of w keep the last w tokens
///
/// tokens are rounded up to whole blocks of `block`. With pipeline stages a device has the layers of the largest stage.
/// Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention", SOSP 2023;
/// DeepSeek-V2, 2024, section 2.1 (latent attention). Leaves out: scales of fp8 keys.
[[nodiscard]] Bytes kv_bytes(const ModelSpec&, const ServingPlan&, double tokens, std::uint32_t block = 16);

/// The same of all devices of an attention group of a replica, for one more token without a window: what a request
/// adds, or what travels to another pool.
[[nodiscard]] Bytes kv_bytes_per_token(const ModelSpec&, bool kv_fp8);

/// How an engine shares out a device's memory.
struct MemoryRule {
  double share = 0.9;        ///< of all memory, or of what weights leave
  bool of_the_rest = false;  ///< true: keys get `share` of what weights and buffers leave free
  Bytes held;                ///< context, graphs and buffers of activations
};

/// What a device of a replica holds.
struct ServingMemory {
  Bytes capacity, weights, held, kv;  ///< kv: room for keys and values; 0 where weights leave none
  [[nodiscard]] bool fits() const { return kv > Bytes{}; }
};
/// Room for keys and values: share of memory - W - held, or share (memory - W - held).
[[nodiscard]] ServingMemory serving_memory(const ModelSpec&, const ServingPlan&, const DeviceSpec&, const MemoryRule&);

/// Sequences of so many tokens each that fit a replica, over all its attention groups: the largest whole number with
/// B kv_bytes(tokens) <= kv.
[[nodiscard]] std::uint64_t sequences_that_fit(const ModelSpec&, const ServingPlan&, const ServingMemory&,
                                               double tokens);

}  // namespace orrery
