#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/units_text.hpp"
#include "framework/deepspeed/parts.hpp"

// zero_optimization: what is sharded, where it waits, and in which pieces it travels.

namespace orrery {
namespace {

constexpr const char* table = "zero_optimization.";
std::string at(const char* key) { return std::string(table) + key; }

/// Elements of a bucket: of the file, or "auto", for which the Trainer takes hidden x hidden.
std::optional<double> elements(DeepSpeedKeys& k, const std::string& key) {
  if (!k.has(key)) return std::nullopt;
  if (!k.is_open(key)) return k.real(key);
  const ModelSpec* m = k.r.known_model();
  if (m == nullptr) return std::nullopt;
  return static_cast<double>(m->hidden) * static_cast<double>(m->hidden);
}

void read_buckets(DeepSpeedKeys& k, std::uint64_t stage, const DeepSpeedTypes& types) {
  LaunchReading& r = k.r;
  const auto bytes = [&](double n) {
    return fmt::format("\"{}\"", exact_text(Bytes::of(std::max(1.0, std::floor(n)) * types.bytes)));
  };
  constexpr double usual = 5e8;
  const std::string bucket = at("reduce_bucket_size");
  if (const auto n = elements(k, bucket); n && *n >= 0 && *n < 0x1p50)
    r.set(bucket, "plan.gradient_bucket", bytes(*n));
  else
    r.assume("plan.gradient_bucket", bytes(usual), "DeepSpeed's bucket is 500,000,000 gradients");
  const std::string overlap = at("overlap_comm");
  const bool by_default = stage == 3;  // zero/config.py, overlap_comm_valid
  if (const auto on = k.toggle(overlap))
    r.set(overlap, "plan.overlap_gradients", *on && stage > 0 ? "true" : "false");
  else
    r.assume("plan.overlap_gradients", by_default ? "true" : "false",
             by_default ? "DeepSpeed overlaps in ZeRO-3" : "DeepSpeed does not overlap below ZeRO-3 unless told to");
  const std::string ahead = at("stage3_prefetch_bucket_size");
  for (const std::string& key : {ahead, at("prefetch_bucket_size")}) {
    const auto n = elements(k, key);
    if (!n) continue;
    if (stage == 3)
      r.set(key, "plan.prefetch", *n > 0 ? "1" : "0");
    else
      r.without_effect(key, "it is for ZeRO-3");
  }
}

/// cpu or nvme, and empty for none.
std::string device(DeepSpeedKeys& k, const std::string& key) {
  if (!k.has(key) || k.is_open(key)) return "";
  const auto word = k.r.word(key, {"none", "cpu", "nvme"});
  if (!word || *word == "none") {
    if (word) k.r.take(key, "nothing is offloaded");
    return "";
  }
  return *word;
}

void read_offload(DeepSpeedKeys& k, std::uint64_t stage) {
  LaunchReading& r = k.r;
  const std::string states = at("offload_optimizer.device"), weights = at("offload_param.device");
  std::uint64_t eighths = 8;
  if (const auto ratio = k.real(at("offload_optimizer.ratio"))) {
    const std::string key = at("offload_optimizer.ratio");
    if (!(*ratio >= 0.0 && *ratio <= 1.0)) {
      r.error(key, "a ratio is from 0 to 1", {fmt::format("It is {}.", *ratio)});
      return;
    }
    eighths = static_cast<std::uint64_t>(std::llround(*ratio * 8.0));
    if (static_cast<double>(eighths) != *ratio * 8.0)
      r.refuse(key, fmt::format("{} of the states is no number of eighths", *ratio), fmt::format("{}/8", eighths));
    else
      r.take(key, fmt::format("{}/8 of the states", eighths));
  }
  std::string from = device(k, states);
  if (!from.empty()) {
    r.set(states, "plan.offload_states", std::to_string(eighths));
    if (from == "nvme" && eighths > 0) r.set(states, "plan.states_tier", "\"disk\"");
  }
  // The key of old files.
  if (const auto old = k.toggle(at("cpu_offload"))) {
    if (*old)
      r.set(at("cpu_offload"), "plan.offload_states", "8");
    else
      r.take(at("cpu_offload"), "nothing is offloaded");
  }
  if (k.toggle(at("offload_optimizer.super_offload")).value_or(false)) {
    r.refuse(at("offload_optimizer.super_offload"), "SuperOffload's order of updates is not in plans",
             "states in host memory");
  }
  const char* nearest = r.is_set("plan.offload_states") ? "states off the device, and weights on it" : "weights on it";
  std::string params = device(k, weights).empty() ? "" : weights;
  for (const char* old : {"cpu_offload_param", "cpu_offload_params"}) {
    const auto on = k.toggle(at(old));
    if (on && !*on) r.take(at(old), "weights stay");
    if (on.value_or(false)) params = at(old);
  }
  if (params.empty()) return;
  if (stage == 3)
    r.refuse(params, "plans with ZeRO-3 keep a rank's share of the weights on its device", nearest);
  else
    r.refuse(params, "DeepSpeed offloads weights in ZeRO-3 alone", nearest);
}

void read_beyond(DeepSpeedKeys& k) {
  LaunchReading& r = k.r;
  const auto on = [&](const char* key, const char* what, const char* nearest) {
    const std::string full = at(key);
    const auto value = k.toggle(full);
    if (value && *value) r.refuse(full, what, nearest);
    if (value && !*value) r.take(full, "off");
  };
  on("zero_quantized_weights", "quantised messages are not in plans", "messages in the model's type");
  on("zero_quantized_nontrainable_weights", "quantised messages are not in plans", "messages in the model's type");
  on("zero_quantized_gradients", "quantised messages are not in plans", "messages in the model's type");
  on("stage3_use_all_reduce_for_fetch_params", "all-reduces in place of gathers are not in plans", "all-gathers");
  on("use_all_reduce_for_fetch_params", "all-reduces in place of gathers are not in plans", "all-gathers");
  if (const auto hpz = k.whole(at("zero_hpz_partition_size"))) {
    if (*hpz > 1)
      r.refuse(at("zero_hpz_partition_size"), "a second copy of the weights within a node is not in plans",
               "plain ZeRO-3");
    else
      r.take(at("zero_hpz_partition_size"), "one partition");
  }
  if (const auto scatter = k.toggle(at("reduce_scatter"))) {
    if (*scatter)
      r.take(at("reduce_scatter"), "gradients are scattered");
    else
      r.refuse(at("reduce_scatter"), "ZeRO with all-reduces of gradients is not in plans", "reduce-scatters");
  }
  if (r.file().has("zero_optimization.zenflow")) {
    for (const LaunchValue& v : r.file().values) {
      if (v.key.starts_with("zero_optimization.zenflow"))
        r.refuse(v.key, "ZenFlow's late updates are not in plans", "updates at the end of each step");
    }
  }
}

}  // namespace

std::uint64_t read_deepspeed_zero(DeepSpeedKeys& k, std::uint64_t stage, const DeepSpeedTypes& types) {
  LaunchReading& r = k.r;
  read_offload(k, stage);
  read_beyond(k);
  // Without ZeRO the engine sums gradients itself: buckets of 5e8 behind the last backward pass (engine.py,
  // buffered_allreduce_fallback).
  if (stage > 0 || k.has(at("reduce_bucket_size")) || k.has(at("overlap_comm"))) {
    read_buckets(k, stage, types);
  } else {
    r.assume("plan.overlap_gradients", "false", "DeepSpeed sums gradients behind the backward pass without ZeRO");
  }
  std::uint64_t shard = 0;
  if (const auto mics = r.value(at("mics_shard_size")) ? r.integer(at("mics_shard_size")) : std::nullopt) {
    if (*mics > 0 && stage == 3)
      shard = static_cast<std::uint64_t>(*mics);
    else if (*mics > 0)
      r.error(at("mics_shard_size"), "MiCS needs ZeRO-3", {fmt::format("stage is {}.", stage)});
    else
      r.take(at("mics_shard_size"), "one shard group");
  }
  if (k.toggle(at("mics_hierarchical_params_gather")).value_or(false)) {
    r.refuse(at("mics_hierarchical_params_gather"), "gathers in two steps are not in plans", "gathers in one");
  }
  r.without_effect({"zero_optimization.allgather_partitions", "zero_optimization.allgather_bucket_size"},
                   "it cuts the gathers of updated weights");
  r.without_effect(
      {"zero_optimization.stage3_max_*", "zero_optimization.max_*",
       "zero_optimization.stage3_param_persistence_threshold", "zero_optimization.param_persistence_threshold",
       "zero_optimization.stage3_model_persistence_threshold", "zero_optimization.model_persistence_threshold",
       "zero_optimization.stage3_module_granularity_threshold", "zero_optimization.module_granularity_threshold"},
      "it bounds how much ZeRO-3 keeps gathered; plans gather each layer for its use");
  r.without_effect({"zero_optimization.sub_group_size", "zero_optimization.contiguous_gradients",
                    "zero_optimization.use_multi_rank_bucket_allreduce", "zero_optimization.round_robin_gradients",
                    "zero_optimization.offload_optimizer", "zero_optimization.offload_optimizer.*",
                    "zero_optimization.offload_param", "zero_optimization.offload_param.*",
                    "zero_optimization.cpu_offload_use_pin_memory", "zero_optimization.memory_efficient_linear",
                    "zero_optimization.fast_sharding_for_leaf_module", "zero_optimization.leaf_module",
                    "zero_optimization.leaf_module.*", "zero_optimization.ignore_unused_parameters",
                    "zero_optimization.legacy_stage1", "zero_optimization.enable_sanity_checks",
                    "zero_optimization.zeropp_loco_param", "zero_optimization.zeropp_loco_param.*"},
                   "it arranges buffers inside the optimizer");
  r.without_effect(
      {"zero_optimization.stage3_gather_16bit_weights_on_model_save",
       "zero_optimization.gather_16bit_weights_on_model_save",
       "zero_optimization.stage3_gather_fp16_weights_on_model_save", "zero_optimization.load_from_fp32_weights",
       "zero_optimization.elastic_checkpoint", "zero_optimization.pipeline_loading_checkpoint",
       "zero_optimization.override_module_apply", "zero_optimization.save_muon_momentum_buffer_in_memory",
       "zero_optimization.log_trace_cache_warnings"},
      "it is for checkpoints and messages");
  return shard;
}

}  // namespace orrery
