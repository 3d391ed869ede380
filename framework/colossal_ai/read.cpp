#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "framework/colossal_ai/parts.hpp"
#include "framework/deepspeed/keys.hpp"

// Arguments are those of hpcaitech/ColossalAI@4f9953be, colossalai/booster/plugin.

namespace orrery {
namespace {

constexpr std::array<const char*, 6> plugins{"HybridParallelPlugin", "MoeHybridParallelPlugin", "GeminiPlugin",
                                             "LowLevelZeroPlugin",   "TorchFSDPPlugin",         "TorchDDPPlugin"};

/// The path of a plugin's arguments: its name where it is assigned, the key of a call where it stands in one.
std::string path_of(const LaunchFile& file, const std::string& name) {
  if (file.has(name)) return name;
  for (const LaunchValue& v : file.values) {
    if (v.kind == LaunchValue::Kind::text && v.text == name && v.unknown.empty() &&
        v.key.find('.') != std::string::npos)
      return v.key;
  }
  return "";
}

/// The optimizer that the text makes.
void read_optimizer(LaunchReading& r) {
  constexpr std::array<std::pair<const char*, const char*>, 11> kinds{{{"HybridAdam", "adam"},
                                                                       {"FusedAdam", "adam"},
                                                                       {"CPUAdam", "adam"},
                                                                       {"AdamW", "adam"},
                                                                       {"Adam", "adam"},
                                                                       {"DistributedAdam", "adam"},
                                                                       {"FusedLAMB", "lamb"},
                                                                       {"Lamb", "lamb"},
                                                                       {"Lars", "lars"},
                                                                       {"FusedSGD", "sgd"},
                                                                       {"SGD", "sgd"}}};
  for (const auto& [name, kind] : kinds) {
    if (!r.file().has(name)) continue;
    r.assume("workload.optimizer.kind", fmt::format("\"{}\"", kind), fmt::format("the text makes {}", name));
    const auto real = [&](const char* argument, const char* plan_key) {
      const std::string key = fmt::format("{}.{}", name, argument);
      const LaunchValue* v = r.value(key);
      if (v == nullptr || v->kind != LaunchValue::Kind::number) return;
      if (const auto value = r.real(key)) r.set(key, plan_key, toml_real(*value));
    };
    real("lr", "workload.optimizer.learning_rate");
    real("weight_decay", "workload.optimizer.weight_decay");
    const bool moments = std::string_view(kind) == "adam" || std::string_view(kind) == "lamb";
    if (moments) real("eps", "workload.optimizer.epsilon");
    if (std::string_view(kind) == "sgd") real("momentum", "workload.optimizer.momentum");
    const std::string betas = fmt::format("{}.betas", name);
    const LaunchValue* v = r.value(betas);
    if (moments && v != nullptr && v->items.size() == 2 && v->items[0].kind == LaunchValue::Kind::number &&
        v->items[1].kind == LaunchValue::Kind::number) {
      r.set(betas, "workload.optimizer.beta1", toml_real(std::strtod(v->items[0].text.c_str(), nullptr)));
      r.set(betas, "workload.optimizer.beta2", toml_real(std::strtod(v->items[1].text.c_str(), nullptr)));
    }
    return;
  }
}

}  // namespace

std::optional<LaunchSizes::Size> ColossalPlugin::size(const char* argument) const {
  const auto value = r.whole(at(argument), 1);
  return value ? std::optional(LaunchSizes::Size{*value, at(argument)}) : std::nullopt;
}

bool ColossalPlugin::on(const char* argument, bool usual) const { return r.toggle(at(argument)).value_or(usual); }

void read_colossal_types(const ColossalPlugin& p) {
  LaunchReading& r = p.r;
  const auto precision = r.word(p.at("precision"), {"fp16", "bf16", "fp32"});
  const bool eight = p.on("use_fp8");
  const std::string base = precision.value_or("fp16");
  if (eight) r.set(p.at("use_fp8"), "workload.precision", "\"fp8\"");
  if (precision && !eight)
    r.set(p.at("precision"), "workload.precision", fmt::format("\"{}\"", base));
  else if (precision)
    r.take(p.at("precision"), "the type around the products in fp8");
  else if (!eight)
    r.assume("workload.precision", "\"fp16\"", "Colossal-AI trains in fp16 unless told otherwise");
  // Gradients keep the weights' type: zero/low_level, and amp/naive_amp.
  if (base != "fp32" || eight)
    r.assume("workload.gradient_dtype", base == "fp16" && !eight ? "\"f16\"" : "\"bf16\"",
             "Colossal-AI sums gradients in the weights' type");
  if (base == "fp16" && !eight) {
    if (const auto scale = r.real(p.at("initial_scale")); scale && *scale >= 1.0)
      r.set(p.at("initial_scale"), "workload.loss_scale", toml_real(*scale));
    if (const auto window = p.size("growth_interval"))
      r.set(window->from, "workload.loss_scale_window", std::to_string(window->value));
  }
  if (const auto norm = r.real(p.at("max_norm"))) {
    if (*norm > 0.0)
      r.set(p.at("max_norm"), "workload.clip_norm", toml_real(*norm));
    else
      r.take(p.at("max_norm"), "no clipping");
  }
  if (!p.on("master_weights", true)) {
    if (base == "fp16" && !eight)
      r.refuse(p.at("master_weights"), "weights in fp16 without 32-bit ones are not in plans", "32-bit master weights");
    else if (base != "fp32")
      r.set(p.at("master_weights"), "workload.master_weights", "false");
  }
  if (p.value("communication_dtype") != nullptr) {
    r.refuse(p.at("communication_dtype"), "a type of messages of its own is not in plans",
             "messages in the type of the sums");
  }
  if (p.on("fp8_communication"))
    r.refuse(p.at("fp8_communication"), "quantised messages are not in plans", "messages in the model's type");
  for (const char* rest : {"initial_scale", "min_scale", "growth_factor", "backoff_factor", "growth_interval",
                           "hysteresis", "max_scale", "norm_type", "verbose", "fp8_communication", "cast_inputs",
                           "communication_dtype", "master_weights", "use_fp8"}) {
    const std::string key = p.at(rest);
    r.without_effect({key}, "it costs no step time");
  }
}

bool is_colossal_python(const LaunchFile& file) {
  return std::any_of(plugins.begin(), plugins.end(), [&](const char* name) { return !path_of(file, name).empty(); });
}

void read_colossal_python(LaunchReading& r) {
  std::string first;
  for (const char* name : plugins) {
    const std::string path = path_of(r.file(), name);
    if (path.empty()) continue;
    if (!first.empty()) {
      const auto& all = r.file().values;
      const auto is_argument = [&](const LaunchValue& v) { return v.key == path || v.key.starts_with(path + "."); };
      const std::string key = std::find_if(all.begin(), all.end(), is_argument)->key;
      r.error(key, fmt::format("the text makes {} and {}", first, name),
              {"A plan has one of them: leave the other out."});
      for (const LaunchValue& v : all) {
        const std::string other = v.key;
        if (is_argument(v)) r.without_effect({other}, "it is the other plugin's");
      }
      continue;
    }
    first = name;
    ColossalPlugin p{r, name, path};
    if (r.file().find(path) != nullptr) r.take(path, fmt::format("the plugin {}", name));
    LaunchSizes sizes;
    sizes.order = {"data", "pipeline", "tensor"};
    read_colossal_types(p);
    const std::string_view kind = name;
    if (kind == "HybridParallelPlugin" || kind == "MoeHybridParallelPlugin")
      read_colossal_hybrid(p, sizes);
    else if (kind == "GeminiPlugin")
      read_colossal_gemini(p, sizes);
    else
      read_colossal_data(p, sizes);
    // What the plugin does not know stays an unknown key.
    for (const LaunchValue& v : r.file().values) {
      if (!v.key.starts_with(path + ".") && v.key != path) continue;
      for (const char* known :
           {"enable_all_optimization", "enable_fused_normalization", "enable_jit_fused", "enable_flash_attention",
            "broadcast_buffers", "find_unused_parameters", "check_reduction", "gradient_as_bucket_view", "static_graph",
            "parallel_output", "custom_policy", "enable_metadata_cache", "overlap_p2p", "overlap_allgather",
            "make_vocab_size_divisible_by", "pin_memory", "scheduler_nodes"}) {
        if (v.key == p.at(known)) {
          const std::string key = v.key;
          r.without_effect({key}, "kernels and buffers are a matter of software costs");
        }
      }
    }
    read_optimizer(r);
    put_sizes(r, sizes);
  }
  // The rest of the text is no launch configuration.
  for (const LaunchValue& v : r.file().values) {
    bool of_plugin = false;
    for (const char* name : plugins) {
      const std::string path = path_of(r.file(), name);
      of_plugin = of_plugin || (!path.empty() && (v.key.starts_with(path + ".") || v.key == path));
    }
    const std::string key = v.key;
    if (!of_plugin) r.without_effect({key}, "it is no argument of the plugin");
  }
}

}  // namespace orrery
