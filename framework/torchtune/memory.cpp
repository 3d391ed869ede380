#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "framework/torchtune/yaml.hpp"
#include "framework/trainer/loss.hpp"

// Types, recomputation, activations and the loss. Source: pytorch/torchtune@bd2a0fc7
// recipes/full_finetune_distributed.py and lora_finetune_{distributed,single_device}.py; torchtune/training
// (activations.py, precision.py, quantization.py); torchtune/modules/loss.

namespace orrery {
namespace {

/// Weights are made in the file's type, and so are adapters, gradients and moments: there are no other copies.
void read_types(LaunchReading& r) {
  // Without a type PyTorch's default holds (torchtune/training/precision.py, get_dtype).
  const std::string type = r.word("dtype", {"bf16", "fp32", "fp64"}).value_or("fp32");
  const bool fp8 = r.toggle("enable_fp8_training").value_or(false);
  if (r.value("dtype") == nullptr)
    r.assume("workload.precision", "\"fp32\"", "torchtune's default");
  else if (!fp8)
    r.set("dtype", "workload.precision", "\"" + type + "\"");
  if (type == "bf16") r.set("dtype", "workload.master_weights", "false");
  if (fp8 && type == "bf16") {
    r.set("enable_fp8_training", "workload.precision", "\"fp8\"");
  } else if (fp8) {
    r.refuse("enable_fp8_training", fmt::format("products in fp8 of weights in {} are not in plans", type),
             "products in " + type);
    if (r.value("dtype") != nullptr) r.set("dtype", "workload.precision", "\"" + type + "\"");
  }
  r.without_effect({"enable_fp8_training"}, "it is off");
  r.without_effect({"fp8_recipe_name"}, fp8 ? "which scales fp8 has is no part of a plan" : "of fp8, which is off");
}

/// Every n-th layer is recomputed: the same number of layers.
void read_selective(LaunchReading& r, std::string_view from, std::uint64_t every) {
  const ModelSpec* model = r.known_model();
  r.take(from, every == 1 ? "all layers recomputed" : fmt::format("one layer in {} recomputed", every));
  if (model == nullptr) return;  // the missing model is an error of its own
  const std::uint64_t layers = model->layers / every;
  r.set("ac_mode", "plan.recompute", layers == 0 ? "\"none\"" : "\"full\"");
  if (layers == 0 || layers == model->layers) return;
  r.set("ac_mode", "plan.stage_layers", fmt::format("[{}]", model->layers));
  r.set("ac_mode", "plan.recompute_layers", fmt::format("[{}]", layers));
}

void read_recomputation(LaunchReading& r) {
  const auto on = r.toggle("enable_activation_checkpointing");
  const auto mode = r.word("ac_mode", {"full", "selective", "none"});
  const bool own = mode && *mode != "none";
  // With both, the recipe does neither.
  if (on && *on && mode) {
    r.take("enable_activation_checkpointing", "nothing is recomputed, since ac_mode is there too");
    r.set("ac_mode", "plan.recompute", "\"none\"");
  } else if (on) {
    r.set("enable_activation_checkpointing", "plan.recompute", *on ? "\"full\"" : "\"none\"");
  }
  if (own && !on.value_or(false)) {
    const auto every = *mode == "full" ? std::optional<std::uint64_t>(1) : r.whole("ac_option", 0, 1U << 20U);
    if (every)
      read_selective(r, *mode == "full" ? "ac_mode" : "ac_option", std::max<std::uint64_t>(*every, 1));
    else if (r.value("ac_option") == nullptr)
      r.error("ac_mode", "selective needs a number of layers", {"Give ac_option: 2 for every second layer."});
  }
  r.without_effect({"ac_mode", "ac_option"}, "another mode is chosen");
  r.assume("plan.recompute", "\"none\"", "torchtune's default");
}

void read_offload(LaunchReading& r) {
  constexpr std::string_view key = "enable_activation_offloading";
  if (r.toggle(key).value_or(false)) {
    if (!r.toggle("enable_activation_checkpointing").value_or(false)) {
      r.error(key, "torchtune offloads activations only where it recomputes layers",
              {"Set enable_activation_checkpointing: True too."});
    } else if (r.is_set("workload.adapters.rank")) {
      r.refuse(key, "activations off the device beside adapters are not in plans", "activations on the device");
    } else {
      r.set(key, "plan.offload_activations", "8");
    }
  }
  r.without_effect({key}, "activations stay on the device");
  r.without_effect({"activation_offloading_use_streams"}, "copies run beside the products in plans");
}

void read_loss(LaunchReading& r) {
  constexpr std::string_view key = "loss._component_", pieces = "loss.num_output_chunks";
  const std::string name = r.text(key).value_or("");
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  if (last == "LinearCrossEntropyLoss" || last == "CEWithChunkedOutputLoss") {
    constexpr std::uint64_t usual = 8;
    const auto n = r.whole(pieces, 1, 1U << 20U);
    r.take(key, "the loss in pieces");
    put_loss_pieces(r, n ? pieces : key, n.value_or(usual));
  } else if (last == "CrossEntropyLoss") {
    r.set(key, "plan.loss_chunks", "1");
  } else if (!name.empty()) {
    r.refuse(key, fmt::format("the loss {} is not in plans", last.substr(0, 60)), "cross-entropy");
  }
  r.without_effect({pieces, "loss.ignore_index", "loss.mask_ignored_tokens", "loss.tp_enabled", "loss.reduction"},
                   "all tokens count");
}

}  // namespace

void read_torchtune_memory(LaunchReading& r) {
  read_types(r);
  read_recomputation(r);
  read_offload(r);
  read_loss(r);
  // PyTorch's scaled_dot_product_attention, or FlexAttention where sequences are packed
  // (torchtune/modules/attention_utils.py).
  r.assume("plan.attention", "\"flash\"", "PyTorch's fused attention");
  if (const LaunchValue* v = r.value("quantizer._component_"); v != nullptr) {
    r.refuse("quantizer._component_", "training with quantization in the loop is not in plans",
             "the same training without it");
    r.without_effect({"quantizer.*", "fake_quant_after_n_steps"}, "of quantization");
  }
  r.without_effect({"quantizer", "fake_quant_after_n_steps"}, "nothing is quantized");
}

}  // namespace orrery
