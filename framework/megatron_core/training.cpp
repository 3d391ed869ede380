#include <fmt/format.h>

#include <algorithm>

#include "framework/megatron_core/read.hpp"

// Precision, optimizer and learning rate, with the defaults of training/arguments.py and
// core/optimizer/optimizer_config.py, NVIDIA/Megatron-LM@d98e8a64.

namespace orrery {
namespace {

void precision(MegatronFlags& f) {
  LaunchReading& r = f.reading();
  const bool half = f.on("--bf16") || f.on("--fp16");
  const char* fp8 = f.has("--fp8-format") ? "--fp8-format" : "--fp8";
  if (f.has("--fp4-format")) {
    f.set("--fp4-format", "workload.precision", "\"fp8\"");
    f.refuse("--fp4-format", "products are in fp4", "fp8");
    f.take("--bf16", "what is not fp4");
  } else if (f.has(fp8) && half) {
    f.set(fp8, "workload.precision", "\"fp8\"");
    f.take("--bf16", "what is not fp8");
  } else if (f.has(fp8)) {
    f.set(fp8, "workload.precision", "\"fp8\"");
    f.refuse(fp8, "products are in fp8, and all else in fp32", "bf16 for all else");
  } else if (half) {
    f.set(f.on("--bf16") ? "--bf16" : "--fp16", "workload.precision", f.on("--bf16") ? "\"bf16\"" : "\"fp16\"");
  } else {
    r.assume("workload.precision", "\"fp32\"", "neither --bf16 nor --fp16");
  }
  if (f.on("--fp8-param-gather"))
    f.refuse("--fp8-param-gather", "weights are kept and gathered in fp8", "bf16 weights");
  if (f.on("--first-last-layers-bf16"))
    f.refuse("--first-last-layers-bf16", "products of the first and last layers are not in fp8", "fp8 in all layers");
  f.without_effect({"--num-layers-at-start-in-bf16", "--num-layers-at-end-in-bf16"},
                   "it belongs to --first-last-layers-bf16");
  if (half && f.on("--bf16")) {
    const std::string main = f.known_text("--main-grads-dtype").value_or("fp32");
    if (f.on("--grad-reduce-in-bf16"))
      f.set("--grad-reduce-in-bf16", "workload.gradient_dtype", "\"bf16\"");
    else if (main != "fp32")
      f.set("--main-grads-dtype", "workload.gradient_dtype", "\"bf16\"");
  } else if (half) {
    const bool wide = f.on("--accumulate-allreduce-grads-in-fp32");
    r.assume("workload.gradient_dtype", wide ? "\"f32\"" : "\"f16\"", "gradients of --fp16");
  }
  for (const char* flag : {"--accumulate-allreduce-grads-in-fp32", "--grad-reduce-in-bf16", "--main-grads-dtype"})
    f.take(flag, "the type of gradients");
  if (f.on("--fp16")) {
    const auto scale = f.real("--loss-scale");
    const double start = scale.value_or(f.real("--initial-loss-scale").value_or(4294967296.0));
    r.assume("workload.loss_scale", fmt::format("{:.1f}", start), "the start of the loss scale");
    if (const auto window = f.whole("--loss-scale-window", 1))
      f.set("--loss-scale-window", "workload.loss_scale_window", std::to_string(*window));
  }
  f.without_effect({"--loss-scale", "--initial-loss-scale", "--min-loss-scale", "--loss-scale-window", "--hysteresis"},
                   "it sets the loss scale");
}

/// Types of the optimizer's states.
void states(MegatronFlags& f) {
  if (f.on("--use-precision-aware-optimizer")) {
    const std::string first = f.known_text("--exp-avg-dtype").value_or("fp32"),
                      second = f.known_text("--exp-avg-sq-dtype").value_or("fp32");
    const char* flag = f.has("--exp-avg-dtype") ? "--exp-avg-dtype" : "--use-precision-aware-optimizer";
    if (first == "bf16" && second == "bf16")
      f.set(flag, "workload.moment_dtype", "\"bf16\"");
    else if (first == "fp8" && second == "fp16")
      f.set(flag, "workload.moment_dtype", "\"f8\"");
    else if (first != "fp32" || second != "fp32")
      f.refuse(flag, fmt::format("moments are in {} and {}", first, second), "f32");
    if (f.known_text("--main-params-dtype").value_or("fp32") != "fp32")
      f.refuse("--main-params-dtype", "master weights are in 16 bits", "f32");
    else if (f.on("--bf16") && !f.on("--no-store-param-remainders") && !f.on("--disable-store-param-remainders") &&
             !f.on("--optimizer-cpu-offload"))
      f.refuse("--use-precision-aware-optimizer", "masters are kept as the 16 bits that bf16 weights lack",
               "whole masters in f32");
  }
  for (const char* flag :
       {"--use-precision-aware-optimizer", "--exp-avg-dtype", "--exp-avg-sq-dtype", "--main-params-dtype"})
    f.take(flag, "the type of states");
}

void optimizer(MegatronFlags& f) {
  LaunchReading& r = f.reading();
  const std::string kind = f.known_text("--optimizer").value_or("adam");
  const auto number = [&](const char* flag, const char* key, double usual) {
    const auto value = f.real(flag);
    const std::string text = fmt::format("{}", value.value_or(usual));
    if (value)
      f.set(flag, key, text);
    else
      r.assume(key, text, "Megatron-LM's default");
  };
  const bool sgd = kind == "sgd";
  if (f.has("--optimizer")) f.set("--optimizer", "workload.optimizer.kind", sgd ? "\"sgd\"" : "\"adam\"");
  if (!sgd && kind != "adam" && kind != "adamw")
    f.refuse("--optimizer", fmt::format("plans have no optimizer {}", kind.substr(0, 40)), "adam");
  if (sgd) {
    number("--sgd-momentum", "workload.optimizer.momentum", 0.9);
  } else {
    number("--adam-beta1", "workload.optimizer.beta1", 0.9);
    number("--adam-beta2", "workload.optimizer.beta2", 0.999);
    number("--adam-eps", "workload.optimizer.epsilon", 1e-8);
  }
  number("--weight-decay", "workload.optimizer.weight_decay", 0.01);
  const auto rate = f.real("--lr");
  if (rate) f.set("--lr", "workload.optimizer.learning_rate", fmt::format("{}", *rate));
  const auto clip = f.real("--clip-grad");
  if (clip && *clip > 0.0)
    f.set("--clip-grad", "workload.clip_norm", fmt::format("{}", *clip));
  else if (!clip && !f.has("--clip-grad"))
    r.assume("workload.clip_norm", "1.0", "Megatron-LM's default");
  else
    f.take("--clip-grad", "no clipping");
}

void dropout(MegatronFlags& f) {
  const auto rate = [&](const char* flag, const char* key) {
    const auto value = f.real(flag);
    if (value)
      f.set(flag, key, fmt::format("{}", *value));
    else if (!f.has(flag))
      f.reading().assume(key, "0.1", "Megatron-LM's default");
  };
  rate("--hidden-dropout", "workload.hidden_dropout");
  rate("--attention-dropout", "workload.attention_dropout");
}

/// The learning rate over time, where it is simple; none of it has an effect on a step.
void schedule(MegatronFlags& f) {
  const std::string style = f.known_text("--lr-decay-style").value_or("linear");
  const auto rate = f.real("--lr");
  const auto steps = f.has("--lr-decay-iters") ? f.whole("--lr-decay-iters") : f.whole("--train-iters");
  const auto fraction = f.real("--lr-warmup-fraction");
  std::uint64_t warmup = f.whole("--lr-warmup-iters").value_or(0);
  if (fraction && steps && *fraction >= 0.0 && *fraction < 1.0)
    warmup = static_cast<std::uint64_t>(*fraction * static_cast<double>(*steps));
  const double least = f.real("--min-lr").value_or(0.0);
  const bool falls = style == "linear" || style == "cosine";
  if (rate && (style == "constant" || (falls && steps && *steps > warmup && *rate > 0.0 && least <= *rate))) {
    const char* flag = f.has("--lr-decay-style") ? "--lr-decay-style" : "--lr";
    f.set(flag, "workload.schedule.kind", fmt::format("\"{}\"", style));
    if (warmup > 0) f.reading().assume("workload.schedule.warmup_steps", std::to_string(warmup), "");
    if (falls) {
      f.reading().assume("workload.schedule.total_steps", std::to_string(*steps), "");
      f.reading().assume("workload.schedule.minimum_ratio", fmt::format("{}", least / *rate), "");
    }
    for (const char* said : {"--lr-decay-iters", "--min-lr", "--lr-warmup-iters", "--lr-warmup-fraction"})
      f.take(said, "[workload.schedule]");
    if (falls && !f.has("--lr-decay-iters")) f.take("--train-iters", "[workload.schedule]");
  }
  f.without_effect({"--lr-*", "--min-lr", "--train-iters", "--train-samples", "--decoupled-*", "--warmup"},
                   "the learning rate over time changes no step's time or memory");
}

}  // namespace

void read_megatron_training(MegatronFlags& f) {
  precision(f);
  states(f);
  optimizer(f);
  dropout(f);
  schedule(f);
  if (const auto seed = f.whole("--seed")) f.set("--seed", "workload.seed", std::to_string(*seed));
  if (const auto weight = f.real("--mtp-loss-scaling-factor"); weight && f.has("--mtp-num-layers"))
    f.set("--mtp-loss-scaling-factor", "workload.prediction_loss_weight", fmt::format("{}", *weight));
  else if (f.has("--mtp-num-layers"))
    f.reading().assume("workload.prediction_loss_weight", "0.1", "Megatron-LM's default");
  if (f.on("--mtp-use-repeated-layer"))
    f.refuse("--mtp-use-repeated-layer", "prediction modules share one layer", "a layer for each");
  f.without_effect({"--mtp-loss-scaling-factor", "--mtp-detach-heads"}, "it changes the loss alone");
}

}  // namespace orrery
