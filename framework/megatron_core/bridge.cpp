#include <algorithm>

#include "framework/launch/model_names.hpp"
#include "framework/megatron_core/fields.hpp"
#include "framework/megatron_core/read.hpp"

// Overrides of Megatron-Bridge and NeMo, whose fields are Megatron-LM's flags under dotted names. What they leave open
// stands in a recipe, which is a program and is not read; its usual values are assumed.

namespace orrery {
namespace {

/// Sections whose fields change no step.
bool is_idle(std::string_view key) {
  for (const char* section : {"checkpoint.",
                              "logger.",
                              "log.",
                              "tokenizer.",
                              "validation.",
                              "profiling.",
                              "rerun_state_machine.",
                              "straggler.",
                              "nvrx_straggler.",
                              "ft.",
                              "inprocess_restart.",
                              "resume.",
                              "dataset.",
                              "data.",
                              "rng.",
                              "scheduler.",
                              "exp_manager.",
                              "train.eval",
                              "train.exit",
                              "train.manual",
                              "trainer.val",
                              "trainer.limit",
                              "trainer.log",
                              "trainer.accelerator"}) {
    if (key.starts_with(section)) return true;
  }
  return false;
}

/// A model by the name of its recipe: "llama3_8b_pretrain_config".
void model_of_recipe(LaunchReading& r, const std::string& key) {
  std::string name = r.text(key).value_or("");
  while (!name.empty()) {
    if (const auto shipped = shipped_model_of(name, r.library())) return r.model_named(key, *shipped);
    const std::size_t cut = name.find_last_of("_-");
    name.erase(cut == std::string::npos ? 0 : cut);
  }
  r.take(key, "a recipe of which nothing is known here");
}

/// The precision by its name among Megatron-Bridge's, "bf16_with_fp8_mixed", as the flags that it means.
void precision(LaunchReading& r, const std::string& key, MegatronFlags::Keys& keys) {
  const std::string name = r.text(key).value_or("");
  if (name.starts_with("fp16") || name.starts_with("16")) {
    keys["--fp16"] = key;
    keys["--accumulate-allreduce-grads-in-fp32"] = key;
  } else if (name.starts_with("bf16") || name.find("fp8") != std::string::npos) {
    keys["--bf16"] = key;
    if (name.find("fp8") != std::string::npos) keys["--fp8-format"] = key;
  } else {
    r.error(key, "no precision has this name", {"It is " + name.substr(0, 60) + "."});
  }
}

}  // namespace

namespace {

/// The name of the configuration whose fields a Python text sets, with its dot; empty where it sets none.
std::string configuration(const LaunchFile& file) {
  for (const LaunchValue& v : file.values) {
    const std::size_t dot = v.key.find('.');
    if (dot == std::string::npos) continue;
    const std::string_view field = std::string_view(v.key).substr(dot + 1);
    if (field == "model.tensor_model_parallel_size" || field == "model.pipeline_model_parallel_size" ||
        field == "train.global_batch_size")
      return v.key.substr(0, dot + 1);
  }
  return {};
}

}  // namespace

bool is_bridge_python(const LaunchFile& file) { return !configuration(file).empty(); }

void read_bridge_python(LaunchReading& r) {
  const std::string name = configuration(r.file());
  read_bridge_fields(r, name);
  for (const LaunchValue& v : r.file().values) {
    if (!v.key.starts_with(name)) r.without_effect(v.key, "it is no field of " + name.substr(0, name.size() - 1));
  }
}

bool is_megatron_bridge(const LaunchFile& file) {
  return file.find("model.tensor_model_parallel_size") != nullptr ||
         file.find("model.pipeline_model_parallel_size") != nullptr ||
         file.find("model.context_parallel_size") != nullptr || file.find("train.global_batch_size") != nullptr ||
         file.find("trainer.strategy.tensor_model_parallel_size") != nullptr;
}

void read_bridge_fields(LaunchReading& r, std::string_view table) {
  MegatronFlags::Keys keys, inverted;
  for (const LaunchValue& v : r.file().values) {
    if (!v.key.starts_with(table) || v.key.starts_with("launcher.")) continue;
    const std::string_view path = std::string_view(v.key).substr(table.size());
    const auto fields = bridge_fields();
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const BridgeField& f) { return f.path == path; });
    if (field != fields.end()) {
      (field->inverted ? inverted : keys)[std::string(field->flag)] = v.key;
    } else if (path.starts_with("peft") || path == "--peft") {
      r.error(v.key, "adapters are not read here yet; [workload.adapters] of a plan file has them");
    } else if (path == "--recipe" || path == "--model" || path == "--model_recipe_name") {
      model_of_recipe(r, v.key);
    } else if (path == "mixed_precision" || path == "trainer.precision" || path == "--precision") {
      precision(r, v.key, keys);
    } else if (path.ends_with(".micro_batch_size") || path.ends_with(".global_batch_size") ||
               path.ends_with(".seq_length")) {
      keys[flag_of_field(path)] = v.key;
    } else if (is_idle(path)) {
      r.without_effect(v.key, "it is about data, logs or checkpoints");
    } else if (path.starts_with("--")) {
      r.without_effect(v.key, "it belongs to the script");
    } else {
      keys[flag_of_field(path)] = v.key;
    }
  }
  if (const auto groups = keys.find("--num-query-groups"); groups != keys.end())
    keys["--group-query-attention"] = groups->second;
  // Recipes train in bf16, with the distributed optimizer, hidden reductions and no dropout.
  const auto usual = [&](const char* flag, const char* plan_key, const char* value) {
    if (!keys.contains(flag)) r.assume(plan_key, value, "recipes usually have it; this one is not read");
  };
  if (!keys.contains("--fp16")) usual("--bf16", "workload.precision", "\"bf16\"");
  usual("--hidden-dropout", "workload.hidden_dropout", "0.0");
  usual("--attention-dropout", "workload.attention_dropout", "0.0");
  if (!keys.contains("--use-megatron-fsdp")) usual("--use-distributed-optimizer", "plan.zero_stage", "1");
  usual("--overlap-grad-reduce", "plan.overlap_gradients", "true");
  if (r.known_model() == nullptr && keys.contains("--num-layers"))
    r.assume_of_model("kinds of layers", "as the fields say", "the recipe may say more, and is not read (--model)");
  MegatronFlags flags(r, std::move(keys), inverted);
  flags.over_recipe();
  read_megatron_flags(flags);
}

void read_megatron_bridge(LaunchReading& r) { read_bridge_fields(r, ""); }

}  // namespace orrery
