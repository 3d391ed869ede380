#include "framework/accelerate/parts.hpp"
#include "framework/trainer/adapters.hpp"

// PEFT's adapter_config.json, which it saves beside adapters. Keys and defaults are those of huggingface/peft@2b3fbc91
// src/peft/tuners/lora/config.py (LoraConfig) and src/peft/config.py. The file says what is trained, and nothing of
// ranks and batch.

namespace orrery {
namespace {

bool is_on(const LaunchValue* v) {
  if (v == nullptr || v->kind == LaunchValue::Kind::none) return false;
  if (v->kind == LaunchValue::Kind::list) return !v->items.empty();
  if (v->kind == LaunchValue::Kind::table) return false;  // its keys stand by themselves
  return v->text != "false" && !v->text.empty();
}

/// Whether the key itself, or a key inside it, has a value.
bool has_any(const LaunchReading& r, std::string_view key) {
  if (is_on(r.value(key))) return true;
  for (const LaunchValue& v : r.file().values) {
    if (v.key.starts_with(std::string(key) + ".")) return true;
  }
  return false;
}

}  // namespace

bool is_peft_json(const LaunchFile& file) { return file.has("peft_type"); }

void read_peft_json(LaunchReading& r) {
  const std::string type = r.text("peft_type").value_or("");
  if (type != "LORA") {
    r.error("peft_type", "only LoRA's adapters are in plans", {"It is " + type.substr(0, 40) + "; LORA is read."});
    return r.without_effect({"*"}, "the run is not read");
  }
  r.take("peft_type", "adapters are trained, and the weights stay as they are");
  if (const auto name = r.text("base_model_name_or_path")) r.model_named("base_model_name_or_path", *name);
  read_trainer_adapters(r, {"r", "lora_alpha", "lora_dropout", "target_modules", "", "use_rslora", 8, false});
  r.assume("workload.adapters.alpha", "8", "PEFT's default");
  struct Row {
    const char *key, *what, *nearest;
  };
  for (const Row& row :
       {Row{"use_dora", "magnitudes (DoRA) are not in plans", "adapters without magnitudes"},
        Row{"modules_to_save", "modules that are trained whole beside adapters are not in plans", "the adapters alone"},
        Row{"layers_to_transform", "adapters of some layers alone are not in plans", "those of all layers"},
        Row{"layer_replication", "layers that stand in the model several times are not in plans", "each layer once"},
        Row{"target_parameters", "adapters of experts are not in plans", "those of matrices"},
        Row{"trainable_token_indices", "rows of the embedding that are trained are not in plans", "the adapters alone"},
        Row{"rank_pattern", "adapters of several ranks are not in plans", "one rank for all"},
        Row{"alpha_pattern", "adapters of several scales are not in plans", "one scale for all"},
        Row{"exclude_modules", "names that are left out are not read", "all that are listed"},
        Row{"lora_bias", "biases of adapters are not in plans", "adapters without biases"},
        Row{"megatron_config", "layers of Megatron-LM are not read here", "those of transformers"}}) {
    if (has_any(r, row.key)) r.refuse(row.key, row.what, row.nearest);
  }
  const auto bias = r.word("bias", {"none", "all", "lora_only"});
  if (bias && *bias != "none") r.refuse("bias", "biases that are trained beside adapters are not in plans", "none");
  put_sizes(r, {});
  r.assume("workload.precision", "\"bf16\"", "the file says nothing of the base model's type");
  r.without_effect({"*"}, "it changes no step");
}

}  // namespace orrery
