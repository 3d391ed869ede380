#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/torchtune/yaml.hpp"
#include "framework/trainer/keys.hpp"

// What torchtune does and plans do not have. Source: pytorch/torchtune@bd2a0fc7 recipes/*.py and recipes/dev/*.py: the
// keys that each recipe asks for.

namespace orrery {
namespace {

struct Row {
  std::string_view key;  ///< itself, or a table of this name
  std::string_view says;
};
constexpr std::string_view rewarded = "training by rewards is not in plans yet: it generates texts between steps";
constexpr std::string_view taught = "distillation is not in plans yet: a teacher's outputs stand beside the model's";
constexpr std::array rows{
    Row{"policy_model", rewarded},
    Row{"reward_and_value_model", rewarded},
    Row{"orchestration", rewarded},
    Row{"reward_functions", rewarded},
    Row{"grpo_samples", rewarded},
    Row{"teacher_model", taught},
    Row{"kd_loss", taught},
    Row{"early_exit_loss", "losses of inner layers are not in plans yet"},
    Row{"layer_dropout", "layers that are left out by chance are not in plans yet"},
};

struct Kind {
  std::string_view word;  ///< of the component
  std::string_view kind;
};
constexpr std::string_view seeing = "a model of images and text";
constexpr std::array kinds{
    Kind{"vision", seeing},
    Kind{"llama4", seeing},
    Kind{"DeepFusionModel", seeing},
    Kind{"EarlyFusion", seeing},
    Kind{"clip", seeing},
    Kind{"flux", "a model of images"},
    Kind{".t5.", "an encoder"},
    Kind{"reward", "a model of rewards"},
    Kind{"classifier", "a classifier"},
};

/// The first key of a table, which itself has no place; the key itself where it is none.
std::string first_key(const LaunchReading& r, std::string_view key) {
  for (const LaunchValue& v : r.file().values) {
    if (v.key == key || v.key.starts_with(std::string(key) + ".")) return v.key;
  }
  return std::string(key);
}

/// A file for evaluation, generation or quantization of weights: it trains nothing.
bool trains_nothing(LaunchReading& r) {
  if (r.file().has("optimizer") || r.file().has("training")) return false;
  for (const char* key : {"tasks", "prompt", "max_new_tokens", "quantizer"}) {
    if (!r.file().has(key)) continue;
    end_reading(r, first_key(r, key), "this file trains nothing",
                {"It evaluates a model, generates texts or quantizes weights: it has no optimizer."});
    return true;
  }
  end_reading(r, "model._component_", "this file trains nothing", {"It has no optimizer."});
  return true;
}

bool other_loss(LaunchReading& r) {
  constexpr std::string_view key = "loss._component_";
  const std::string name = r.text(key).value_or("");
  const std::string last = name.substr(name.rfind('.') + 1);
  const bool preferred = last.find("DPO") != std::string::npos || last.find("RSO") != std::string::npos ||
                         last.find("SimPO") != std::string::npos || name.find(".rlhf.") != std::string::npos;
  if (!preferred && last.find("GRPO") == std::string::npos && last.find("PPO") == std::string::npos) return false;
  end_reading(r, key, fmt::format("training by {} is not in plans yet", last.substr(0, 40)),
              {"Plans train a model on its next tokens: torchtune.modules.loss.LinearCrossEntropyLoss."});
  return true;
}

}  // namespace

std::string_view torchtune_model_beyond_plans(std::string_view component) {
  const auto at = std::find_if(kinds.begin(), kinds.end(),
                               [&](const Kind& k) { return component.find(k.word) != std::string_view::npos; });
  return at == kinds.end() ? std::string_view() : at->kind;
}

bool beyond_torchtune_plans(LaunchReading& r) {
  if (trains_nothing(r)) return true;
  for (const Row& row : rows) {
    if (!r.file().has(row.key)) continue;
    const LaunchValue* v = r.file().find(row.key);
    if (v != nullptr && v->kind == LaunchValue::Kind::none) continue;
    end_reading(r, first_key(r, row.key), std::string(row.says));
    return true;
  }
  if (other_loss(r)) return true;
  const std::string component = r.text("model._component_").value_or("");
  const std::string_view kind = torchtune_model_beyond_plans(component);
  if (r.options().model || kind.empty()) return false;
  end_reading(r, "model._component_",
              fmt::format("{} builds {}, which plans do not have", component.substr(0, 80), kind),
              {"Another model's shape can stand in with --model."});
  return true;
}

}  // namespace orrery
