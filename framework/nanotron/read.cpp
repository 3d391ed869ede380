#include <fmt/format.h>

#include <algorithm>

#include "framework/launch/launch_sizes.hpp"
#include "framework/nanotron/reading.hpp"
#include "framework/nanotron/stages.hpp"

// Mesh, batch, pipeline and memory of a nanotron configuration. Source: huggingface/nanotron@2411b022,
// src/nanotron/config/parallelism_config.py, src/nanotron/parallel/context.py, src/nanotron/nn/ring_attention.py.

namespace orrery {

bool is_nanotron_yaml(const LaunchFile& file) {
  return file.has("model.model_config") && (file.has("parallelism") || file.has("tokens"));
}

void read_nanotron_yaml(LaunchReading& r) { NanotronReading(r).read(); }

void NanotronReading::read() {
  if (!model()) return;
  sizes();
  context();
  pipeline();
  memory();
  precision();
  optimizer();
  learning_rate();
  no_effects();
}

void NanotronReading::set_or_assume(std::string_view key, std::string_view plan_key, const std::string& toml) {
  if (has(key)) {
    r_.set(key, plan_key, toml);
  } else {
    r_.assume(plan_key, toml, "nanotron's default");
  }
}

void NanotronReading::sizes() {
  LaunchSizes sizes;
  const auto size = [&](const char* key) {
    const auto value = r_.whole(key, 1);
    return value ? LaunchSizes::Size{*value, key} : LaunchSizes::Size{};
  };
  sizes.tensor = size("parallelism.tp");
  sizes.pipeline = size("parallelism.pp");
  sizes.context = size("parallelism.context_parallel_size");
  sizes.data = size("parallelism.dp");
  sizes.order = {"expert", "pipeline", "data", "context", "tensor"};
  constexpr const char* expert = "parallelism.expert_parallel_size";
  const bool mixture = r_.known_model()->mixture.has_value();
  if (const auto ranks = size(expert); mixture && ranks.value > 1) {
    sizes.expert = ranks;
    r_.refuse(expert, "expert ranks that see the same sequences are not in plans",
              "expert ranks that see other ones, and a batch that is larger by as much");
  } else if (!ranks.from.empty()) {
    r_.without_effect(expert, mixture ? "each rank has all experts" : "the model has no experts");
  }
  for (const char* key :
       {"tokens.micro_batch_size", "tokens.batch_accumulation_per_replica", "tokens.sequence_length"}) {
    const auto value = r_.whole(key, 1);
    if (!value) continue;
    const LaunchSizes::Size given{*value, key};
    if (key == std::string_view("tokens.micro_batch_size")) sizes.micro = given;
    if (key == std::string_view("tokens.batch_accumulation_per_replica")) sizes.accumulation = given;
    if (key == std::string_view("tokens.sequence_length")) sizes.sequence = given;
  }
  put_sizes(r_, sizes);
  const auto words = {std::string_view("ALL_REDUCE"), std::string_view("REDUCE_SCATTER")};
  const auto mode = r_.word("parallelism.tp_mode", words);
  if (sizes.tensor.value == 1) {
    r_.without_effect({"parallelism.tp_mode", "parallelism.tp_recompute_allgather"}, "the tensor axis has one rank");
  } else {
    set_or_assume("parallelism.tp_mode", "plan.sequence_parallel", mode == "REDUCE_SCATTER" ? "true" : "false");
    const bool again = r_.toggle("parallelism.tp_recompute_allgather").value_or(true);
    if (!again && mode == "REDUCE_SCATTER") {
      r_.refuse("parallelism.tp_recompute_allgather", "gathered inputs that are kept are not in plans",
                "inputs gathered again in the backward pass");
    }
    if (mixture) {
      r_.refuse("parallelism.tp", "experts that every tensor rank has whole are not in plans",
                "experts cut by tensor ranks");
    }
  }
  r_.without_effect({"parallelism.tp_recompute_allgather"}, "inputs are gathered again in the backward pass");
}

void NanotronReading::context() {
  constexpr const char* key = "model.model_config._attn_implementation";
  const std::string kernel = r_.text(key).value_or("flash_attention_2");
  r_.assume("plan.attention", "\"flash\"", "nanotron's attention is fused");
  if (r_.plan_number("mesh.context", 1) == 1) {
    if (has(key)) r_.take(key, "fused attention");
    r_.without_effect({"model.model_config.ring_attn_heads_k_stride"}, "the context axis has one rank");
    return;
  }
  if (kernel.starts_with("ring")) {
    r_.set(key, "plan.context", "\"ring\"");
  } else {
    set_or_assume(key, "plan.context", "\"all_gather\"");
    if (kernel != "llama3_ring_attention") {
      r_.refuse(key, fmt::format("{} has no context axis", kernel.substr(0, 40)),
                "keys and values gathered, as llama3_ring_attention does");
    }
  }
  r_.without_effect({"model.model_config.ring_attn_heads_k_stride"}, "it says in how many messages keys are gathered");
  const std::uint64_t ranks = r_.plan_number("mesh.context", 1), sequence = r_.plan_number("workload.sequence", 0);
  if (r_.known_model()->mixture && sequence > 0 && sequence % ranks == 0) {
    r_.assume("workload.routing.kind", "\"balanced\"", "the file does not say which experts tokens visit");
    r_.assume("workload.routing.group", std::to_string(sequence / ranks), "each rank routes its own positions");
  }
}

void NanotronReading::pipeline() {
  const auto engine = r_.word("parallelism.pp_engine", {"1f1b", "afab"});
  set_or_assume("parallelism.pp_engine", "plan.schedule", engine == "1f1b" ? "\"1f1b\"" : "\"gpipe\"");
  const std::uint64_t stages = r_.plan_number("mesh.pipeline", 1);
  if (stages == 1) return;
  const auto layers = nanotron_stage_layers(*r_.known_model(), stages);
  if (!layers) {
    r_.refuse("parallelism.pp", "a stage in the middle has nothing", "stages that Orrery balances");
    return;
  }
  std::string list;
  for (const std::uint32_t n : *layers) list += fmt::format("{}{}", list.empty() ? "" : ", ", n);
  r_.assume("plan.stage_layers", "[" + list + "]", "as nanotron shares layers out");
}

void NanotronReading::memory() {
  const bool recompute = r_.toggle("parallelism.recompute_layer").value_or(false);
  set_or_assume("parallelism.recompute_layer", "plan.recompute", recompute ? "\"full\"" : "\"none\"");
  if (r_.toggle("parallelism.moe_layer_recompute").value_or(false) && !recompute) {
    r_.refuse("parallelism.moe_layer_recompute", "experts recomputed alone are not in plans", "nothing recomputed");
  }
  r_.without_effect({"parallelism.moe_layer_recompute"}, "layers are recomputed whole, or not");
  if (const auto g = r_.text("parallelism.recompute_granularity"); g && !g->empty()) {  // of older versions
    const bool full = g->starts_with("f") || g->starts_with("F");
    r_.set("parallelism.recompute_granularity", "plan.recompute", full ? "\"full\"" : "\"none\"");
    if (!full) {
      r_.take("parallelism.recompute_granularity", "fused attention keeps no scores to drop");
    }
  }
  constexpr const char* zero = "optimizer.zero_stage";
  const std::uint64_t data = r_.plan_number("mesh.data", 1), context = r_.plan_number("mesh.context", 1);
  if (const auto stage = r_.whole(zero, 0, 3)) {
    r_.set(zero, "plan.zero_stage", *stage == 0 ? "0" : "1");
    if (*stage > 1) r_.take(zero, "nanotron shards optimizer states alone, whatever the stage above 0");
    if (*stage > 0 && context > 1) {
      r_.refuse(zero, "states shared out along data alone are not in plans", "along data and context");
    }
  }
  constexpr const char* bucket = "model.ddp_bucket_cap_mb";
  if (data * context > 1) {
    const std::uint64_t mib = r_.whole(bucket, 1, 1U << 20).value_or(25);
    set_or_assume(bucket, "plan.gradient_bucket", fmt::format("\"{} MiB\"", mib));
    r_.assume("plan.overlap_gradients", "true", "DDP reduces beside the backward pass");
  } else {
    r_.without_effect({bucket}, "no ranks share gradients");
  }
}

}  // namespace orrery
