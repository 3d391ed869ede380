#pragma once

#include <cstdint>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "serve/number_format.hpp"

namespace orrery {

/// How one replica of a served model lies on devices, and in what numbers.
///
/// A replica has tensor x pipeline x attention_data devices. Attention and dense layers are cut into `tensor` parts,
/// for each of the attention_data groups, which serve different sequences. Experts lie over all tensor x attention_data
/// devices of a stage: `expert` groups hold different ones, and devices of a group hold slices of each.
struct ServingPlan {
  std::uint32_t tensor = 1;
  std::uint32_t pipeline = 1;
  std::uint32_t attention_data = 1;
  std::uint32_t expert = 1;
  WeightFormat weights = WeightFormat::bf16;  ///< of attention and dense feed-forward layers
  WeightFormat experts = WeightFormat::bf16;  ///< of experts
  bool kv_fp8 = false;                        ///< keys and values in fp8 in place of bf16

  [[nodiscard]] std::uint32_t devices() const { return tensor * pipeline * attention_data; }
  /// Devices that share one stage's layers.
  [[nodiscard]] std::uint32_t stage_devices() const { return tensor * attention_data; }
  friend bool operator==(const ServingPlan&, const ServingPlan&) = default;
};

/// "tp 4, attention-dp 2, ep 8, fp8, KV fp8".
[[nodiscard]] std::string text_of(const ServingPlan&, const ModelSpec&);

/// Formats that a checkpoint of one name has. Four bits are for the experts alone where the model has some, as released
/// checkpoints have it (gpt-oss, Kimi-K2, NVIDIA's NVFP4 ones); attention, dense and shared layers are bf16 then.
/// Embedding, head, norms and routers are bf16 in all.
void set_formats(ServingPlan&, WeightFormat, const ModelSpec&);

/// Whether the model can be served so, whatever its speed. Codes:
///   serve.model    the model is only counted, or sees all positions (BERT, vision transformers)
///   serve.tensor   tensor does not divide heads, or the width of a feed-forward layer, or neither divides nor is a
///                  multiple of the KV heads
///   serve.expert   expert does not divide the devices of a stage or the experts; or the model has none
///   serve.pipeline more stages than layers
///   serve.devices  more devices than the cluster has
void check_serving_plan(const ServingPlan&, const ModelSpec&, const ClusterSpec&, Diagnostics&);

}  // namespace orrery
