#include "framework/trainer/optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/torchtune/yaml.hpp"

// Optimizers and rates. Source: pytorch/torchtune@bd2a0fc7 recipes/*.py, torchtune/training/lr_schedulers.py; defaults
// are those of torch.optim. Moments of torch.optim have the type of the weights; bitsandbytes' are f32 or in 8 bits
// (bitsandbytes/optim/adamw.py, optim_bits), torchao's in 8 (torchao/optim/adam.py).

namespace orrery {
namespace {

constexpr std::string_view key = "optimizer._component_";

struct Row {
  std::string_view library, name;
  std::string_view kind = "adam";
  std::string_view moments = {};  ///< type; empty: as the weights
  std::string_view lacks = {};    ///< what a plan cannot say of it
  std::string_view nearest = {};
  bool paged = false;  ///< moments are in pages, which move to the host where the device is full
};
constexpr std::string_view codes = "moments in codes of a byte";
constexpr std::array rows{
    Row{"torch", "AdamW"},
    Row{"torch", "Adam"},
    Row{"torch", "SGD", "sgd"},
    Row{"torch", "Adafactor", "adafactor"},
    Row{"bitsandbytes", "AdamW", "adam", "f32"},
    Row{"bitsandbytes", "Adam", "adam", "f32"},
    Row{"bitsandbytes", "AdamW32bit", "adam", "f32"},
    Row{"bitsandbytes", "Adam32bit", "adam", "f32"},
    Row{"bitsandbytes", "AdamW8bit", "adam", "u8"},
    Row{"bitsandbytes", "Adam8bit", "adam", "u8"},
    Row{"bitsandbytes", "PagedAdamW", "adam", "f32", {}, {}, true},
    Row{"bitsandbytes", "PagedAdam", "adam", "f32", {}, {}, true},
    Row{"bitsandbytes", "PagedAdamW32bit", "adam", "f32", {}, {}, true},
    Row{"bitsandbytes", "PagedAdamW8bit", "adam", "u8", {}, {}, true},
    Row{"bitsandbytes", "PagedAdam8bit", "adam", "u8", {}, {}, true},
    Row{"torchao", "_AdamW"},
    Row{"torchao", "AdamW8bit", "adam", "u8"},
    Row{"torchao", "Adam8bit", "adam", "u8"},
    Row{"torchao", "AdamWFp8", "adam", "u8", "both moments in E4M3", codes},
    Row{"torchao", "AdamFp8", "adam", "u8", "both moments in E4M3", codes},
    Row{"torchao", "AdamW4bit", "adam", "u8", "moments in 4 bits", codes},
    Row{"torchao", "Adam4bit", "adam", "u8", "moments in 4 bits", codes},
};

void put_number(LaunchReading& r, const char* from, const char* plan_key, const char* usual) {
  if (const auto n = r.real(from))
    r.set(from, plan_key, fmt::format("{}", *n));
  else
    r.assume(plan_key, usual, "the optimizer's default");
}

/// Adam's averaging rates: a list of two numbers.
void put_betas(LaunchReading& r) {
  constexpr std::string_view from = "optimizer.betas";
  if (const LaunchValue* list = r.value(from); list != nullptr) {
    if (list->items.size() == 2 && is_launch_number(list->items[0].text) && is_launch_number(list->items[1].text)) {
      r.set(from, "workload.optimizer.beta1", list->items[0].text);
      r.set(from, "workload.optimizer.beta2", list->items[1].text);
    } else {
      r.error(from, "betas are two numbers", {"Adam's are [0.9, 0.999] where the file has none."});
    }
  }
  r.assume("workload.optimizer.beta1", "0.9", "the optimizer's default");
  r.assume("workload.optimizer.beta2", "0.999", "the optimizer's default");
}

/// The component's row, its kind and moments put in place; the kind where it is known.
std::string_view put_kind(LaunchReading& r, std::string_view from, const std::string& component) {
  const std::string_view library = std::string_view(component).substr(0, component.find('.'));
  const std::string_view name = std::string_view(component).substr(component.rfind('.') + 1);
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Row& k) { return k.library == library && k.name == name; });
  if (row == rows.end()) {
    refuse_optimizer(r, from, name);
    return "adam";
  }
  r.set(from, "workload.optimizer.kind", fmt::format("\"{}\"", row->kind));
  const bool wide = r.is_set("workload.master_weights");  // weights in bf16 alone
  if (row->moments == "u8" || (row->moments == "f32" && wide))
    r.set(from, "workload.moment_dtype", fmt::format("\"{}\"", row->moments));
  if (row->paged) r.take(from, std::string(pages_on_device));
  if (!row->lacks.empty()) r.refuse(from, fmt::format("{} are not in plans", row->lacks), std::string(row->nearest));
  return row->kind;
}

/// torchao's wrapper: another optimizer, whose states and updates are the host's.
bool is_on_host(LaunchReading& r, const std::string& component) {
  if (!component.ends_with(".CPUOffloadOptimizer")) return false;
  if (r.is_set("workload.adapters.rank"))
    r.refuse(key, "optimizer states off the device beside adapters are not in plans", "states on the device");
  else
    r.set(key, "plan.offload_states", "8");
  r.without_effect({"optimizer.offload_gradients", "optimizer.minimal_size"}, "the host updates");
  return true;
}

void read_clipping(LaunchReading& r) {
  const LaunchValue* v = r.value("clip_grad_norm");
  if (v == nullptr) return;
  // "inf" asks for the norm, which is logged, and cuts nothing.
  if (v->text == "inf" || v->text == ".inf") return r.set("clip_grad_norm", "workload.clip_norm", "1e30");
  if (const auto norm = r.real("clip_grad_norm"); norm && *norm > 0.0)
    r.set("clip_grad_norm", "workload.clip_norm", fmt::format("{}", *norm));
  r.without_effect({"clip_grad_norm"}, "no clipping");
}

void read_schedule(LaunchReading& r) {
  const std::string name = r.text("lr_scheduler._component_").value_or("");
  const auto epochs = r.whole("epochs"), steps = r.whole("max_steps_per_epoch");
  const std::uint64_t rising = r.whole("lr_scheduler.num_warmup_steps").value_or(0);
  const std::uint64_t total = epochs && steps && *epochs <= 1'000'000 && *steps <= 1'000'000 ? *epochs * *steps : 0;
  if (name.ends_with(".get_cosine_schedule_with_warmup") && total > rising) {
    r.set("lr_scheduler._component_", "workload.schedule.kind", "\"cosine\"");
    r.set("max_steps_per_epoch", "workload.schedule.total_steps", std::to_string(total));
    if (rising > 0) r.set("lr_scheduler.num_warmup_steps", "workload.schedule.warmup_steps", std::to_string(rising));
  }
  r.without_effect({"lr_scheduler.*", "lr_scheduler", "epochs", "max_steps_per_epoch"}, "rates change no step");
}

}  // namespace

void read_torchtune_optimizer(LaunchReading& r) {
  std::string component = r.text(key).value_or("");
  std::string_view kind = "adam";
  if (is_on_host(r, component)) {
    component = r.text("optimizer.optimizer_class").value_or("torch.optim.AdamW");
    kind = put_kind(r, "optimizer.optimizer_class", component);
  } else if (!component.empty()) {
    kind = put_kind(r, key, component);
  }
  put_number(r, "optimizer.lr", "workload.optimizer.learning_rate", kind == "adafactor" ? "1e-2" : "1e-3");
  put_number(r, "optimizer.weight_decay", "workload.optimizer.weight_decay",
             component.find("AdamW") != std::string::npos ? "0.01" : "0.0");
  if (r.toggle("optimizer.is_paged").value_or(false)) r.take("optimizer.is_paged", std::string(pages_on_device));
  if (kind == "adam") {
    put_betas(r);
    put_number(r, "optimizer.eps", "workload.optimizer.epsilon", "1e-8");
  } else if (kind == "sgd") {
    put_number(r, "optimizer.momentum", "workload.optimizer.momentum", "0.0");
  }
  r.without_effect({"optimizer.betas", "optimizer.eps", "optimizer.momentum"}, "of another optimizer");
  r.without_effect(
      {"optimizer.fused", "optimizer.foreach", "optimizer.capturable", "optimizer.block_size",
       "optimizer.bf16_stochastic_round", "optimizer.min_8bit_size", "optimizer.is_paged", "optimizer.amsgrad",
       "optimizer.maximize", "optimizer.beta2_decay", "optimizer.d", "optimizer.nesterov", "optimizer.dampening"},
      "of kernels and values");
  if (r.toggle("optimizer_in_bwd").value_or(false)) {
    if (r.whole("gradient_accumulation_steps").value_or(1) > 1)
      r.error("optimizer_in_bwd", "torchtune updates in the backward pass only without accumulation",
              {"Set gradient_accumulation_steps: 1, or optimizer_in_bwd: False."});
    r.refuse("optimizer_in_bwd", "updates inside the backward pass are not in plans",
             "updates behind it, so that all gradients are there at once");
  }
  r.without_effect({"optimizer_in_bwd"}, "updates follow the backward pass");
  read_clipping(r);
  read_schedule(r);
}

}  // namespace orrery
