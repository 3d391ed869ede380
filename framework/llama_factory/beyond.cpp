#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework/launch/model_names.hpp"
#include "framework/llama_factory/yaml.hpp"
#include "framework/trainer/keys.hpp"
#include "framework/trainer/model_kind.hpp"

// What LLaMA-Factory does and plans do not have. Source: hiyouga/LLaMA-Factory@ff6d4d12
// src/llamafactory/hparams/finetuning_args.py and model_args.py.

namespace orrery {
namespace {

struct Row {
  std::string_view key, says;
};
constexpr std::array rows{
    Row{"use_dora", "DoRA, which trains magnitudes too, is not in plans yet"},
    Row{"additional_target", "adapters beside modules that are trained whole are not in plans yet"},
    Row{"use_kt", "experts that the host computes are not in plans yet"},
    Row{"use_llama_pro", "training of a part of the layers is not in plans yet: all weights train there"},
    Row{"use_badam", "training of one block of layers at a time is not in plans yet: all weights train there"},
    Row{"mixture_of_depths", "layers that pass over tokens are not in plans yet"},
    Row{"use_asft_loss", "a frozen model beside the trained one is not in plans yet"},
    Row{"freeze_language_model", "training of a part of the weights is not in plans yet: all weights train there"},
    Row{"use_hyper_parallel", "the HyperParallel back end is not read here yet"},
};

bool is_on(const LaunchReading& r, std::string_view key) {
  const LaunchValue* v = r.value(key);
  return v != nullptr && v->text != "false" && v->text != "0" && !v->text.empty();
}

/// A file for evaluation, export or serving: it trains nothing.
bool trains_nothing(LaunchReading& r) {
  if (is_on(r, "do_train")) return false;
  for (const char* key : {"export_dir", "infer_backend", "do_predict", "do_eval", "task"}) {
    if (r.value(key) == nullptr) continue;
    end_reading(r, key, "this file trains nothing", {"It exports, serves or evaluates a model: do_train is not set."});
    return true;
  }
  end_reading(r, r.value("do_train") != nullptr ? "do_train" : "model_name_or_path", "this file trains nothing",
              {"do_train is not set."});
  return true;
}

bool other_tuning(LaunchReading& r) {
  const std::string stage = r.text("stage").value_or("sft");
  if (stage != "pt" && stage != "sft") {
    end_reading(r, "stage", fmt::format("training by {} is not in plans yet", stage.substr(0, 40)),
                {"Plans train a model on its next tokens: stage pt or sft."});
    return true;
  }
  const std::string type = r.text("finetuning_type").value_or("lora");
  if (type == "full" || type == "lora") return false;
  const bool said = r.value("finetuning_type") != nullptr;
  end_reading(r, said ? "finetuning_type" : "model_name_or_path",
              type == "freeze" ? "training of a part of the layers is not in plans yet"
                               : fmt::format("{} adapters are not in plans yet", type.substr(0, 40)),
              {"Plans train all weights, or low-rank adapters: finetuning_type full, or lora."});
  return true;
}

}  // namespace

bool beyond_llama_factory_plans(LaunchReading& r) {
  if (trains_nothing(r) || other_tuning(r)) return true;
  if (is_on(r, "quantization_bit") && r.text("finetuning_type").value_or("lora") != "lora") {
    end_reading(r, "quantization_bit", "weights in few bits are frozen: finetuning_type lora trains beside them");
    return true;
  }
  for (const Row& row : rows) {
    if (!is_on(r, row.key)) continue;
    end_reading(r, row.key, std::string(row.says));
    return true;
  }
  const std::string name = r.text("model_name_or_path").value_or("");
  const std::string_view kind = model_beyond_plans(name);
  if (!r.options().model && !kind.empty() && !shipped_model_of(name, r.library())) {
    end_reading(r, "model_name_or_path", fmt::format("{} is {}, which plans do not have", name.substr(0, 80), kind),
                {"Another model's shape can stand in with --model."});
    return true;
  }
  return false;
}

}  // namespace orrery
