#include "framework/llama_factory/yaml.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "framework/trainer/adapters.hpp"
#include "framework/trainer/loss.hpp"
#include "framework/trainer/optimizer.hpp"
#include "framework/trainer/sharding.hpp"

namespace orrery {
namespace {

std::optional<LaunchSizes::Size> size(LaunchReading& r, const char* key) {
  const auto value = r.whole(key, 1);
  return value ? std::optional(LaunchSizes::Size{*value, key}) : std::nullopt;
}

/// Batch and sequence; where the file is silent, transformers' and LLaMA-Factory's defaults hold.
void read_batch(LaunchReading& r, LaunchSizes& sizes) {
  sizes.micro = size(r, "per_device_train_batch_size");
  if (!sizes.micro) sizes.micro = size(r, "per_gpu_train_batch_size");
  if (!sizes.micro && !r.given("plan.microbatch_size")) {
    sizes.micro = LaunchSizes::Size{8, {}};
    r.assume("plan.microbatch_size", "8", "the Trainer's default");
  }
  sizes.accumulation = size(r, "gradient_accumulation_steps");
  if (const auto workers = size(r, "ray_num_workers")) sizes.gpus = *workers;
  sizes.sequence = size(r, "cutoff_len");
  if (!sizes.sequence && !r.given("workload.sequence")) {
    sizes.sequence = LaunchSizes::Size{2048, {}};
    r.assume("workload.sequence", "2048", "LLaMA-Factory's default");
  }
  if (r.toggle("auto_find_batch_size").value_or(false))
    r.refuse("auto_find_batch_size", "a batch found by trial is not in plans", "the batch that the file has");
  r.without_effect({"auto_find_batch_size"}, "it is off");
}

/// Says of a sequence that is only a bound what it is.
void bound_sequence(LaunchReading& r) {
  // Pre-training packs by itself (hparams/data_args.py, packing).
  const bool neat = r.toggle("neat_packing").value_or(false);
  const bool packed = neat || r.toggle("packing").value_or(r.text("stage") == "pt");
  r.without_effect({"packing", "neat_packing", "sequence_packing"}, packed ? "sequences are full" : "");
  if (packed || r.value("cutoff_len") == nullptr) return;
  r.take("cutoff_len", "an upper bound: sequences are not packed, and batches are padded to their longest");
}

/// In what the frozen matrices are kept (src/llamafactory/model/model_utils/quantization.py): bitsandbytes' NF4 with
/// scales in 8 bits, or its 8 bits.
void read_base(LaunchReading& r) {
  const auto bits = r.whole("quantization_bit", 2, 8);
  if (!bits) return;
  const std::string method = r.word("quantization_method", {"bnb", "bitsandbytes", "hqq", "eetq"}).value_or("bnb");
  const bool known = method == "bnb" || method == "bitsandbytes";
  if (!known || (*bits != 4 && *bits != 8)) {
    r.error("quantization_bit", "frozen weights are in 4 or 8 bits of bitsandbytes in plans",
            {fmt::format("It is {} by {}.", *bits, method)});
    return;
  }
  if (r.value("quantization_method") != nullptr) r.take("quantization_method", "bitsandbytes");
  read_trainer_base(r, {"quantization_bit", *bits, "quantization_type", "double_quantization"});
}

/// Trained weights are cast to f32 before training, but for pure_bf16 (src/llamafactory/model/adapter.py).
std::string read_precision(LaunchReading& r, WeightStorage& weights) {
  const bool bf16 = r.toggle("bf16").value_or(false), fp16 = r.toggle("fp16").value_or(false),
             pure = r.toggle("pure_bf16").value_or(false), fp8 = r.toggle("fp8").value_or(false);
  const bool tf32 = r.toggle("tf32").value_or(false);
  const std::string precision = fp8 ? "fp8" : pure || bf16 ? "bf16" : fp16 ? "fp16" : "fp32";
  const std::string value = "\"" + precision + "\"";
  if (precision == "fp32")
    r.assume("workload.precision", value, "the file asks for neither bf16 nor fp16");
  else
    r.set(fp8 ? "fp8" : pure ? "pure_bf16" : bf16 ? "bf16" : "fp16", "workload.precision", value);
  if (pure) {
    weights = WeightStorage::bf16;
    r.assume("workload.gradient_dtype", "\"bf16\"", "gradients have the type of the weights");
    r.set("pure_bf16", "workload.master_weights", "false");
  }
  if (precision == "fp32" && tf32) r.refuse("tf32", "products in TF32 are not in plans", "products in fp32");
  if (r.toggle("fp8_enable_fsdp_float8_all_gather").value_or(false)) {
    r.refuse("fp8_enable_fsdp_float8_all_gather", "weights that travel in fp8 are not in plans", "weights in bf16");
  }
  r.without_effect({"bf16", "fp16", "pure_bf16", "fp8", "fp8_enable_fsdp_float8_all_gather"},
                   "another type is in force");
  return precision;
}

void read_optimizer(LaunchReading& r, WeightStorage weights) {
  read_trainer_optimizer(r, "optim", weights);
  for (const char* key : {"use_galore", "use_apollo", "use_adam_mini", "use_muon"}) {
    if (r.toggle(key).value_or(false))
      refuse_optimizer(r, key, std::string_view(key).substr(4));
    else
      r.without_effect({key}, "it is off");
  }
  if (r.toggle("adafactor").value_or(false)) refuse_optimizer(r, "adafactor", "Adafactor beside another");
  r.without_effect({"adafactor"}, "it is off");
  read_trainer_schedule(r, "lr_scheduler_type");
}

void read_attention(LaunchReading& r) {
  // disabled is transformers' own attention, step by step; the others are fused.
  const auto word = r.word("flash_attn", {"auto", "disabled", "sdpa", "fa2", "fa3"});
  if (word) r.set("flash_attn", "plan.attention", *word == "disabled" ? "\"unfused\"" : "\"flash\"");
  r.assume("plan.attention", "\"flash\"", "PyTorch's fused attention, as transformers takes it by itself");
  if (r.toggle("shift_attn").value_or(false)) {
    r.refuse("shift_attn", "attention in shifted groups is not in plans", "attention over the whole sequence");
  }
  r.without_effect({"shift_attn"}, "it is off");
}

/// Layers are recomputed unless the file says otherwise (hparams/model_args.py, disable_gradient_checkpointing).
void read_recomputation(LaunchReading& r, bool megatron) {
  const bool off = r.toggle("disable_gradient_checkpointing").value_or(false);
  const bool unsloth = r.toggle("use_unsloth_gc").value_or(false);
  if (off) {
    r.take("disable_gradient_checkpointing", "nothing is recomputed");
  } else if (!megatron && !r.is_set("plan.recompute")) {
    if (r.toggle("gradient_checkpointing").value_or(false))
      r.set("gradient_checkpointing", "plan.recompute", "\"full\"");
    else
      r.assume("plan.recompute", "\"full\"", "LLaMA-Factory's default");
    if (unsloth) r.set("use_unsloth_gc", "plan.offload_activations", "8");
  }
  r.without_effect({"disable_gradient_checkpointing", "use_unsloth_gc", "gradient_checkpointing"},
                   "LLaMA-Factory recomputes layers by itself");
}

}  // namespace

bool is_llama_factory_yaml(const LaunchFile& file) {
  if (!file.has("model_name_or_path")) return false;
  for (const char* key : {"finetuning_type", "stage", "template", "infer_backend", "export_dir", "cutoff_len"}) {
    if (file.has(key)) return true;
  }
  return false;
}

void read_llama_factory_yaml(LaunchReading& r) {
  if (beyond_llama_factory_plans(r)) return;
  if (const auto name = r.text("model_name_or_path")) r.model_named("model_name_or_path", *name);

  if (r.text("finetuning_type").value_or("lora") == "lora") {
    if (r.value("finetuning_type") != nullptr) r.take("finetuning_type", "adapters are trained, and the weights stay");
    read_trainer_adapters(r, {"lora_rank", "lora_alpha", "lora_dropout", "lora_target", "", "use_rslora", 8, true});
    read_base(r);
  }
  LaunchSizes sizes;
  WeightStorage weights = WeightStorage::f32;
  const std::string precision = read_precision(r, weights);
  const bool megatron = runs_on_megatron(r.file());
  if (megatron)
    read_llama_factory_megatron(r, sizes);
  else
    put_trainer_gradients(r, read_trainer_sharding(r, sizes), precision);
  read_batch(r, sizes);
  put_sizes(r, sizes);
  bound_sequence(r);
  read_optimizer(r, weights);
  read_attention(r);
  read_recomputation(r, megatron);
  if (r.toggle("enable_liger_kernel").value_or(false) || r.toggle("use_liger_kernel").value_or(false)) {
    put_liger_loss(r, r.value("enable_liger_kernel") != nullptr ? "enable_liger_kernel" : "use_liger_kernel");
  }
  r.without_effect({"enable_liger_kernel", "use_liger_kernel", "liger_kernel_config*"}, "it is off");
  if (r.toggle("use_unsloth").value_or(false)) {
    r.refuse("use_unsloth", "unsloth's own layers are not in plans", "the layers of transformers");
  }
  r.without_effect({"use_unsloth"}, "it is off");
  pass_over_llama_factory_keys(r);
}

}  // namespace orrery
