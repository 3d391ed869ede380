#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/llama_factory/yaml.hpp"

// Training on Megatron, by mcore_adapter or Megatron-Bridge. Source: hiyouga/LLaMA-Factory@ff6d4d12
// src/llamafactory/hparams/megatron_bridge_args.py and src/llamafactory/train/mca/workflow.py.

namespace orrery {
namespace {

/// Keys that Megatron's arguments have and transformers' have not.
constexpr std::array own_keys{"tensor_model_parallel_size",
                              "pipeline_model_parallel_size",
                              "expert_model_parallel_size",
                              "context_parallel_size",
                              "virtual_pipeline_model_parallel_size",
                              "sequence_parallel",
                              "use_distributed_optimizer",
                              "overlap_grad_reduce",
                              "overlap_param_gather",
                              "recompute_granularity",
                              "recompute_method",
                              "recompute_num_layers",
                              "account_for_embedding_in_pipeline_split",
                              "account_for_loss_in_pipeline_split",
                              "bias_activation_fusion",
                              "apply_rope_fusion",
                              "masked_softmax_fusion",
                              "cross_entropy_loss_fusion",
                              "moe_grouped_gemm",
                              "moe_token_dispatcher_type",
                              "calculate_per_token_loss",
                              "use_packed_sequences",
                              "megatron_pretrained_checkpoint",
                              "extra_config"};

void read_axis(LaunchReading& r, const char* key, LaunchSizes::Size& into) {
  const auto n = r.whole(key, 1);
  if (!n) return;
  if (*n > 1)
    into = {*n, key};
  else
    r.take(key, "no split");
}

void read_schedule(LaunchReading& r) {
  const auto chunks = r.whole("virtual_pipeline_model_parallel_size", 1);
  if (chunks && *chunks > 1) {
    r.set("virtual_pipeline_model_parallel_size", "plan.chunks", std::to_string(*chunks));
    r.set("virtual_pipeline_model_parallel_size", "plan.schedule", "\"interleaved\"");
  }
  for (const char* key : {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"}) {
    if (r.toggle(key).value_or(false))
      r.refuse(key, "embedding and loss counted as layers are not read here", "a split by Orrery's choice");
  }
  for (const char* key : {"num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"}) {
    if (r.value(key) != nullptr)
      r.refuse(key, "layers of the first and last stage are not read here", "a split by Orrery's choice");
  }
}

void read_recomputation(LaunchReading& r) {
  const auto word = r.word("recompute_granularity", {"full", "selective"});
  const auto method = r.word("recompute_method", {"uniform", "block"});
  const auto layers = r.whole("recompute_num_layers", 1);
  if (word == "full") {
    r.set("recompute_granularity", "plan.recompute", "\"full\"");
    if (method == "block" && layers) {
      r.refuse("recompute_num_layers", "layers of a block in each stage are not read here", "all layers");
    }
  } else if (word) {
    r.take("recompute_granularity", "the flash kernel keeps no scores that could be computed again");
  }
  r.without_effect({"recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules"},
                   "whole layers are recomputed");
}

}  // namespace

bool runs_on_megatron(const LaunchFile& file) {
  return std::any_of(own_keys.begin(), own_keys.end(), [&](const char* key) { return file.has(key); });
}

void read_llama_factory_megatron(LaunchReading& r, LaunchSizes& sizes) {
  read_axis(r, "tensor_model_parallel_size", sizes.tensor);
  read_axis(r, "pipeline_model_parallel_size", sizes.pipeline);
  read_axis(r, "expert_model_parallel_size", sizes.expert);
  read_axis(r, "context_parallel_size", sizes.context);
  // Megatron passes keys around a ring; each rank holds an early and a late chunk (cp_comm_type p2p, its default).
  if (sizes.context.value > 1) {
    r.set("context_parallel_size", "plan.context", "\"ring\"");
    r.set("context_parallel_size", "plan.zigzag", "true");
  }
  if (const auto on = r.toggle("sequence_parallel")) {
    if (*on && sizes.tensor.value > 1)
      r.set("sequence_parallel", "plan.sequence_parallel", "true");
    else
      r.without_effect("sequence_parallel", "no tensor parallelism to go with");
  }
  const bool bridge = r.toggle("use_megatron_bridge").value_or(false);
  const auto distributed = r.toggle("use_distributed_optimizer");
  if (distributed)
    r.set("use_distributed_optimizer", "plan.zero_stage", *distributed ? "1" : "0");
  else
    r.assume("plan.zero_stage", bridge ? "1" : "0", "the default of use_distributed_optimizer");
  const auto overlap = r.toggle("overlap_grad_reduce");
  if (overlap)
    r.set("overlap_grad_reduce", "plan.overlap_gradients", *overlap ? "true" : "false");
  else
    r.assume("plan.overlap_gradients", bridge ? "true" : "false", "the default of overlap_grad_reduce");
  read_schedule(r);
  read_recomputation(r);
  const auto cut = r.whole("expert_tensor_parallel_size", 1);
  lay_out_experts(r, sizes, cut ? std::optional(LaunchSizes::Size{*cut, "expert_tensor_parallel_size"}) : std::nullopt);
  if (const auto text = r.text("extra_config"); text && !text->empty()) {
    r.refuse("extra_config", "keys that pass through to Megatron are not read here", "its defaults");
  }
  r.without_effect({"virtual_pipeline_model_parallel_size", "account_for_*", "overlap_*", "bias_activation_fusion",
                    "apply_rope_fusion", "masked_softmax_fusion", "cross_entropy_*", "moe_*", "mixed_precision",
                    "calculate_per_token_loss", "megatron_*", "export_hf_on_finish", "use_packed_sequences",
                    "variable_seq_lengths", "deepspeed", "fsdp", "transformer_impl", "attention_backend"},
                   "of kernels, which are priced with the software");
}

}  // namespace orrery
