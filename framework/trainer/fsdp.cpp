#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "framework/trainer/sharding.hpp"

// FSDP as transformers and accelerate name it: keys of fsdp_config with or without "fsdp_" in front.
// Sources: huggingface/transformers v4.56.2 src/transformers/training_args.py, huggingface/accelerate@16cb6eb8
// src/accelerate/utils/dataclasses.py, axolotl-ai-cloud/axolotl@067b021c src/axolotl/utils/schemas/fsdp.py.

namespace orrery {
namespace {

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The key of fsdp_config as this file spells it; empty where it has none with a value.
std::string key_of(const LaunchReading& r, const std::string& word) {
  for (const char* prefix : {"fsdp_config.", "fsdp_config.fsdp_"}) {
    if (r.value(prefix + word) != nullptr) return prefix + word;
  }
  return {};
}

struct Words {
  bool any = false, shard = true, reshard = true, hybrid = false, offload = false;
  std::string unknown;
};

void read_word(Words& w, const std::string& word) {
  if (word.empty() || word == "auto_wrap") return;
  w.any = true;
  if (word == "full_shard" || word == "1") return;
  if (word == "shard_grad_op" || word == "2") {
    w.reshard = false;
  } else if (word == "no_shard" || word == "3") {
    w.shard = false;
  } else if (word == "hybrid_shard" || word == "4") {
    w.hybrid = true;
  } else if (word == "hybrid_shard_zero2" || word == "5") {
    w.hybrid = true, w.reshard = false;
  } else if (word == "offload") {
    w.offload = true;
  } else {
    w.unknown = word;
  }
}

/// The words of `fsdp`: a list, or a text with spaces; true alone means a full shard.
Words words_of(LaunchReading& r) {
  Words out;
  const LaunchValue* v = r.value("fsdp");
  if (v == nullptr) return out;
  std::vector<std::string> words;
  if (v->kind == LaunchValue::Kind::list) {
    for (const LaunchValue& item : v->items) words.push_back(lowered(item.text));
    // An empty list asks for nothing.
  } else if (v->text == "true") {
    words.emplace_back("full_shard");
  } else if (v->text != "false") {
    std::string word;
    for (const char c : lowered(v->text) + " ") {
      if (c != ' ' && c != ',') {
        word += c;
      } else if (!word.empty()) {
        words.push_back(std::exchange(word, {}));
      }
    }
  }
  for (const std::string& w : words) read_word(out, w);
  if (out.unknown.empty())
    r.take("fsdp", out.any ? "FSDP" : "no FSDP");
  else
    r.error("fsdp", fmt::format("FSDP has no way \"{}\"", out.unknown.substr(0, 40)),
            {"Known: full_shard, shard_grad_op, hybrid_shard, hybrid_shard_zero2, no_shard, offload, auto_wrap."});
  return out;
}

void read_wrapping(LaunchReading& r) {
  if (const std::string key = key_of(r, "auto_wrap_policy"); !key.empty()) {
    if (lowered(r.text(key).value_or("")) == "transformer_based_wrap")
      r.without_effect(key, "a unit for each layer, as plans have them");
    else
      r.refuse(key, "units of FSDP other than a layer are not in plans", "a unit for each layer");
  }
  for (const char* word : {"transformer_layer_cls_to_wrap", "min_num_params"}) {
    if (const std::string key = key_of(r, word); !key.empty()) r.without_effect(key, "a unit for each layer");
  }
}

void read_remaining(LaunchReading& r) {
  for (const char* word : {"backward_prefetch", "forward_prefetch", "limit_all_gathers"}) {
    if (const std::string key = key_of(r, word); !key.empty()) {
      r.without_effect(key, "gathers run one layer ahead in plans as they do here");
    }
  }
  for (const char* word : {"sync_module_states", "cpu_ram_efficient_loading", "use_orig_params", "state_dict_type",
                           "final_state_dict_type", "cpu_offload_pin_memory", "save_optimizer_state",
                           "mixed_precision_policy", "version"}) {
    if (const std::string key = key_of(r, word); !key.empty()) r.without_effect(key, "of loading and saving");
  }
  for (const char* word : {"fsdp_version", "fsdp_final_state_dict_type"}) {
    if (r.value(word) != nullptr) r.without_effect(word, "both versions of FSDP shard alike in a plan");
  }
}

}  // namespace

bool read_trainer_fsdp(LaunchReading& r, LaunchSizes& sizes) {
  Words words = words_of(r);
  const std::vector<LaunchValue>& all = r.file().values;
  if (const LaunchValue* v = r.value("fsdp_config"); v != nullptr) {
    if (v->kind == LaunchValue::Kind::table)
      r.without_effect("fsdp_config", "it is empty");
    else
      r.error("fsdp_config", "fsdp_config names a file, which is not read here", {"Write its keys in its place."});
  }
  const bool configured = std::any_of(all.begin(), all.end(), [](const LaunchValue& v) {
    return v.key.starts_with("fsdp_config.") && v.kind != LaunchValue::Kind::none;
  });
  read_wrapping(r);
  read_remaining(r);
  // axolotl runs FSDP where fsdp_config stands alone; transformers needs `fsdp` beside it, which is there then.
  if (!words.any && !configured) return false;

  const auto first = std::find_if(all.begin(), all.end(), [](const LaunchValue& v) {
    return v.key.starts_with("fsdp_config.") && v.kind != LaunchValue::Kind::none;
  });
  std::string from = words.any || first == all.end() ? std::string("fsdp") : first->key;
  if (const std::string key = key_of(r, "sharding_strategy"); !key.empty()) {
    read_word(words, lowered(r.text(key).value_or("")));
    from = key;
    r.take(key, "FSDP");
  }
  if (const std::string key = key_of(r, "reshard_after_forward"); !key.empty()) {
    const std::string word = lowered(r.text(key).value_or(""));
    if (word == "true" || word == "false")
      words.reshard = word == "true";
    else
      read_word(words, word);
    from = key;
    r.take(key, "FSDP");
  }
  if (!words.unknown.empty()) {
    r.error(from, fmt::format("FSDP has no way \"{}\" to shard", words.unknown.substr(0, 40)));
    return true;
  }
  r.set(from, "plan.zero_stage", words.shard ? "3" : "0");
  if (words.shard && !words.reshard) r.set(from, "plan.reshard_after_forward", "false");
  if (words.hybrid && sizes.replica.from.empty()) {
    constexpr std::uint32_t node = 8;
    const std::uint32_t gpus = r.options().gpus.value_or(node);
    if (gpus > node && gpus % node == 0) sizes.replica = {gpus / node, from};
    r.take(from, "sharded within nodes of 8, copied over nodes");
  }
  if (const std::string key = key_of(r, "offload_params"); !key.empty()) {
    if (r.toggle(key).value_or(false)) {
      from = key;
      words.offload = true;
    } else {
      r.without_effect(key, "nothing is offloaded");
    }
  }
  if (words.offload && words.shard) {
    r.set(from, "plan.offload_states", "8");
    r.refuse(from, "weights off the device under ZeRO-3 are not in plans",
             "optimizer states there, and each rank's part of the weights on its device");
  }
  if (const std::string key = key_of(r, "activation_checkpointing"); !key.empty()) {
    if (r.toggle(key).value_or(false))
      r.set(key, "plan.recompute", "\"full\"");
    else
      r.without_effect(key, "nothing is recomputed by FSDP");
  }
  return true;
}

}  // namespace orrery
