#include "framework/torchtune/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "framework/launch/launch_sizes.hpp"

// Ranks, batch and sharding. Source: pytorch/torchtune@bd2a0fc7 torchtune/training/_distributed.py (ParallelDims,
// shard_model), recipes/{full,lora}_finetune_{distributed,single_device}.py.

namespace orrery {
namespace {

using Size = LaunchSizes::Size;

std::optional<Size> size(LaunchReading& r, const char* key) {
  const auto value = r.whole(key, 1);
  return value ? std::optional(Size{*value, key}) : std::nullopt;
}

bool is_reference(const LaunchValue& v) {
  return v.kind == LaunchValue::Kind::text && v.text.starts_with("${") && v.text.ends_with('}');
}

/// A value that is another's ("${batch_size}") becomes that one.
void follow_references(LaunchReading& r) {
  std::vector<LaunchValue> values = r.file().values;
  for (LaunchValue& v : values) {
    if (!is_reference(v)) continue;
    const LaunchValue* other = &v;
    for (int links = 0; links < 8 && other != nullptr && is_reference(*other); ++links)
      other = r.file().find(std::string_view(other->text).substr(2, other->text.size() - 3));
    if (other == nullptr || other == &v) continue;
    v.kind = other->kind;
    v.items = other->items;
    v.text = other->text;
  }
  r.put_values(std::move(values));
}

/// Recipes of one GPU have names that say so, which the file's folder of results repeats.
bool is_of_one_gpu(const LaunchReading& r) {
  constexpr std::string_view word = "single_device";
  const LaunchValue* folder = r.value("output_dir");
  const std::string& file = r.file().origin.file;
  return file.find(word, file.rfind('/') + 1) != std::string::npos ||
         (folder != nullptr && folder->text.find(word) != std::string::npos);
}

/// Axes, in torchtune's order. A size of -1 is what the others leave of the GPUs.
void read_axes(LaunchReading& r, LaunchSizes& sizes) {
  sizes.order = {"replica", "data", "context", "tensor"};
  if (const auto n = size(r, "tensor_parallel_dim")) sizes.tensor = *n;
  if (const auto n = size(r, "context_parallel_dim")) sizes.context = *n;
  if (const auto n = size(r, "data_parallel_replicate_dim")) sizes.replica = *n;
  if (const auto n = r.integer("data_parallel_shard_dim"); n && *n == -1)
    r.take("data_parallel_shard_dim", "the GPUs that the other sizes leave");
  else if (n)
    sizes.data = size(r, "data_parallel_shard_dim");
  const std::uint64_t others = sizes.tensor.value * sizes.context.value * sizes.replica.value;
  if (!r.options().gpus && !sizes.data && others == 1 && is_of_one_gpu(r)) {
    sizes.gpus = Size{1, {}};
    r.assume("gpus", "1", "its name says a single device");
  }
}

void read_batch(LaunchReading& r, LaunchSizes& sizes) {
  sizes.micro = size(r, "batch_size");
  sizes.accumulation = size(r, "gradient_accumulation_steps");
  sizes.sequence = size(r, "tokenizer.max_seq_len");
  const bool packed = r.toggle("dataset.packed").value_or(false);
  if (packed && !sizes.sequence && !r.given("workload.sequence")) {
    r.error("dataset.packed", "packing needs the length of a sequence",
            {"Set tokenizer.max_seq_len, or give --set sequence=4096."});
  } else if (r.value("dataset.packed") != nullptr) {
    r.without_effect("dataset.packed", packed ? "sequences are full" : "");
  }
}

/// Says of a sequence that is only a bound what it is.
void bound_sequence(LaunchReading& r) {
  if (r.value("tokenizer.max_seq_len") == nullptr || r.toggle("dataset.packed").value_or(false)) return;
  r.take("tokenizer.max_seq_len", "an upper bound: sequences are not packed, and batches are padded to their longest");
}

/// How tensor and context ranks share out a layer. Plans of torchtune for tensor ranks cut norms along the sequence.
void read_axes_ways(LaunchReading& r, const LaunchSizes& sizes) {
  constexpr std::string_view way = "tensor_parallel_plan._component_", rotate = "context_parallel_rotate_method";
  if (sizes.tensor.value > 1) {
    if (r.is_set("workload.adapters.rank"))
      r.error(sizes.tensor.from, "torchtune's recipes with adapters take no tensor ranks",
              {"Set tensor_parallel_dim: 1, and shard over all GPUs."});
    else if (r.value(way) == nullptr)
      r.error(sizes.tensor.from, "tensor ranks need a tensor_parallel_plan",
              {"Llama's is torchtune.models.llama3.base_llama_tp_plan."});
    else
      r.set(way, "plan.sequence_parallel", "true");
  }
  r.without_effect({"tensor_parallel_plan.*", "tensor_parallel_plan"}, "no tensor ranks");
  if (sizes.context.value > 1) {
    const std::string method = r.word(rotate, {"allgather", "alltoall"}).value_or("allgather");
    const std::string_view from = r.value(rotate) != nullptr ? rotate : std::string_view(sizes.context.from);
    r.set(from, "plan.context", method == "alltoall" ? "\"ring\"" : "\"all_gather\"");
    r.set(from, "plan.zigzag", "true");  // PyTorch's context_parallel deals an early and a late part to each rank
  }
  r.without_effect({rotate}, "the context axis has one rank");
}

void read_host(LaunchReading& r) {
  constexpr std::string_view key = "fsdp_cpu_offload";
  if (!r.toggle(key).value_or(false)) return;
  if (r.is_set("workload.adapters.rank")) {
    r.refuse(key, "weights off the device beside adapters are not in plans", "weights on their devices");
    return;
  }
  r.set(key, "plan.offload_states", "8");
  r.refuse(key, "weights off the device under ZeRO-3 are not in plans",
           "optimizer states there, and each rank's part of the weights on its device");
}

/// FSDP2 shards weights, gradients and states over data and context ranks.
void read_sharding(LaunchReading& r) {
  constexpr std::string_view reshard = "fsdp_reshard_after_forward", base = "workload.adapters.base";
  const bool fsdp = r.plan_number("mesh.data", 1) * r.plan_number("mesh.context", 1) > 1;
  if (!fsdp) {
    r.assume("plan.zero_stage", "0", "no ranks shard weights");
    if (r.plan_number("mesh.replica", 1) > 1)
      r.refuse("data_parallel_replicate_dim", "replicas that never sum their gradients are not in plans",
               "replicas that do");
  } else if (r.is_set(base)) {
    const bool said = r.value("model.quantize_base") != nullptr;
    const std::string_view from = said ? "model.quantize_base" : "model._component_";
    r.set(from, "plan.zero_stage", "2");
    r.refuse(from, "frozen matrices in 4 bits that FSDP shares out are not in plans",
             "ZeRO-2, where each rank has all of them");
  } else {
    r.assume("plan.zero_stage", "3", "FSDP shards weights, gradients and states");
    if (const auto again = r.toggle(reshard)) r.set(reshard, "plan.reshard_after_forward", *again ? "true" : "false");
    if (r.value("custom_sharded_layers") != nullptr)
      r.take("custom_sharded_layers", "units beside the layers, as plans have them");
  }
  if (fsdp) read_host(r);
  r.without_effect({"fsdp_cpu_offload", reshard, "custom_sharded_layers"},
                   fsdp ? "everything stays on the device" : "nothing is sharded");
}

}  // namespace

bool is_torchtune_yaml(const LaunchFile& file) {
  return std::any_of(file.values.begin(), file.values.end(), [](const LaunchValue& v) {
    return v.key.ends_with("_component_") && v.text.starts_with("torchtune.");
  });
}

void read_torchtune_yaml(LaunchReading& r) {
  if (beyond_torchtune_plans(r)) return;
  follow_references(r);
  read_torchtune_model(r);
  LaunchSizes sizes;
  read_axes(r, sizes);
  read_batch(r, sizes);
  put_sizes(r, sizes);
  bound_sequence(r);
  read_axes_ways(r, sizes);
  read_sharding(r);
  read_torchtune_memory(r);
  read_torchtune_optimizer(r);
  pass_over_torchtune_keys(r);
}

}  // namespace orrery
