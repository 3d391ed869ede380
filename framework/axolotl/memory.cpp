#include <algorithm>
#include <array>
#include <string>

#include "framework/axolotl/yaml.hpp"

// Attention, recomputation and activations. Source: axolotl-ai-cloud/axolotl@067b021c src/axolotl/utils/schemas
// (config.py, enums.py, training.py).

namespace orrery {
namespace {

void put_attention(LaunchReading& r, std::string_view key, const std::string& name) {
  if (name == "eager") {
    r.set(key, "plan.attention", "\"unfused\"");
    return;
  }
  r.set(key, "plan.attention", "\"flash\"");
  if (name == "fp8" || name.find("sage") != std::string::npos) {
    r.refuse(key, "attention in 8 bits is not in plans", "flash attention in 16 bits");
  } else if (name != "sdpa" && name != "flex_attention" && name != "xformers" &&
             name.find("flash") == std::string::npos) {
    r.error(key, "no kernel of attention is known by this name");
  }
}

void read_attention(LaunchReading& r) {
  constexpr std::array old{"flash_attention", "xformers_attention", "sdp_attention",
                           "flex_attention",  "sage_attention",     "eager_attention"};
  for (const std::string key : old) {
    const auto on = r.toggle(key);
    if (on.value_or(false))
      put_attention(r, key, key == "eager_attention" ? "eager" : key == "sage_attention" ? "sage" : "sdpa");
    else if (on)
      r.without_effect(key, "it is off");
  }
  if (const auto name = r.text("attn_implementation")) put_attention(r, "attn_implementation", *name);
  if (r.toggle("s2_attention").value_or(false)) {
    r.set("s2_attention", "plan.attention", "\"flash\"");
    r.refuse("s2_attention", "attention in shifted groups is not in plans", "attention over the whole sequence");
  }
  r.assume("plan.attention", "\"flash\"", "PyTorch's fused attention, as transformers takes it by itself");
}

void offload(LaunchReading& r, std::string_view key, bool disk) {
  if (r.is_set("workload.adapters.rank")) {
    r.refuse(key, "activations off the device beside adapters are not in plans", "activations on the device");
    return;
  }
  r.set(key, "plan.offload_activations", "8");
  if (disk) r.set(key, "plan.activations_tier", "\"disk\"");
}

void read_recomputation(LaunchReading& r) {
  if (const auto word = r.word("gradient_checkpointing", {"true", "false", "offload", "offload_disk", "unsloth"})) {
    if (*word == "false")
      r.take("gradient_checkpointing", "nothing is recomputed");
    else
      r.set("gradient_checkpointing", "plan.recompute", "\"full\"");
    if (*word == "offload" || *word == "unsloth" || *word == "offload_disk") {
      offload(r, "gradient_checkpointing", *word == "offload_disk");
    }
  }
  if (const auto word = r.word("activation_offloading", {"true", "false", "legacy", "disk", "hidden_states"})) {
    if (*word == "false")
      r.take("activation_offloading", "activations stay on the device");
    else
      offload(r, "activation_offloading", *word == "disk");
  }
  bool selective = r.value("selective_checkpointing") != nullptr && r.toggle("selective_checkpointing").value_or(false);
  std::string at = "selective_checkpointing";
  for (const LaunchValue& v : r.file().values) {
    if (!v.key.starts_with("selective_checkpointing.")) continue;
    r.take(v.key, "");
    at = v.key;
    selective = true;
  }
  if (selective) r.refuse(at, "layers recomputed but for their attention are not in plans", "layers recomputed whole");
  r.without_effect({"selective_checkpointing"}, "it is off");
}

}  // namespace

void read_axolotl_memory(LaunchReading& r) {
  read_attention(r);
  read_recomputation(r);
  const auto refuse_where_on = [&](const char* key, const char* what, const char* nearest) {
    const auto on = r.toggle(key);
    if (on.value_or(false))
      r.refuse(key, what, nearest);
    else if (on)
      r.without_effect(key, "it is off");
  };
  refuse_where_on("tiled_mlp", "a feed-forward block in tiles of positions is not in plans", "the block at once");
  refuse_where_on("layer_offloading", "weights that leave the device between a layer's uses need no master copies here",
                  "weights on the device");
  refuse_where_on("deepcompile", "passes of a compiler over ZeRO are not in plans", "ZeRO without them");
  refuse_where_on("auto_find_batch_size", "a batch found by trial is not in plans", "the batch that the file has");
  r.without_effect({"tiled_mlp_num_shards", "tiled_mlp_use_original_mlp"}, "of tiled_mlp");
  r.without_effect(
      {"flex_attn_compile_kwargs", "flex_attn_compile_kwargs.*", "flash_attn_*", "flash_optimum", "scaling_softmax*",
       "fp32_norms", "fp32_norm_classes", "s2_attention", "gemma4_hybrid_attn_impl", "batch_flattening", "unsloth_*"},
      "of kernels, which are priced with the software");
}

}  // namespace orrery
