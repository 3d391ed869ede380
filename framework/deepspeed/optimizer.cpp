#include <fmt/format.h>

#include <algorithm>

#include "framework/deepspeed/parts.hpp"

// The optimizer, its learning rate over time, and clipping.

namespace orrery {
namespace {

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return text;
}

void read_kind(DeepSpeedKeys& k, const std::string& type) {
  LaunchReading& r = k.r;
  constexpr const char* from = "optimizer.type";
  const std::string t = lowered(type);
  const auto set = [&](const char* kind) { r.set(from, "workload.optimizer.kind", fmt::format("\"{}\"", kind)); };
  if (t == "adam" || t == "adamw" || t == "fusedadam" || t == "deepspeedcpuadam") return set("adam");
  if (t == "lamb" || t == "fusedlamb") return set("lamb");
  if (t == "sgd") return set("sgd");
  if (t == "muadam" || t == "muadamw" || t == "musgd") return set(t == "musgd" ? "sgd" : "adam");
  if (t == "onebitadam" || t == "zerooneadam") {
    r.refuse(from, fmt::format("the compressed messages of {} are not in plans", type), "adam");
    r.assume("workload.optimizer.kind", "\"adam\"", "");
    return;
  }
  if (t == "onebitlamb") {
    r.refuse(from, "the compressed messages of OneBitLamb are not in plans", "lamb");
    r.assume("workload.optimizer.kind", "\"lamb\"", "");
    return;
  }
  if (t == "lion" || t == "adagrad" || t == "muon") {
    // One state for each weight, as momentum is.
    r.refuse(from, fmt::format("{} is not in plans", type), "sgd with momentum, which has as many states");
    r.assume("workload.optimizer.kind", "\"sgd\"", "");
    return;
  }
  r.error(from, fmt::format("{} is no optimizer that plans have", type.substr(0, 60)),
          {"Known: Adam, AdamW, Lamb, SGD; Lion, Adagrad, Muon and 1-bit ones by the nearest."});
}

void read_params(DeepSpeedKeys& k) {
  LaunchReading& r = k.r;
  k.set_real("optimizer.params.lr", "workload.optimizer.learning_rate");
  k.set_real("optimizer.params.weight_decay", "workload.optimizer.weight_decay");
  const auto kind = lowered(k.text("optimizer.type").value_or("adam"));
  const bool moments = kind.find("adam") != std::string::npos || kind.find("lamb") != std::string::npos;
  constexpr const char* betas = "optimizer.params.betas";
  if (const LaunchValue* v = r.value(betas); v != nullptr && moments && !k.is_open(betas)) {
    if (v->kind != LaunchValue::Kind::list || v->items.size() != 2 || v->items[0].kind != LaunchValue::Kind::number ||
        v->items[1].kind != LaunchValue::Kind::number) {
      r.error(betas, "betas are two numbers");
    } else {
      r.set(betas, "workload.optimizer.beta1", toml_real(std::stod(v->items[0].text)));
      r.set(betas, "workload.optimizer.beta2", toml_real(std::stod(v->items[1].text)));
    }
  }
  if (moments) k.set_real("optimizer.params.eps", "workload.optimizer.epsilon");
  if (kind == "sgd" || kind == "musgd") k.set_real("optimizer.params.momentum", "workload.optimizer.momentum");
  if (k.toggle("optimizer.params.adam_w_mode").value_or(true) == false) {
    r.refuse("optimizer.params.adam_w_mode", "weight decay inside the gradient is not in plans", "decoupled decay");
  }
  r.without_effect({"optimizer.params", "optimizer.params.*", "optimizer.legacy_fusion"},
                   "it costs no step time or memory");
}

void read_scheduler(DeepSpeedKeys& k) {
  LaunchReading& r = k.r;
  constexpr const char* from = "scheduler.type";
  const std::string type = lowered(k.text(from).value_or(""));
  if (type.empty()) return r.without_effect({"scheduler", "scheduler.*"}, "the learning rate costs no step time");
  const bool decays = type == "warmupdecaylr", cosine = type == "warmupcosinelr";
  if (decays || cosine || type == "warmuplr") {
    const auto total = k.whole("scheduler.params.total_num_steps", 1);
    const bool whole = total && (decays || cosine);
    r.set(from, "workload.schedule.kind", !whole ? "\"constant\"" : decays ? "\"linear\"" : "\"cosine\"");
    if (whole) r.set("scheduler.params.total_num_steps", "workload.schedule.total_steps", std::to_string(*total));
    const auto warm = k.whole("scheduler.params.warmup_num_steps");
    if (warm && (!whole || *warm < *total))
      r.set("scheduler.params.warmup_num_steps", "workload.schedule.warmup_steps", std::to_string(*warm));
    if (cosine && whole) k.set_real("scheduler.params.cos_min_ratio", "workload.schedule.minimum_ratio");
    if (!r.is_set("workload.optimizer.learning_rate") || r.value("optimizer.params.lr") == nullptr)
      k.set_real("scheduler.params.warmup_max_lr", "workload.optimizer.learning_rate");
  }
  r.without_effect({"scheduler", "scheduler.*"}, "the learning rate costs no step time");
}

}  // namespace

void read_deepspeed_optimizer(DeepSpeedKeys& k, std::uint64_t) {
  LaunchReading& r = k.r;
  if (const auto type = k.text("optimizer.type")) {
    read_kind(k, *type);
    read_params(k);
  } else {
    r.without_effect({"optimizer", "optimizer.*"}, "without a type the script's optimizer is used");
  }
  read_scheduler(k);
  for (const char* key : {"gradient_clipping", "optimizer.params.max_grad_norm"}) {
    const auto norm = k.real(key);
    if (!norm) continue;
    if (*norm > 0.0)
      r.set(key, "workload.clip_norm", toml_real(*norm));
    else
      r.take(key, "no clipping");
  }
}

}  // namespace orrery
