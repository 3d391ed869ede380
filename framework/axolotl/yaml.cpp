#include "framework/axolotl/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "framework/launch/launch_sizes.hpp"
#include "framework/trainer/adapters.hpp"
#include "framework/trainer/optimizer.hpp"
#include "framework/trainer/sharding.hpp"

namespace orrery {
namespace {

std::optional<LaunchSizes::Size> size(LaunchReading& r, const char* key) {
  const auto value = r.whole(key, 1);
  return value ? std::optional(LaunchSizes::Size{*value, key}) : std::nullopt;
}

/// Axes. Their order is that of accelerate's mesh; ranks of expert parallelism lie outermost
/// (axolotl-ai-cloud/axolotl@067b021c src/axolotl/utils/distributed.py, integrations/expert_parallel/plugin.py).
void read_axes(LaunchReading& r, LaunchSizes& sizes) {
  sizes.order = {"expert", "replica", "data", "context", "tensor"};
  if (const auto n = size(r, "tensor_parallel_size")) sizes.tensor = *n;
  if (const auto n = size(r, "sequence_parallel_degree")) sizes.context = *n;
  if (const auto n = size(r, "context_parallel_size")) sizes.context = *n;
  if (const auto n = size(r, "expert_parallel_size")) {
    if (n->value > 1)
      sizes.expert = *n;
    else
      r.take("expert_parallel_size", "no expert parallelism");
  }
  if (const auto n = size(r, "dp_replicate_size")) sizes.replica = *n;
  sizes.data = size(r, "dp_shard_size");
  if (const auto n = size(r, "world_size")) sizes.gpus = *n;
  if (r.value("ray_num_workers") != nullptr && r.toggle("use_ray").value_or(false)) {
    sizes.gpus = size(r, "ray_num_workers");
  }
  // What is left of the GPUs holds further copies.
  const std::optional<std::uint32_t> gpus = r.options().gpus;
  if (!gpus || !sizes.data || r.value("dp_replicate_size") != nullptr) return;
  std::uint64_t rest = *gpus;
  for (const std::uint64_t n : {sizes.tensor.value, sizes.context.value, sizes.expert.value, sizes.data->value}) {
    if (n == 0 || rest % n != 0) return;
    rest /= n;
  }
  if (rest > 1) sizes.replica = {rest, "dp_shard_size"};
}

/// Says of a sequence that is only a bound what it is.
void bound_sequence(LaunchReading& r, bool packed) {
  const bool padded = r.toggle("pad_to_sequence_len").value_or(false);
  r.without_effect({"pad_to_sequence_len"}, "");
  if (packed || padded || r.value("sequence_len") == nullptr) return;
  r.take("sequence_len", "an upper bound: sequences are not packed, and batches are padded to their longest");
}

/// How the context axis splits attention: packed sequences gather all keys (varlen_llama3), others pass them around.
/// Source: axolotl-ai-cloud/axolotl@067b021c src/axolotl/utils/schemas/validation.py, validate_ring_attn_func.
void read_context(LaunchReading& r, const LaunchSizes& sizes, bool packed) {
  const auto word = r.word("ring_attn_func", {"varlen_llama3", "batch_ring", "batch_zigzag", "batch_stripe"});
  if (sizes.context.value <= 1) {
    if (word) r.without_effect("ring_attn_func", "no context parallelism");
    return;
  }
  const std::string way = word.value_or(packed ? "varlen_llama3" : "batch_ring");
  const std::string_view from = word ? std::string_view("ring_attn_func") : std::string_view(sizes.context.from);
  r.set(from, "plan.context", way == "varlen_llama3" ? "\"all_gather\"" : "\"ring\"");
  if (way == "batch_zigzag" || way == "batch_stripe") r.set(from, "plan.zigzag", "true");
  if (way == "batch_stripe") r.refuse(from, "stripes of positions are not in plans", "zigzag chunks");
}

/// Batch and sequence. A step's batch is micro x accumulation on each rank (utils/config/__init__.py).
void read_batch(LaunchReading& r, LaunchSizes& sizes) {
  sizes.micro = size(r, "micro_batch_size");
  sizes.accumulation = size(r, "gradient_accumulation_steps");
  if (!sizes.micro && !r.given("plan.microbatch_size")) {
    sizes.micro = LaunchSizes::Size{1, {}};
    r.assume("plan.microbatch_size", "1", "axolotl's default");
  }
  if (const auto batch = size(r, "batch_size")) {
    const std::uint64_t micro = sizes.micro ? sizes.micro->value : 1;
    if (!sizes.accumulation && batch->value % micro == 0) {
      sizes.accumulation = LaunchSizes::Size{batch->value / micro, "batch_size"};
    } else if (sizes.accumulation && batch->value == micro * sizes.accumulation->value) {
      r.take("batch_size", "of each GPU");
    } else {
      r.error("batch_size", "batch_size is not the microbatch times the accumulation",
              {fmt::format("It is {}, of each GPU; the microbatch is {}.", batch->value, micro)});
    }
  }
  sizes.sequence = size(r, "sequence_len");
  if (!sizes.sequence && !r.given("workload.sequence")) {
    sizes.sequence = LaunchSizes::Size{512, {}};
    r.assume("workload.sequence", "512", "axolotl's default");
  }
}

/// Whether the run keeps weights in f32. DeepSpeed does, and accelerate upcasts weights before the first FSDP shards
/// them. Otherwise the weights are loaded in bf16, and the optimizer updates them as they are
/// (axolotl-ai-cloud/axolotl@067b021c src/axolotl/loaders/model.py, torch_dtype; monkeypatch/accelerate/fsdp2.py).
bool keeps_masters(LaunchReading& r, const TrainerSharding& sharding) {
  // PEFT casts adapters to fp32, unless it is told not to.
  if (r.is_set("workload.adapters.rank")) return r.toggle("peft_autocast_adapter_dtype").value_or(true);
  if (sharding.by != TrainerSharding::By::fsdp) return sharding.by == TrainerSharding::By::deepspeed;
  for (const char* key : {"fsdp_version", "fsdp_config.fsdp_version", "fsdp_config.version"}) {
    if (const LaunchValue* v = r.value(key); v != nullptr && v->text == "2") return false;
  }
  return true;
}

/// In what bitsandbytes keeps the frozen matrices. axolotl's own defaults are NF4 with scales in 8 bits
/// (axolotl-ai-cloud/axolotl@067b021c src/axolotl/loaders/model.py; utils/schemas/validation.py).
void read_base(LaunchReading& r, bool qlora) {
  const bool four = r.toggle("load_in_4bit").value_or(false), eight = r.toggle("load_in_8bit").value_or(false);
  if (qlora && (eight || !four)) {
    r.error("adapter", "qlora takes weights in 4 bits", {"Add load_in_4bit: true, and leave load_in_8bit out."});
  } else if (qlora) {
    read_trainer_base(
        r, {"load_in_4bit", 4, "bnb_config_kwargs.bnb_4bit_quant_type", "bnb_config_kwargs.bnb_4bit_use_double_quant"});
  } else {
    if (eight) read_trainer_base(r, {"load_in_8bit", 8});
    if (four) r.take("load_in_4bit", "nothing: axolotl loads in 4 bits for adapter: qlora alone");
    r.without_effect({"bnb_config_kwargs*"}, "nothing is in 4 bits");
  }
}

/// The numbers' types. Without a word, axolotl takes bf16 where the GPU has it.
WeightStorage read_precision(LaunchReading& r, const TrainerSharding& sharding) {
  const auto fp8 = r.toggle("fp8"), fp16 = r.toggle("fp16"), float16 = r.toggle("float16"),
             bfloat16 = r.toggle("bfloat16"), float32 = r.toggle("float32");
  const auto bf16 = r.word("bf16", {"true", "false", "auto", "full"});
  const auto tf32 = r.word("tf32", {"true", "false", "auto"});
  std::string precision = "bf16", from = "bf16";
  if (fp8.value_or(false)) {
    precision = "fp8", from = "fp8";
  } else if (fp16.value_or(false) || float16.value_or(false)) {
    precision = "fp16", from = fp16.value_or(false) ? "fp16" : "float16";
  } else if (float32.value_or(false) || (bf16 == "false" && !bfloat16.value_or(false))) {
    precision = "fp32", from = float32.value_or(false) ? "float32" : "bf16";
  } else if (bfloat16.value_or(false)) {
    from = "bfloat16";
  }
  if (r.value(from) != nullptr)
    r.set(from, "workload.precision", "\"" + precision + "\"");
  else
    r.assume("workload.precision", "\"" + precision + "\"", "axolotl's default where the GPU has bf16");
  if (precision == "fp32" && tf32 == "true") r.refuse("tf32", "products in TF32 are not in plans", "products in fp32");
  if (r.toggle("fp8_enable_fsdp_float8_all_gather").value_or(false)) {
    r.refuse("fp8_enable_fsdp_float8_all_gather", "weights that travel in fp8 are not in plans", "weights in bf16");
  }
  r.without_effect(
      {"fp8", "fp16", "float16", "bfloat16", "float32", "bf16", "tf32", "fp8_enable_fsdp_float8_all_gather"},
      "another type is in force");

  put_trainer_gradients(r, sharding, precision);
  if (keeps_masters(r, sharding) || precision == "fp32" || precision == "fp16") return WeightStorage::f32;
  r.assume("workload.gradient_dtype", "\"bf16\"", "gradients have the type of the weights");
  r.assume("workload.master_weights", "false", "weights are loaded in bf16, and updated as they are");
  return WeightStorage::bf16;
}

}  // namespace

bool is_axolotl_yaml(const LaunchFile& file) {
  if (!file.has("base_model")) return false;
  for (const char* key : {"micro_batch_size", "sequence_len", "datasets", "pretraining_dataset", "adapter",
                          "sample_packing", "num_epochs", "rl"}) {
    if (file.has(key)) return true;
  }
  return false;
}

void read_axolotl_yaml(LaunchReading& r) {
  if (beyond_axolotl_plans(r)) return;
  if (const auto name = r.text("base_model")) r.model_named("base_model", *name);
  const bool packed = r.toggle("sample_packing").value_or(false);
  r.without_effect({"sample_packing"}, packed ? "sequences are full" : "");

  LaunchSizes sizes;
  read_axes(r, sizes);
  const TrainerSharding sharding = read_trainer_sharding(r, sizes);
  if (sharding.by == TrainerSharding::By::ddp && sizes.data && sizes.data->value > 1) {
    r.error("dp_shard_size", "dp_shard_size shards by FSDP, of which the file has no settings",
            {"Add fsdp_version and fsdp_config."});
  }
  read_context(r, sizes, packed);
  read_batch(r, sizes);
  put_sizes(r, sizes);
  bound_sequence(r, packed);
  if (r.value("dp_shard_size") != nullptr) r.take("dp_shard_size", "ranks that shard");

  if (const auto adapter = r.text("adapter"); adapter == "lora" || adapter == "qlora") {
    r.take("adapter", "adapters are trained, and the weights stay as they are");
    read_trainer_adapters(r, {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_target_linear",
                              "peft_use_rslora", 0, false});
    read_base(r, *adapter == "qlora");
  }
  const WeightStorage weights = read_precision(r, sharding);
  read_trainer_optimizer(r, "optimizer", weights);
  read_trainer_schedule(r, "lr_scheduler");
  read_axolotl_memory(r);
  read_axolotl_plugins(r);
  if (r.value("expert_parallel_token_capacity") != nullptr) {
    r.refuse("expert_parallel_token_capacity", "a bound on an expert's tokens in all is not in plans", "no bound");
  }
  for (const LaunchValue& v : r.file().values) {
    const bool overrides = v.key.starts_with("overrides_of_model_") || v.key == "model_config" ||
                           v.key.starts_with("model_config.") || v.key.starts_with("rope_scaling");
    if (!overrides) continue;
    if (v.key.find("rope") != std::string::npos || v.key.find("use_cache") != std::string::npos)
      r.without_effect(v.key, "positions change no step");
    else
      r.refuse(v.key, "a change of the model's configuration is not read here", "the model as it is published");
  }
  pass_over_axolotl_keys(r);
}

}  // namespace orrery
