#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/axolotl/yaml.hpp"
#include "framework/launch/model_names.hpp"
#include "framework/trainer/keys.hpp"
#include "framework/trainer/model_kind.hpp"

// What axolotl trains and plans do not have. Source: axolotl-ai-cloud/axolotl@067b021c src/axolotl/utils/schemas
// (config.py, peft.py, integrations.py) and src/axolotl/integrations/*/args.py.

namespace orrery {
namespace {

struct Row {
  std::string_view key;  ///< an ending "." stands for a table: any of its keys
  std::string_view says;
};
constexpr std::string_view adapters =
    "weights that are kept so are not in plans yet: load_in_4bit and load_in_8bit are";
constexpr std::string_view alone = "weights in 8 or 4 bits are frozen: adapter: lora or qlora trains beside them";
constexpr std::string_view merged = "ReLoRA merges adapters into the weights as it goes, which is not in plans yet";
constexpr std::string_view some = "adapters of some layers alone are not in plans yet";
constexpr std::string_view rewards = "training of a reward model is not in plans yet: its head and loss are others";
constexpr std::string_view distilled = "distillation is not in plans yet: a teacher's outputs stand beside the model's";
constexpr std::string_view frozen = "training of a part of the weights is not in plans yet: all weights train there";
constexpr std::string_view seeing = "models of images or sound are not in plans yet";
constexpr std::array rows{
    Row{"relora_steps", merged},
    Row{"peft.weight_dtype", adapters},
    Row{"peft.loftq_config.", adapters},
    Row{"peft_layer_replication", "layers that stand in the model several times are not in plans yet"},
    Row{"peft_trainable_token_indices", "single rows of the embedding that are trained are not in plans yet"},
    Row{"peft_layers_to_transform", some},
    Row{"peft_layers_pattern", some},
    Row{"lora_exclude_modules", some},
    Row{"lora_rank_pattern", "adapters of several ranks are not in plans yet"},
    Row{"relora", merged},
    Row{"lora_modules_to_save", "adapters beside embeddings or a head that are trained whole are not in plans yet"},
    Row{"peft_use_dora", "DoRA, which trains magnitudes too, is not in plans yet"},
    Row{"lora_target_parameters", "adapters of experts are not in plans yet"},
    Row{"load_in_8bit", alone},
    Row{"load_in_4bit", alone},
    Row{"gptq", adapters},
    Row{"quantize_moe_experts", adapters},
    Row{"reward_model", rewards},
    Row{"process_reward_model", rewards},
    Row{"qat", "training with quantization in the loop is not in plans yet"},
    Row{"qat.", "training with quantization in the loop is not in plans yet"},
    Row{"use_onebitllms", "weights of 1.58 bits are not in plans yet"},
    Row{"diffusion", "training by masked diffusion is not in plans yet"},
    Row{"diffusion.", "training by masked diffusion is not in plans yet"},
    Row{"ebft.", "energy-based fine-tuning is not in plans yet: it generates texts between steps"},
    Row{"kd_trainer", distilled},
    Row{"lisa_n_layers", frozen},
    Row{"unfrozen_parameters", frozen},
    Row{"spectrum_top_fraction", frozen},
    Row{"processor_type", seeing},
    Row{"is_multimodal", seeing},
    Row{"image_size", seeing},
    Row{"hatchery.", "training on another's service is not in plans"},
    Row{"num_labels", "training of a classifier is not in plans yet"},
    Row{"dense_mixer", "training that runs all experts of a layer is not in plans yet"},
};

/// Whether a value turns something on.
bool is_on(const LaunchValue& v) {
  if (v.kind == LaunchValue::Kind::none || v.kind == LaunchValue::Kind::table) return false;
  if (v.kind == LaunchValue::Kind::list) return !v.items.empty();
  return v.text != "false" && v.text != "0" && !v.text.empty();
}

}  // namespace

bool beyond_axolotl_plans(LaunchReading& r) {
  if (const LaunchValue* rl = r.value("rl"); rl != nullptr && is_on(*rl)) {
    end_reading(r, "rl", fmt::format("training by {} is not in plans yet", rl->text.substr(0, 40)),
                {"Plans train a model on its next tokens: leave out rl."});
    return true;
  }
  if (const LaunchValue* adapter = r.value("adapter");
      adapter != nullptr && is_on(*adapter) && adapter->text != "lora" && adapter->text != "qlora") {
    end_reading(r, "adapter", fmt::format("{} adapters are not in plans yet", adapter->text.substr(0, 40)),
                {"Plans have low-rank adapters: adapter: lora, or qlora."});
    return true;
  }
  const bool adapts = r.text("adapter") == "lora" || r.text("adapter") == "qlora";
  for (const LaunchValue& v : r.file().values) {
    if (adapts && (v.key == "load_in_8bit" || v.key == "load_in_4bit")) continue;
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& known) {
      return known.key.ends_with('.') ? v.key.starts_with(known.key) : v.key == known.key;
    });
    if (row == rows.end() || !is_on(v)) continue;
    end_reading(r, v.key, std::string(row->says));
    return true;
  }
  const std::string name = r.text("base_model").value_or("");
  const std::string_view kind = model_beyond_plans(name);
  if (!r.options().model && !kind.empty() && !shipped_model_of(name, r.library())) {
    end_reading(r, "base_model", fmt::format("{} is {}, which plans do not have", name.substr(0, 80), kind),
                {"Another model's shape can stand in with --model."});
    return true;
  }
  return false;
}

}  // namespace orrery
