#include <fmt/format.h>

#include "framework/accelerate/parts.hpp"
#include "framework/deepspeed/keys.hpp"

// megatron_lm_config: src/accelerate/utils/dataclasses.py (MegatronLMPlugin) of huggingface/accelerate@16cb6eb8.

namespace orrery {

void read_accelerate_megatron(LaunchReading& r, LaunchSizes& sizes) {
  const std::string p = "megatron_lm_config.megatron_lm_";
  const auto size = [&](const char* name) -> std::optional<LaunchSizes::Size> {
    const std::string key = p + name;
    const auto value = r.whole(key, 1);
    return value ? std::optional(LaunchSizes::Size{*value, key}) : std::nullopt;
  };
  const auto on = [&](const char* name) { return r.toggle(p + name).value_or(false); };
  sizes.order = {"pipeline", "data", "expert", "context", "tensor"};
  if (const auto t = size("tp_degree")) sizes.tensor = *t;
  if (const auto s = size("pp_degree")) sizes.pipeline = *s;
  if (const auto c = size("context_parallel_size")) {
    sizes.context = *c;
    if (c->value > 1) {
      r.assume("plan.context", "\"ring\"", "Megatron-LM sends keys and values around");
      r.assume("plan.zigzag", "true", "Megatron-LM balances causal work");
    }
  }
  if (const auto e = size("expert_model_parallel_size")) sizes.expert = *e;
  if (const auto n = size("num_micro_batches")) sizes.accumulation = *n;
  if (const auto sharded = r.toggle(p + "use_distributed_optimizer"))
    r.set(p + "use_distributed_optimizer", "plan.zero_stage", *sharded ? "1" : "0");
  if (on("sequence_parallelism") && sizes.tensor.value > 1)
    r.set(p + "sequence_parallelism", "plan.sequence_parallel", "true");
  const auto granularity = r.word(p + "recompute_granularity", {"full", "selective"});
  if (granularity && *granularity == "full") r.set(p + "recompute_granularity", "plan.recompute", "\"full\"");
  if (on("use_custom_fsdp")) r.set(p + "use_custom_fsdp", "plan.zero_stage", "3");
  if (on("optimizer_cpu_offload")) r.set(p + "optimizer_cpu_offload", "plan.offload_states", "8");
  if (on("use_precision_aware_optimizer"))
    r.refuse(p + "use_precision_aware_optimizer", "optimizer states of types of their own are left open", "32 bits");
  if (r.value(p + "decoder_last_pipeline_num_layers") != nullptr)
    r.refuse(p + "decoder_last_pipeline_num_layers", "a last stage of its own size is not read here", "even stages");
  lay_out_experts(r, sizes, size("expert_tensor_parallel_size"));
  if (r.value(p + "num_layers_per_virtual_pipeline_stage") != nullptr)
    r.refuse(p + "num_layers_per_virtual_pipeline_stage", "virtual stages are not read here", "one stage on a rank");
  const auto real = [&](const char* name, const char* plan_key) {
    const auto value = r.real(p + name);
    if (value && *value > 0.0) r.set(p + name, plan_key, toml_real(*value));
  };
  if (const auto clip = r.real(p + "gradient_clipping"); clip && *clip > 0.0)
    r.set(p + "gradient_clipping", "workload.clip_norm", toml_real(*clip));
  real("hidden_dropout", "workload.hidden_dropout");
  real("attention_dropout", "workload.attention_dropout");
  const std::string all = p + "*";
  r.without_effect({"megatron_lm_config", all},
                   "Megatron-LM's flash kernels keep no scores, and the rest is for scripts");
}

}  // namespace orrery
