#include <fmt/format.h>

#include <algorithm>

#include "framework/accelerate/parts.hpp"

// fsdp_config and parallelism_config: src/accelerate/utils/dataclasses.py (FullyShardedDataParallelPlugin) and
// src/accelerate/parallelism_config.py of huggingface/accelerate@16cb6eb8.

namespace orrery {
namespace {

using Size = LaunchSizes::Size;

enum class Sharding : std::uint8_t { full, keep_weights, none, hybrid, hybrid_keep_weights };

/// Words and numbers of PyTorch's ShardingStrategy.
std::optional<Sharding> sharding(LaunchReading& r, const char* key) {
  const auto word = r.word(key, {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "1",
                                 "2", "3", "4", "5", "true", "false"});
  if (!word) return std::nullopt;
  if (*word == "FULL_SHARD" || *word == "1" || *word == "true") return Sharding::full;
  if (*word == "SHARD_GRAD_OP" || *word == "2" || *word == "false") return Sharding::keep_weights;
  if (*word == "NO_SHARD" || *word == "3") return Sharding::none;
  return *word == "HYBRID_SHARD" || *word == "4" ? Sharding::hybrid : Sharding::hybrid_keep_weights;
}

/// Hybrid sharding: shards lie within a machine, and each machine has a whole copy.
void put_machines(LaunchReading& r, LaunchSizes& sizes, const char* key, std::uint64_t machines) {
  if (machines == 1) {
    r.take(key, "one machine has one copy");
  } else if (sizes.gpus && !r.options().gpus && sizes.gpus->value % machines != 0) {
    r.error("num_machines", "the processes do not divide among the machines",
            {fmt::format("{} processes, {} machines.", sizes.gpus->value, machines)});
  } else {
    sizes.replica = {machines, "num_machines"};
  }
}

void read_prefetch(LaunchReading& r, bool sharded, bool is_second) {
  constexpr const char* key = "fsdp_config.fsdp_backward_prefetch";
  const auto word = r.word(key, {"BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH", "1", "2", "3", "null", "none"});
  if (!sharded || is_second) return;  // FSDP2 gathers a layer ahead by itself
  if (!word) return r.assume("plan.prefetch", "0", "FSDP gathers ahead where fsdp_backward_prefetch says so");
  if (*word == "BACKWARD_PRE" || *word == "1") return r.set(key, "plan.prefetch", "1");
  if (*word == "BACKWARD_POST" || *word == "2")
    r.refuse(key, "gathers behind the gradient of a layer are not in plans", "no gathers ahead");
  r.set(key, "plan.prefetch", "0");
}

}  // namespace

void read_accelerate_fsdp(LaunchReading& r, LaunchSizes& sizes, std::uint64_t machines) {
  const bool is_second = r.whole("fsdp_config.fsdp_version", 1, 2).value_or(1) == 2;
  constexpr const char* strategy = "fsdp_config.fsdp_sharding_strategy";
  constexpr const char* reshard = "fsdp_config.fsdp_reshard_after_forward";
  // FSDP2 has the second key alone, and FSDP1 takes a strategy under either.
  const char* from = is_second || r.value(strategy) == nullptr ? reshard : strategy;
  const std::optional<Sharding> said = sharding(r, from);
  const Sharding s = said.value_or(Sharding::full);
  const bool sharded = s != Sharding::none;
  if (said) {
    r.set(from, "plan.zero_stage", sharded ? "3" : "0");
  } else {
    r.assume("plan.zero_stage", "3", "FSDP shards weights unless told otherwise");
  }
  if (s == Sharding::keep_weights || s == Sharding::hybrid_keep_weights)
    r.set(from, "plan.reshard_after_forward", "false");
  if (s == Sharding::hybrid || s == Sharding::hybrid_keep_weights) put_machines(r, sizes, from, machines);
  r.assume("plan.overlap_gradients", "true", "FSDP overlaps");
  read_prefetch(r, sharded, is_second);
  r.without_effect({strategy, reshard}, "fsdp_version is another one");

  constexpr const char* offload = "fsdp_config.fsdp_offload_params";
  if (r.toggle(offload).value_or(false)) {
    r.refuse(offload, "plans with ZeRO-3 keep a rank's share of the weights on its device",
             "states in host memory, and weights on the device");
    r.assume("plan.offload_states", "8", "FSDP offloads them with the weights");
  }
  constexpr const char* checkpoints = "fsdp_config.fsdp_activation_checkpointing";
  if (const auto on = r.toggle(checkpoints)) r.set(checkpoints, "plan.recompute", *on ? "\"full\"" : "\"none\"");
  constexpr const char* wrap = "fsdp_config.fsdp_auto_wrap_policy";
  if (const auto word = r.text(wrap); word && *word == "NO_WRAP")
    r.refuse(wrap, "a model that is gathered as a whole is not in plans", "one layer after another");
  r.without_effect({"fsdp_config.fsdp_auto_wrap_policy", "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
                    "fsdp_config.fsdp_min_num_params"},
                   "plans gather layer by layer");
  r.without_effect(
      {"fsdp_config.fsdp_version", "fsdp_config.fsdp_forward_prefetch", "fsdp_config.fsdp_limit_all_gathers",
       "fsdp_config.fsdp_offload_params", "fsdp_config.fsdp_use_orig_params", "fsdp_config.fsdp_mixed_precision_policy",
       "fsdp_config.fsdp_ignored_modules", "fsdp_config.fsdp_backward_prefetch_policy"},
      "plans have one form of FSDP");
  r.without_effect({"fsdp_config.fsdp_state_dict_type", "fsdp_config.fsdp_sync_module_states",
                    "fsdp_config.fsdp_cpu_ram_efficient_loading", "fsdp_config.fsdp_backward_prefetch",
                    "fsdp_config.fsdp_use_cpu_ram_efficient_loading"},
                   "it is for loading and checkpoints");
}

void read_accelerate_axes(LaunchReading& r, LaunchSizes& sizes) {
  const std::string p = "parallelism_config.parallelism_config_";
  const auto size = [&](const char* name) -> std::optional<Size> {
    const std::string key = p + name;
    const auto value = r.whole(key, 1);
    return value ? std::optional(Size{*value, key}) : std::nullopt;
  };
  if (const auto t = size("tp_size")) sizes.tensor = *t;
  if (const auto x = size("dp_replicate_size")) sizes.replica = *x;
  sizes.data = size("dp_shard_size");
  const auto cp = size("cp_size"), sp = size("sp_size");
  if (cp && sp && cp->value > 1 && sp->value > 1) {
    r.error(sp->from, "cp_size and sp_size both split sequences", {"One of them may be above 1."});
    return;
  }
  if (cp && cp->value > 1) {
    sizes.context = *cp;
    if (sp) r.take(sp->from, "1");
    // PyTorch's context parallelism: "alltoall" sends keys and values on from rank to rank, and each rank has an early
    // and a late part of the sequence.
    const std::string key = p + "cp_comm_strategy";
    const auto word = r.word(key, {"allgather", "alltoall"});
    if (word)
      r.set(key, "plan.context", *word == "allgather" ? "\"all_gather\"" : "\"ring\"");
    else
      r.assume("plan.context", "\"all_gather\"", "Accelerate gathers keys and values unless told otherwise");
    r.assume("plan.zigzag", "true", "PyTorch balances causal work");
  } else if (sp) {
    sizes.context = *sp;
    if (cp) r.take(cp->from, "1");
    if (sp->value > 1) r.set(sp->from, "plan.context", "\"ulysses\"");
    if (const auto length = size("sp_seq_length")) sizes.sequence = *length;
  } else if (cp) {
    sizes.context = *cp;
  }
  for (const LaunchValue& v : r.file().values) {
    if (!v.key.starts_with(p)) continue;
    const std::string name = v.key.substr(p.size());
    for (const char* known : {"cp_backend", "cp_comm_strategy", "sp_backend", "sp_seq_length",
                              "sp_seq_length_is_variable", "sp_attn_implementation"}) {
      if (name == known && !(name == "sp_seq_length" && sizes.sequence) &&
          !(name == "cp_comm_strategy" && cp && cp->value > 1))
        r.without_effect(v.key, "it goes with the axis");
    }
  }
}

}  // namespace orrery
