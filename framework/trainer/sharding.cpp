#include "framework/trainer/sharding.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/base/units_text.hpp"
#include "framework/trainer/deepspeed_file.hpp"

namespace orrery {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w.substr(0, 60);
  return out;
}

/// Puts settings in place, as the file says them or, where it cannot be read, as they are assumed.
class Settings {
 public:
  Settings(LaunchReading& reading, std::string_view key, bool assumed) : r_(reading), key_(key), assumed_(assumed) {}

  TrainerSharding put(const DeepSpeedSettings& s, LaunchSizes& sizes) {
    say("plan.zero_stage", std::to_string(s.stage));
    put_offload(s);
    // Without a word, reductions overlap in stage 3 alone (docs/_pages/config-json.md, overlap_comm), and without ZeRO
    // never.
    say("plan.overlap_gradients", s.stage > 0 && s.overlap.value_or(s.stage == 3) ? "true" : "false");
    if (s.tensor) sizes.tensor = {*s.tensor, std::string(key_)};
    if (s.clip_norm && *s.clip_norm > 0.0) say("workload.clip_norm", fmt::format("{}", *s.clip_norm));
    if (!s.left_aside.empty()) {
      r_.refuse(key_, "its keys " + joined(s.left_aside) + " are not read here", "DeepSpeed without them");
    }
    if (!s.faults.empty()) {
      r_.error(key_, "the DeepSpeed configuration has values that mean nothing", {joined(s.faults)});
    }
    return {TrainerSharding::By::deepspeed, s.stage, s.gradient_dtype, s.bucket};
  }

 private:
  void say(std::string_view plan_key, const std::string& toml) {
    if (assumed_)
      r_.assume(plan_key, toml, fmt::format("as the program's own file of {}'s name has it", key_));
    else
      r_.set(key_, plan_key, toml);
  }

  void put_offload(const DeepSpeedSettings& s) {
    if (s.states_device != "none") {
      say("plan.offload_states", std::to_string(std::lround(8.0 * s.states_share)));
      if (s.states_device == "nvme") say("plan.states_tier", "\"disk\"");
    }
    // Weights off the device are a part of ZeRO-3 alone; DeepSpeed ignores the setting in other stages.
    if (s.parameters_device != "none" && s.stage == 3) {
      r_.refuse(key_, "weights off the device under ZeRO-3 are not in plans",
                "each rank's part of the weights on its device");
    }
  }

  LaunchReading& r_;
  std::string_view key_;
  bool assumed_;
};

}  // namespace

std::optional<TrainerSharding> read_trainer_deepspeed(LaunchReading& r, std::string_view key, LaunchSizes& sizes) {
  const std::string table = std::string(key) + ".";
  bool inside = false;
  for (const LaunchValue& v : r.file().values) {
    if (!v.key.starts_with(table)) continue;
    r.take(v.key, "of the DeepSpeed configuration");
    inside = true;
  }
  if (inside) {
    return Settings(r, key, false).put(deepspeed_settings(r.file(), key), sizes);
  }
  const std::optional<std::string> path = r.text(key);
  if (!path || path->empty() || *path == "false") {
    if (path) r.without_effect(key, "no DeepSpeed");
    return std::nullopt;
  }
  if (const auto settings = deepspeed_file(*path, r.file().origin.file)) {
    return Settings(r, key, false).put(*settings, sizes);
  }
  if (const auto settings = shipped_deepspeed(*path)) {
    r.take(key, "taken for the program's own file of that name, since it cannot be read");
    return Settings(r, key, true).put(*settings, sizes);
  }
  r.error(key, fmt::format("the DeepSpeed configuration {} cannot be read", path->substr(0, 80)),
          {"It is looked for beside the launch file and in the folders above it."});
  return std::nullopt;
}

void read_trainer_ddp(LaunchReading& r) {
  r.assume("plan.zero_stage", "0", "neither FSDP nor DeepSpeed is named: DDP");
  r.assume("plan.overlap_gradients", "true", "as DDP does");
  // torch.nn.parallel.DistributedDataParallel's default.
  r.assume("plan.gradient_bucket", "\"25 MiB\"", "DDP's buckets");
}

TrainerSharding read_trainer_sharding(LaunchReading& r, LaunchSizes& sizes) {
  const std::optional<TrainerSharding> deepspeed = read_trainer_deepspeed(r, "deepspeed", sizes);
  const bool fsdp = read_trainer_fsdp(r, sizes);
  // DDP's buckets are counted in MiB (torch.nn.parallel.DistributedDataParallel, bucket_cap_mb).
  if (const auto bucket = r.whole("ddp_bucket_cap_mb", 1, 1 << 20)) {
    if (deepspeed.has_value() || fsdp)
      r.without_effect("ddp_bucket_cap_mb", "of DDP, which this run does not use");
    else
      r.set("ddp_bucket_cap_mb", "plan.gradient_bucket", fmt::format("\"{} MiB\"", *bucket));
  }
  if (deepspeed) return *deepspeed;
  if (fsdp) return {TrainerSharding::By::fsdp};
  read_trainer_ddp(r);
  return {};
}

/// Source: microsoft/DeepSpeed deepspeed/runtime/engine.py, DeepSpeedEngine.get_data_types: the type of the weights
/// under ZeRO; without, f32 for weights in bf16.
void put_trainer_gradients(LaunchReading& r, const TrainerSharding& s, std::string_view precision) {
  if (s.by != TrainerSharding::By::deepspeed) return;
  const bool wide = precision == "fp32" ||
                    (s.gradient_dtype.empty() ? s.stage == 0 && precision != "fp16" : s.gradient_dtype == "f32");
  if (!wide) {
    const std::string_view narrow = precision == "fp16" ? "f16" : "bf16";
    r.assume("workload.gradient_dtype", fmt::format("\"{}\"", narrow), "as DeepSpeed sums them under ZeRO");
  }
  const ModelSpec* model = r.known_model();
  if (s.stage == 0 || model == nullptr) return;
  // Where the bucket is "auto", the Trainer takes hidden x hidden (transformers, integrations/deepspeed.py).
  const double square = static_cast<double>(model->hidden) * static_cast<double>(model->hidden);
  const Bytes bucket = Bytes::of(s.bucket.value_or(square) * (wide ? 4.0 : 2.0));
  r.assume("plan.gradient_bucket", fmt::format("\"{}\"", exact_text(bucket)), "DeepSpeed's reductions");
}

}  // namespace orrery
