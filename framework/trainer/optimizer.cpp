#include "framework/trainer/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace orrery {
namespace {

/// What becomes of an optimizer's name. Sources: huggingface/transformers v4.56.2 training_args.py (OptimizerNames),
/// axolotl-ai-cloud/axolotl@067b021c src/axolotl/utils/schemas/enums.py (CustomSupportedOptimizers); moments in 8 bits:
/// bitsandbytes-foundation/bitsandbytes@01327aa0 bitsandbytes/functional.py, pytorch/ao@0372e5ff torchao/optim/adam.py.
struct Row {
  std::string_view name;
  std::string_view kind = "adam";
  std::string_view moments = "weights";  ///< type; "weights": as the weights; empty: it keeps none
  std::string_view lacks = {};           ///< what a plan cannot say of it
  std::string_view nearest = {};
  bool paged = false;           ///< moments are in pages, which move to the host where the device is full
  bool wide_embedding = false;  ///< the Trainer keeps moments of embeddings in 32 bits
};

constexpr std::string_view codes = "moments in codes of a byte";
/// transformers v4.56.2 trainer.py, create_optimizer: a table of words keeps optim_bits = 32 with bitsandbytes.
constexpr std::string_view embedding_too =
    "moments of a trained embedding, too, which the Trainer keeps in 32 bits, 6 bytes more of each element";

constexpr std::array rows{
    Row{"adamw_torch"},
    Row{"adamw_torch_fused"},
    Row{"adamw_torch_xla"},
    Row{"adamw_torch_npu_fused"},
    Row{"adamw_apex_fused", "adam", "f32"},
    Row{"adamw_hf"},
    Row{"adamw"},
    Row{"adamw_bnb_8bit", "adam", "u8", {}, {}, false, true},
    Row{"adamw_8bit", "adam", "u8", {}, {}, false, true},
    Row{"adamw_torch_8bit", "adam", "u8"},
    Row{"ao_adamw_8bit", "adam", "u8"},
    Row{"ao_adamw_fp8", "adam", "u8", "both moments in E4M3", codes},
    Row{"adamw_torch_4bit", "adam", "u8", "moments in 4 bits", codes},
    Row{"ao_adamw_4bit", "adam", "u8", "moments in 4 bits", codes},
    Row{"paged_adamw_8bit", "adam", "u8", {}, {}, true, true},
    Row{"paged_adamw_32bit", "adam", "f32", {}, {}, true},
    Row{"paged_adamw", "adam", "f32", {}, {}, true},
    Row{"optimi_adamw", "adam", "weights", "a rounding error kept for each weight", "Adam"},
    Row{"adamw_anyprecision", "adam", "weights", "a rounding error kept for each weight", "Adam"},
    Row{"adafactor", "adafactor", ""},
};
/// Optimizers whose states or updates plans do not have; the nearest is Adam, which keeps two moments.
constexpr std::array others{"adagrad",   "ademamix",  "lion",     "rmsprop",   "galore", "lomo",    "adalomo",
                            "grokadamw", "schedule_", "apollo",   "stable_",   "muon",   "dion",    "sinkgd",
                            "came",      "flash_",    "q_galore", "adopt",     "paged_", "lamb",    "prodigy",
                            "sophia",    "shampoo",   "soap",     "adam_mini", "badam",  "sign_sgd"};

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void put_moments(LaunchReading& r, std::string_view key, std::string_view moments, WeightStorage weights) {
  std::string type(moments);
  if (moments == "weights") type = weights == WeightStorage::bf16 ? "bf16" : "";
  // Moments in f32 are what plans with weights in f32 have anyway.
  if (type.empty() || (type == "f32" && weights == WeightStorage::f32)) return;
  if (r.value(key) != nullptr)
    r.set(key, "workload.moment_dtype", "\"" + type + "\"");
  else
    r.assume("workload.moment_dtype", "\"" + type + "\"", "moments are kept in the type of the weights");
}

/// A number of the Trainer, or its default. Keys of one optimizer alone are said only where it is that one.
void put_number(LaunchReading& r, const char* key, const char* plan_key, const char* usual) {
  if (const auto n = r.real(key))
    r.set(key, plan_key, fmt::format("{}", *n));
  else
    r.assume(plan_key, usual, "the Trainer's default");
}

}  // namespace

void read_trainer_optimizer(LaunchReading& r, std::string_view key, WeightStorage weights) {
  const std::string name = lowered(r.text(key).value_or("adamw_torch"));
  std::string_view kind = "adam";
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) { return known.name == name; });
  if (row != rows.end()) {
    kind = row->kind;
    if (r.value(key) != nullptr) r.set(key, "workload.optimizer.kind", fmt::format("\"{}\"", kind));
    put_moments(r, key, row->moments, weights);
    if (row->wide_embedding) r.take(key, std::string(embedding_too));
    if (row->paged) r.take(key, std::string(pages_on_device));
    if (!row->lacks.empty()) {
      r.refuse(key, fmt::format("{} are not in plans", row->lacks), std::string(row->nearest));
    }
  } else if (name == "sgd") {
    kind = "sgd";
    r.set(key, "workload.optimizer.kind", "\"sgd\"");
    r.set(key, "workload.optimizer.momentum", "0.0");  // torch.optim.SGD's default
  } else if (std::any_of(others.begin(), others.end(), [&](std::string_view o) { return name.starts_with(o); })) {
    refuse_optimizer(r, key, name);
    put_moments(r, key, "weights", weights);
  } else {
    r.error(key, fmt::format("no optimizer is known as \"{}\"", name.substr(0, 60)));
  }
  put_number(r, "learning_rate", "workload.optimizer.learning_rate", "5e-5");
  put_number(r, "weight_decay", "workload.optimizer.weight_decay", "0.0");
  if (kind == "adam") {
    put_number(r, "adam_beta1", "workload.optimizer.beta1", "0.9");
    put_number(r, "adam_beta2", "workload.optimizer.beta2", "0.999");
    put_number(r, "adam_epsilon", "workload.optimizer.epsilon", "1e-8");
  } else {
    for (const char* beta : {"adam_beta1", "adam_beta2", "adam_epsilon"}) {
      if (r.value(beta) != nullptr) r.without_effect(beta, "of Adam, which this run does not use");
    }
  }
  const std::optional<double> clip = r.real("max_grad_norm");
  if (clip && *clip > 0.0)
    r.set("max_grad_norm", "workload.clip_norm", fmt::format("{}", *clip));
  else if (clip)
    r.without_effect("max_grad_norm", "no clipping");
  else
    r.assume("workload.clip_norm", "1.0", "the Trainer's default");
}

void refuse_optimizer(LaunchReading& r, std::string_view key, std::string_view name) {
  r.refuse(key, fmt::format("the optimizer {} is not in plans", name.substr(0, 40)), "Adam");
}

void read_trainer_schedule(LaunchReading& r, std::string_view key) {
  const std::string name = lowered(r.text(key).value_or(""));
  const auto steps = r.integer("max_steps");
  const auto warmup = r.real("warmup_steps");
  const auto share = r.real("warmup_ratio");
  const char* kind = name == "linear"                                       ? "linear"
                     : name == "cosine"                                     ? "cosine"
                     : name == "constant" || name == "constant_with_warmup" ? "constant"
                                                                            : nullptr;
  const std::uint64_t total = steps && *steps > 0 && *steps <= 1'000'000'000 ? static_cast<std::uint64_t>(*steps) : 0;
  double warm = warmup.value_or(0.0);
  if (warm > 0.0 && warm < 1.0) warm *= static_cast<double>(total);  // transformers 5 takes a share here too
  if (warm <= 0.0 && share) warm = *share * static_cast<double>(total);
  const std::uint64_t rising = warm > 0.0 && warm <= static_cast<double>(total) ? static_cast<std::uint64_t>(warm) : 0;
  if (kind != nullptr && total > rising) {
    r.set(key, "workload.schedule.kind", fmt::format("\"{}\"", kind));
    r.set("max_steps", "workload.schedule.total_steps", std::to_string(total));
    const char* from = warmup && *warmup > 0.0 ? "warmup_steps" : "warmup_ratio";
    if (rising > 0) r.set(from, "workload.schedule.warmup_steps", std::to_string(rising));
  }
  r.without_effect({key == "lr_scheduler" ? "lr_scheduler" : "lr_scheduler_type", "max_steps", "warmup_steps",
                    "warmup_ratio", "lr_scheduler_kwargs", "lr_scheduler_kwargs.*"},
                   "rates change no step");
}

}  // namespace orrery
