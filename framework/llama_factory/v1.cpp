#include <fmt/format.h>

#include "framework/launch/model_names.hpp"
#include "framework/llama_factory/yaml.hpp"
#include "framework/trainer/keys.hpp"
#include "framework/trainer/loss.hpp"
#include "framework/trainer/model_kind.hpp"
#include "framework/trainer/optimizer.hpp"
#include "framework/trainer/sharding.hpp"

// The configurations of LLaMA-Factory's second version. Source: hiyouga/LLaMA-Factory@ff6d4d12 src/llamafactory/v1
// (config/*.py, plugins/trainer_plugins/distributed).

namespace orrery {
namespace {

bool beyond_plans(LaunchReading& r) {
  for (const LaunchValue& v : r.file().values) {
    if (v.kind == LaunchValue::Kind::none) continue;
    if (v.key == "peft_config.name") {
      end_reading(r, v.key, fmt::format("{} adapters are not read here yet", v.text.substr(0, 40)));
      return true;
    }
    if (v.key == "quant_config.name") {
      end_reading(r, v.key, "weights frozen in few bits are not in plans yet");
      return true;
    }
  }
  const std::string word = r.text("model_class").value_or("llm");
  if (word != "llm") {
    end_reading(r, "model_class", fmt::format("models of class {} are not in plans yet", word.substr(0, 40)));
    return true;
  }
  const std::string name = r.text("model").value_or("");
  const std::string_view kind = model_beyond_plans(name);
  if (r.options().model || kind.empty() || shipped_model_of(name, r.library())) return false;
  end_reading(r, "model", fmt::format("{} is {}, which plans do not have", name.substr(0, 80), kind),
              {"Another model's shape can stand in with --model."});
  return true;
}

std::optional<LaunchSizes::Size> size(LaunchReading& r, const char* key) {
  const auto value = r.whole(key, 1);
  return value ? std::optional(LaunchSizes::Size{*value, key}) : std::nullopt;
}

void read_sharding(LaunchReading& r, LaunchSizes& sizes, std::string_view precision) {
  const auto name = r.word("dist_config.name", {"fsdp2", "fsdpturbo", "deepspeed", "ddp"});
  if (name == "deepspeed") {
    r.take("dist_config.name", "DeepSpeed");
    if (const auto by = read_trainer_deepspeed(r, "dist_config.config_file", sizes)) {
      put_trainer_gradients(r, *by, precision);
    }
  } else if (name && *name != "ddp") {
    r.set("dist_config.name", "plan.zero_stage", "3");
    if (!r.toggle("dist_config.reshard_after_forward").value_or(true)) {
      r.set("dist_config.reshard_after_forward", "plan.reshard_after_forward", "false");
    }
    if (r.toggle("dist_config.offload_params").value_or(false)) {
      r.set("dist_config.offload_params", "plan.offload_states", "8");
      r.refuse("dist_config.offload_params", "weights off the device under ZeRO-3 are not in plans",
               "optimizer states there, and each rank's part of the weights on its device");
    }
    if (const auto n = size(r, "dist_config.ep_size")) {
      if (n->value > 1)
        sizes.expert = *n;
      else
        r.take("dist_config.ep_size", "no expert parallelism");
    }
  } else {
    if (name) r.take("dist_config.name", "DDP");
    read_trainer_ddp(r);
  }
  r.without_effect({"dist_config.*", "dist_config"}, "of loading and saving");
}

void read_sizes(LaunchReading& r, LaunchSizes& sizes) {
  sizes.micro = size(r, "micro_batch_size");
  if (!sizes.micro && !r.given("plan.microbatch_size")) {
    sizes.micro = LaunchSizes::Size{1, {}};
    r.assume("plan.microbatch_size", "1", "LLaMA-Factory's default");
  }
  sizes.batch = size(r, "global_batch_size");
  sizes.sequence = size(r, "cutoff_len");
  if (!sizes.sequence && !r.given("workload.sequence")) {
    sizes.sequence = LaunchSizes::Size{2048, {}};
    r.assume("workload.sequence", "2048", "LLaMA-Factory's default");
  }
  const auto way = r.word("batching_strategy", {"normal", "padding_free", "dynamic_batching", "dynamic_padding_free"});
  const bool whole = !way || *way == "normal";
  if (!whole) {
    r.refuse("batching_strategy", "microbatches of changing sizes are not in plans",
             "microbatches of micro_batch_size full sequences");
  } else if (way) {
    r.without_effect("batching_strategy", "microbatches of one size");
  }
  if (const auto n = size(r, "cp_size"); n && n->value > 1) {
    sizes.context = *n;
    const auto mode = r.text("cp_mode").value_or("ulysses");
    r.set("cp_size", "plan.context", mode == "ulysses" ? "\"ulysses\"" : "\"ring\"");
    if (mode != "ulysses" && mode != "ring") r.error("cp_mode", "no such way to split attention is known");
  }
  r.without_effect({"cp_size", "cp_mode"}, "no context parallelism");
  if (const auto n = size(r, "mp_replicate_size"); n && n->value > 1) sizes.replica = *n;
  if (const auto n = size(r, "mp_shard_size")) {
    // Shards lie along data and context together.
    if (n->value % sizes.context.value == 0) sizes.data = {n->value / sizes.context.value, {}};
    r.take("mp_shard_size", "ranks that shard");
  }
  r.without_effect({"mp_replicate_size", "dp_size"}, "from the other sizes");
  put_sizes(r, sizes);
  if (r.value("cutoff_len") != nullptr) r.take("cutoff_len", "an upper bound: sequences are not filled up");
}

}  // namespace

bool is_llama_factory_v1_yaml(const LaunchFile& file) {
  return file.has("model") && !file.has("model_name_or_path") &&
         (file.has("train_dataset") || file.has("dist_config") || file.has("kernel_config"));
}

void read_llama_factory_v1_yaml(LaunchReading& r) {
  if (beyond_plans(r)) return;
  if (const auto name = r.text("model")) r.model_named("model", *name);
  const bool bf16 = r.toggle("bf16").value_or(true);
  const std::string precision = bf16 ? "bf16" : "fp32";
  if (r.value("bf16") != nullptr)
    r.set("bf16", "workload.precision", "\"" + precision + "\"");
  else
    r.assume("workload.precision", "\"bf16\"", "LLaMA-Factory's default");
  LaunchSizes sizes;
  read_sharding(r, sizes, precision);
  read_sizes(r, sizes);

  const auto optimizer = r.text("optim_config.name");
  if (optimizer && optimizer->find("adam") == std::string::npos) {
    refuse_optimizer(r, "optim_config.name", *optimizer);
  }
  r.without_effect({"optim_config*"}, "Adam");
  if (r.value("learning_rate") == nullptr) {
    r.assume("workload.optimizer.learning_rate", "1e-4", "LLaMA-Factory's default");
  }
  // torch.optim.AdamW's default, which LLaMA-Factory leaves as it is (core/base_trainer.py).
  r.assume("workload.optimizer.weight_decay", "0.01", "PyTorch's default");
  // Weights are cast to f32 before they are shared out (core/model_engine.py).
  read_trainer_optimizer(r, "optim", WeightStorage::f32);
  read_trainer_schedule(r, "lr_scheduler_config.name");
  const auto attention = r.text("flash_attn");
  if (attention) r.set("flash_attn", "plan.attention", *attention == "eager" ? "\"unfused\"" : "\"flash\"");
  r.assume("plan.attention", "\"flash\"", "PyTorch's fused attention, LLaMA-Factory's default");
  const auto recompute = r.toggle("enable_activation_checkpointing");
  if (recompute)
    r.set("enable_activation_checkpointing", "plan.recompute", *recompute ? "\"full\"" : "\"none\"");
  else
    r.assume("plan.recompute", "\"full\"", "LLaMA-Factory's default");
  if (r.text("kernel_config.name").value_or("").find("liger") != std::string::npos) {
    put_liger_loss(r, "kernel_config.name");
  }
  r.without_effect({"kernel_config*"}, "of kernels, which are priced with the software");
  r.without_effect({"train_dataset",
                    "eval_dataset",
                    "model_class",
                    "custom_chat_template",
                    "trust_remote_code",
                    "init_config*",
                    "peft_config*",
                    "quant_config*",
                    "batching_workers",
                    "dist_timeout",
                    "sample_*",
                    "max_new_tokens",
                    "lr_scheduler_config*",
                    "pref_*",
                    "simpo_gamma",
                    "dpo_*",
                    "ld_alpha",
                    "save_*",
                    "num_train_epochs",
                    "train_stage",
                    "stage"},
                   "of data, loading and saving");
  pass_over_trainer_keys(r);
}

}  // namespace orrery
