#include "framework/deepspeed/json.hpp"

#include <fmt/format.h>

#include "core/plan/plan_check.hpp"
#include "framework/deepspeed/parts.hpp"
#include "framework/launch/launch_sizes.hpp"

// Keys and defaults are those of DeepSpeed: microsoft/DeepSpeed@38327e07, deepspeed/runtime/config.py and
// runtime/zero/config.py; tensor_parallel, expert_parallel and sequence_parallel_size of docs/_pages/config-json.md
// at edaa7221.

namespace orrery {

bool is_deepspeed_json(const LaunchFile& file) {
  for (const char* key :
       {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "fp16.enabled", "bf16.enabled"}) {
    if (file.has(key)) return true;
  }
  return false;
}

namespace {

using Size = LaunchSizes::Size;

constexpr const char* mics_key = "zero_optimization.mics_shard_size";

std::optional<Size> size_of(DeepSpeedKeys& k, const char* key, const std::optional<std::uint64_t>& outside = {}) {
  if (const auto value = k.whole(key, 1)) return Size{*value, key};
  return outside ? std::optional(Size{*outside, ""}) : std::nullopt;
}

/// Elastic runs take the batch from a list of admissible ones.
void read_elasticity(DeepSpeedKeys& k) {
  LaunchReading& r = k.r;
  if (r.file().has("elasticity") && k.toggle("elasticity.enabled").value_or(false)) {
    r.refuse("elasticity.enabled", "elastic runs change their batch with their GPUs", "the batch of the other keys");
  }
  r.without_effect({"elasticity", "elasticity.*"}, "a plan is for one number of GPUs");
}

/// Replicas of MiCS: whole copies of a shard group's states. They follow from the number of GPUs.
void put_replicas(DeepSpeedKeys& k, LaunchSizes& sizes, std::uint64_t shard) {
  LaunchReading& r = k.r;
  std::optional<std::uint64_t> gpus = r.options().gpus;
  if (!gpus && sizes.gpus) gpus = sizes.gpus->value;
  const double ranks = static_cast<double>(shard) * static_cast<double>(sizes.tensor.value) *
                       static_cast<double>(sizes.context.value) * static_cast<double>(sizes.expert.value);
  if (ranks > static_cast<double>(plan_size_limit)) {
    r.error(mics_key, "a shard of MiCS has too many ranks", {fmt::format("They are {}.", ranks)});
    return;
  }
  constexpr std::uint64_t node = 8;
  const std::uint64_t model = sizes.tensor.value * sizes.context.value * sizes.expert.value;
  const std::uint64_t unit = shard * model;
  if (!gpus) {
    gpus = (node + unit - 1) / unit * unit;
    r.assume("gpus", std::to_string(*gpus), "the file does not say how many GPUs (--gpus)");
    sizes.gpus = Size{*gpus, ""};
  }
  if (*gpus % unit != 0) {
    r.error(mics_key, fmt::format("{} GPUs are no multiple of MiCS's shards", *gpus),
            {fmt::format("A shard has {} ranks.", unit)});
    return;
  }
  sizes.replica = {*gpus / unit, mics_key};
  sizes.data = Size{shard, ""};
}

}  // namespace

void read_deepspeed(LaunchReading& r, const DeepSpeedOutside& outside) {
  DeepSpeedKeys k(r);
  // Old files have the switch alone, which is ZeRO-1 (zero/config.py, read_zero_config_deprecated).
  constexpr const char* old = "zero_optimization";
  const LaunchValue* alone = r.value(old);
  const bool is_switch = alone != nullptr && alone->kind == LaunchValue::Kind::flag;
  const bool on = is_switch && alone->text == "true";
  if (is_switch)
    r.set(old, "plan.zero_stage", on ? "1" : "0");
  else if (alone != nullptr)
    r.take(old, "no ZeRO");
  const std::uint64_t stage = k.whole("zero_optimization.stage").value_or(on ? 1 : 0);
  if (stage > 3) {
    r.error("zero_optimization.stage", "ZeRO has no such stage",
            {fmt::format("stage is {}; it is from 0 to 3.", stage)});
    return;
  }
  if (k.has("zero_optimization.stage") && !k.is_open("zero_optimization.stage")) {
    r.set("zero_optimization.stage", "plan.zero_stage", std::to_string(stage));
  }

  LaunchSizes sizes;
  sizes.order = {"replica", "data", "expert", "context", "tensor"};
  if (outside.gpus) sizes.gpus = Size{*outside.gpus, ""};
  sizes.micro = size_of(k, "train_micro_batch_size_per_gpu", outside.micro);
  sizes.batch = size_of(k, "train_batch_size");
  sizes.accumulation = size_of(k, "gradient_accumulation_steps", outside.accumulation);
  if (outside.sequence) sizes.sequence = Size{*outside.sequence, ""};
  // The batch alone is one microbatch of each rank: config.py, _set_batch_related_parameters.
  if (sizes.batch && !sizes.micro && !sizes.accumulation && !k.has("train_micro_batch_size_per_gpu") &&
      !k.has("gradient_accumulation_steps")) {
    sizes.accumulation = Size{1, ""};
  }
  if (const auto t = size_of(k, "tensor_parallel.autotp_size")) sizes.tensor = *t;
  if (const auto c = size_of(k, "sequence_parallel_size", outside.context)) {
    sizes.context = *c;
    if (c->value > 1) r.assume("plan.context", "\"ulysses\"", "DeepSpeed splits sequences as Ulysses does");
    if (c->value > 1 && c->from.empty()) r.assume("mesh.context", std::to_string(c->value), "");
  }
  if (k.toggle("expert_parallel.enabled").value_or(false)) {
    r.take("expert_parallel.enabled", "experts are split");
    if (const auto e = size_of(k, "expert_parallel.autoep_size")) sizes.expert = *e;
  }
  sizes.data = size_of(k, "data_parallel_size");

  const DeepSpeedTypes types = read_deepspeed_types(k, stage, outside);
  const std::uint64_t shard = read_deepspeed_zero(k, stage, types);
  if (shard > 0) put_replicas(k, sizes, shard);
  read_deepspeed_optimizer(k, stage);
  read_elasticity(k);
  read_deepspeed_rest(k);
  put_sizes(r, sizes);
}

void read_deepspeed_json(LaunchReading& r) { read_deepspeed(r, {}); }

}  // namespace orrery
