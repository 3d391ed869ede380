#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "framework/deepspeed/parts.hpp"

// Precision: bf16, fp16, and neither.

namespace orrery {
namespace {

/// The loss scale of fp16: a fixed one, or 2 to a power.
void read_loss_scale(DeepSpeedKeys& k) {
  LaunchReading& r = k.r;
  constexpr const char* fixed = "fp16.loss_scale";
  constexpr const char* power = "fp16.initial_scale_power";
  constexpr std::uint64_t most_power = 40;  // of plans
  if (const auto p = k.whole(power)) {
    const std::uint64_t used = std::min(*p, most_power);
    r.set(power, "workload.loss_scale", toml_real(std::ldexp(1.0, static_cast<int>(used))));
  }
  if (const auto scale = k.real(fixed)) {
    if (*scale >= 1.0) {
      r.set(fixed, "workload.loss_scale", toml_real(*scale));
    } else {
      r.take(fixed, "the loss scale moves");
    }
  }
  if (const auto window = k.whole("fp16.loss_scale_window", 1)) {
    r.set("fp16.loss_scale_window", "workload.loss_scale_window", std::to_string(*window));
  }
}

}  // namespace

DeepSpeedTypes read_deepspeed_types(DeepSpeedKeys& k, std::uint64_t stage, const DeepSpeedOutside& outside) {
  LaunchReading& r = k.r;
  // The table may be a value alone, "bf16": true, in old files.
  const auto enabled = [&](const std::string& table, bool& open) -> std::optional<std::string> {
    for (const std::string& key : {table + ".enabled", table}) {
      if (k.r.value(key) == nullptr || r.value(key)->kind == LaunchValue::Kind::table) continue;
      if (k.is_open(key)) {
        open = true;
        return std::nullopt;
      }
      const auto on = k.toggle(key);
      if (on.value_or(false)) return key;
      if (on) r.take(key, fmt::format("no {}", table));
      return std::nullopt;
    }
    return std::nullopt;
  };
  bool open_bf16 = false, open_fp16 = false;
  std::optional<std::string> bf16 = enabled("bf16", open_bf16);
  if (!bf16) bf16 = enabled("bfloat16", open_bf16);
  const std::optional<std::string> fp16 = enabled("fp16", open_fp16);
  if (bf16 && fp16) r.error(*fp16, "bf16 and fp16 are both enabled");

  std::string precision = "fp32", from;
  if (bf16)
    precision = "bf16", from = *bf16;
  else if (fp16)
    precision = "fp16", from = *fp16;
  if (const auto amp = k.toggle("amp.enabled"); amp.value_or(false)) {
    r.refuse("amp.enabled", "Apex casts operation by operation", "fp16");
    precision = "fp16";
  }
  if (!from.empty()) {
    r.set(from, "workload.precision", fmt::format("\"{}\"", precision));
  } else if (open_bf16 || open_fp16) {
    precision = outside.precision.value_or(open_bf16 ? "bf16" : "fp16");
    r.assume("workload.precision", fmt::format("\"{}\"", precision),
             outside.precision ? "as the launching program says" : "the file leaves it to the training script");
  } else {
    if (outside.precision && !k.has("amp.enabled")) precision = *outside.precision;
    r.assume("workload.precision", fmt::format("\"{}\"", precision),
             outside.precision ? "as the launching program says" : "DeepSpeed trains in fp32 unless told otherwise");
  }
  if (precision == "fp16") read_loss_scale(k);
  if (k.toggle("fp16.fp16_master_weights_and_grads").value_or(false)) {
    r.refuse("fp16.fp16_master_weights_and_grads", "16-bit master weights are not in plans", "32-bit ones");
  }
  for (const char* table : {"bf16", "bfloat16", "fp16"}) {
    const std::string at(table);
    if (!k.toggle(at + ".bf16_master_weights_and_grads").value_or(false)) continue;
    if (precision == "bf16") {
      r.set(at + ".bf16_master_weights_and_grads", "workload.master_weights", "false");
    } else {
      r.refuse(at + ".bf16_master_weights_and_grads", "16-bit master weights are not in plans", "32-bit ones");
    }
  }
  r.without_effect({"fp16.*", "bf16.*", "bfloat16.*", "amp", "amp.*", "fp16", "bf16", "bfloat16"},
                   "how losses and casts are handled costs no step time");
  r.without_effect({"torch_autocast", "torch_autocast.*"}, "it casts as the precision says");

  // Gradients are summed in the model's type, but bf16 without ZeRO sums in fp32: engine.py, get_data_types.
  DeepSpeedTypes out{precision, "f32", 4};
  const std::string narrow = precision == "fp16" ? "f16" : "bf16";
  if (precision == "fp32") return out;
  constexpr const char* key = "data_types.grad_accum_dtype";
  std::optional<std::string> sums;
  if (k.has(key) && !k.is_open(key)) sums = r.word(key, {"fp32", "fp16", "bf16"});
  const bool wide = sums ? *sums == "fp32" : stage == 0 && precision == "bf16";
  if (!wide) out = {precision, narrow, 2};
  if (sums)
    r.set(key, "workload.gradient_dtype", fmt::format("\"{}\"", out.sums));
  else
    r.assume("workload.gradient_dtype", fmt::format("\"{}\"", out.sums),
             wide ? "bf16 without ZeRO sums gradients in fp32" : "DeepSpeed sums gradients in the model's type");
  return out;
}

}  // namespace orrery
