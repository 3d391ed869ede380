#include <fmt/format.h>

#include <cmath>

#include "core/base/units_text.hpp"
#include "framework/colossal_ai/parts.hpp"

// Plugins of data parallelism: gemini_plugin.py, low_level_zero_plugin.py, torch_fsdp_plugin.py and
// torch_ddp_plugin.py of hpcaitech/ColossalAI@4f9953be, colossalai/booster/plugin.

namespace orrery {
namespace {

constexpr double mega = 1024.0 * 1024.0;

void put_bucket(const ColossalPlugin& p, const char* argument, double usual, double unit, const char* why) {
  const auto m = p.size(argument);
  const double amount = (m ? static_cast<double>(m->value) : usual) * unit;
  const std::string text = fmt::format("\"{}\"", exact_text(Bytes::of(amount)));
  if (m)
    p.r.set(m->from, "plan.gradient_bucket", text);
  else
    p.r.assume("plan.gradient_bucket", text, why);
}

void without_effect(const ColossalPlugin& p, std::initializer_list<const char*> arguments, const char* why) {
  for (const char* a : arguments) {
    const std::string key = p.at(a);
    p.r.without_effect({key}, why);
  }
}

/// extra_dp_size copies of what the other ranks shard.
void put_replicas(const ColossalPlugin& p, LaunchSizes& sizes) {
  const auto extra = p.size("extra_dp_size");
  if (extra) sizes.replica = *extra;
  sizes.order = {"replica", "data", "tensor"};
}

}  // namespace

void read_colossal_gemini(const ColossalPlugin& p, LaunchSizes& sizes) {
  LaunchReading& r = p.r;
  if (const auto t = p.size("tp_size")) sizes.tensor = *t;
  put_replicas(p, sizes);
  r.assume("plan.zero_stage", "3", "Gemini shards weights");
  r.assume("plan.overlap_gradients", p.on("enable_async_reduce", true) ? "true" : "false",
           "as enable_async_reduce says");
  if (p.value("enable_async_reduce") != nullptr) r.take(p.at("enable_async_reduce"), "whether gradients overlap");
  // Chunks hold a layer's weights, and gradients take over their memory (zero/gemini/chunk).
  if (r.options().gpus.value_or(2) > sizes.tensor.value * sizes.replica.value && !p.on("force_outputs_fp32"))
    r.assume("plan.parameter_chunk", "\"auto\"", "Gemini searches the size of its chunks");
  const auto ahead = r.whole(p.at("max_prefetch"));
  if (ahead)
    r.set(p.at("max_prefetch"), "plan.prefetch", *ahead > 0 ? "1" : "0");
  else
    r.assume("plan.prefetch", "0", "Gemini gathers nothing ahead unless told to");
  const auto placement = r.word(p.at("placement_policy"), {"static", "auto"});
  if (placement) r.take(p.at("placement_policy"), "how chunks are placed");
  const auto share = [&](const char* argument) { return r.real(p.at(argument)); };
  if (placement.value_or("static") == "auto") {
    r.refuse(p.at("placement_policy"), "chunks that move as memory allows are not in plans",
             "all chunks on the device");
    without_effect(p, {"shard_param_frac", "offload_optim_frac", "offload_param_frac"}, "placement_policy is auto");
  } else {
    if (const auto states = share("offload_optim_frac")) {
      const long long eighths = std::llround(*states * 8.0);
      if (*states < 0.0 || *states > 1.0)
        r.error(p.at("offload_optim_frac"), "a fraction is from 0 to 1");
      else if (static_cast<double>(eighths) != *states * 8.0)
        r.refuse(p.at("offload_optim_frac"), "plans offload eighths", fmt::format("{}/8", eighths));
      else
        r.take(p.at("offload_optim_frac"), "eighths of the states");
      if (eighths > 0 && eighths <= 8)
        r.set(p.at("offload_optim_frac"), "plan.offload_states", std::to_string(eighths));
    }
    if (const auto weights = share("offload_param_frac"); weights && *weights > 0.0)
      r.refuse(p.at("offload_param_frac"), "plans with ZeRO-3 keep a rank's share of the weights on its device",
               "weights on the device");
    if (const auto sharded = share("shard_param_frac")) {
      if (*sharded == 1.0)
        r.take(p.at("shard_param_frac"), "all weights are sharded");
      else if (*sharded == 0.0)
        r.set(p.at("shard_param_frac"), "plan.reshard_after_forward", "false");
      else
        r.refuse(p.at("shard_param_frac"), "weights that are sharded in part are not in plans", "all of them sharded");
    }
  }
  if (p.on("enable_sequence_parallelism") && sizes.tensor.value > 1)
    r.set(p.at("enable_sequence_parallelism"), "plan.sequence_parallel", "true");
  without_effect(p, {"enable_sequence_parallelism"}, "there is one tensor rank");
  without_effect(p, {"offload_param_frac", "chunk_config_dict", "search_range_m", "hidden_dim", "min_chunk_size_m"},
                 "plans gather a layer at a time");
  without_effect(
      p,
      {"chunk_init_device", "enable_gradient_accumulation", "warmup_non_model_data_ratio", "steady_cuda_cap_ratio",
       "force_outputs_fp32", "strict_ddp_mode", "memstats", "gpu_margin_mem_ratio", "enable_async_reduce"},
      "it arranges chunks");
}

void read_colossal_data(const ColossalPlugin& p, LaunchSizes& sizes) {
  LaunchReading& r = p.r;
  if (p.name == "LowLevelZeroPlugin") {
    const auto stage = r.whole(p.at("stage"), 1, 2);
    if (stage)
      r.set(p.at("stage"), "plan.zero_stage", std::to_string(*stage));
    else
      r.assume("plan.zero_stage", "1", "the plugin's stage is 1 unless told otherwise");
    put_replicas(p, sizes);
    const LaunchValue* precision = p.value("precision");
    const bool wide = precision != nullptr && precision->text == "fp32";
    put_bucket(p, "reduce_bucket_size_in_m", 12.0, mega * (wide ? 4.0 : 2.0),
               "the plugin's buckets have 12 Mi gradients");
    const bool overlap = p.on("overlap_communication", true);
    if (p.value("overlap_communication") != nullptr)
      r.set(p.at("overlap_communication"), "plan.overlap_gradients", overlap ? "true" : "false");
    else
      r.assume("plan.overlap_gradients", "true", "the plugin overlaps unless told otherwise");
    if (p.on("cpu_offload")) r.set(p.at("cpu_offload"), "plan.offload_states", "8");
    without_effect(p, {"cpu_offload"}, "states stay on the device");
    return;
  }
  if (p.name == "TorchDDPPlugin") {
    r.assume("plan.zero_stage", "0", "every process has a whole copy");
    put_bucket(p, "bucket_cap_mb", 25.0, mega, "DDP's buckets have 25 MiB");
    r.assume("plan.overlap_gradients", "true", "PyTorch's DDP overlaps");
    return;
  }
  const std::string strategy = p.at("sharding_strategy");
  const LaunchValue* v = r.value(strategy);
  const std::string word = v == nullptr ? "FULL_SHARD" : v->text.substr(v->text.rfind('.') + 1);
  if (word == "HYBRID_SHARD" || word == "_HYBRID_SHARD_ZERO2")
    r.refuse(strategy, "the text does not say how many nodes have a copy", "one copy for all ranks");
  else if (word != "FULL_SHARD" && word != "SHARD_GRAD_OP" && word != "NO_SHARD")
    r.error(strategy, "sharding_strategy is none of PyTorch's", {"FULL_SHARD, SHARD_GRAD_OP, NO_SHARD."});
  const char* stage = word == "NO_SHARD" ? "0" : "3";
  if (v != nullptr)
    r.set(strategy, "plan.zero_stage", stage);
  else
    r.assume("plan.zero_stage", "3", "FSDP shards weights unless told otherwise");
  if (word == "SHARD_GRAD_OP") r.set(strategy, "plan.reshard_after_forward", "false");
  r.assume("plan.overlap_gradients", "true", "FSDP overlaps");
  const std::string offload = p.at("cpu_offload");
  if (r.file().has(offload) && r.toggle(offload + ".offload_params").value_or(false)) {
    r.refuse(offload + ".offload_params", "plans with ZeRO-3 keep a rank's share of the weights on its device",
             "states in host memory, and weights on the device");
    r.assume("plan.offload_states", "8", "FSDP offloads them with the weights");
  }
  without_effect(p,
                 {"process_group", "auto_wrap_policy", "backward_prefetch", "mixed_precision",
                  "mixed_precision.param_dtype", "mixed_precision.reduce_dtype", "mixed_precision.buffer_dtype",
                  "ignored_modules", "param_init_fn", "sync_module_states", "cpu_offload", "cpu_offload.offload_params",
                  "use_orig_params", "limit_all_gathers", "forward_prefetch"},
                 "plans have one form of FSDP");
}

}  // namespace orrery
