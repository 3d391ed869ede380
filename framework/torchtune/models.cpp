#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/spec/adapters.hpp"
#include "core/spec/spec_check.hpp"
#include "framework/torchtune/yaml.hpp"

// Models and adapters. Source: pytorch/torchtune@bd2a0fc7 torchtune/models/*/_model_builders.py and
// _component_builders.py; 4 bits are those of torchao, with scales in 8 bits (torchtune/modules/peft/lora.py, to_nf4).

namespace orrery {
namespace {

constexpr std::string_view component_key = "model._component_";

/// "torchtune.models.llama3_1.qlora_llama3_1_8b" is a builder of llama3_1_8b with adapters beside 4 bits.
struct Builder {
  std::string name;  ///< without what is trained, and without the words of weights (_base, _instruct)
  bool adapts = false, quantizes = false;
};

Builder builder_of(std::string_view component) {
  Builder out;
  component.remove_prefix(component.rfind('.') + 1);
  for (const std::string_view prefix : {"qlora_", "lora_"}) {
    if (!component.starts_with(prefix)) continue;
    component.remove_prefix(prefix.size());
    out.adapts = true;
    out.quantizes = prefix == "qlora_";
  }
  for (const std::string_view ending : {"_base", "_instruct"}) {
    if (component.ends_with(ending)) component.remove_suffix(ending.size());
  }
  out.name = component;
  return out;
}

struct Row {
  std::string_view builder, shipped;
};
/// Builders of models whose shape is shipped. Longest contexts may differ; Mistral's first vocabulary is 768 tokens
/// shorter than the shipped one.
constexpr std::array named{Row{"llama2_7b", "llama-2-7b"},       Row{"llama2_13b", "llama-2-13b"},
                           Row{"llama2_70b", "llama-2-70b"},     Row{"llama3_8b", "llama-3-8b"},
                           Row{"llama3_70b", "llama-3-70b"},     Row{"llama3_1_8b", "llama-3.1-8b"},
                           Row{"llama3_1_70b", "llama-3.1-70b"}, Row{"llama3_1_405b", "llama-3.1-405b"},
                           Row{"llama3_2_1b", "llama-3.2-1b"},   Row{"llama3_2_3b", "llama-3.2-3b"},
                           Row{"llama3_3_70b", "llama-3.1-70b"}, Row{"mistral_7b", "mistral-7b"},
                           Row{"gemma_2b", "gemma-2b"},          Row{"gemma_7b", "gemma-7b"},
                           Row{"gemma2_2b", "gemma-2-2b"},       Row{"gemma2_9b", "gemma-2-9b"},
                           Row{"gemma2_27b", "gemma-2-27b"},     Row{"phi3_mini", "phi-3-mini-3.8b"},
                           Row{"phi4_14b", "phi-4-14b"},         Row{"qwen2_0_5b", "qwen2.5-0.5b"},
                           Row{"qwen2_1_5b", "qwen2.5-1.5b"},    Row{"qwen2_7b", "qwen2.5-7b"},
                           Row{"qwen2_5_0_5b", "qwen2.5-0.5b"},  Row{"qwen2_5_1_5b", "qwen2.5-1.5b"},
                           Row{"qwen2_5_3b", "qwen2.5-3b"},      Row{"qwen2_5_7b", "qwen2.5-7b"},
                           Row{"qwen2_5_14b", "qwen2.5-14b"},    Row{"qwen2_5_32b", "qwen2.5-32b"},
                           Row{"qwen2_5_72b", "qwen2.5-72b"},    Row{"qwen3_0_6b", "qwen3-0.6b"},
                           Row{"qwen3_1_7b", "qwen3-1.7b"},      Row{"qwen3_4b", "qwen3-4b"},
                           Row{"qwen3_8b", "qwen3-8b"},          Row{"qwen3_14b", "qwen3-14b"},
                           Row{"qwen3_32b", "qwen3-32b"},        Row{"smollm2_1_7b", "smollm2-1.7b"}};
/// Builders that take the sizes, and a shipped model of the same layers.
constexpr std::array sized{Row{"llama2", "llama-2-7b"}, Row{"llama3", "llama-3-8b"}, Row{"llama3_1", "llama-3.1-8b"},
                           Row{"mistral", "mistral-7b"}};

const Row* find(std::span<const Row> rows, std::string_view builder) {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.builder == builder; });
  return at == rows.end() ? nullptr : &*at;
}

/// The width of the feed-forward part where the file has none: two thirds of four times the model's width, up to a
/// multiple of 256 (torchtune/modules/common_utils.py and its callers, scale_hidden_dim_for_mlp).
std::uint64_t usual_ffn(std::uint64_t hidden) {
  constexpr std::uint64_t unit = 256;
  const std::uint64_t width = 4 * (2 * hidden / 3);
  return (width + unit - 1) / unit * unit;
}

/// A model that the file describes by its sizes.
void read_sized(LaunchReading& r, ModelSpec spec) {
  std::string missing;
  const auto whole = [&](const char* word, std::uint64_t& into, std::uint64_t most, bool needed) {
    const std::string key = std::string("model.") + word;
    if (const auto n = r.whole(key, 1, most)) {
      into = *n;
      r.take(key, "the model");
    } else if (needed && r.value(key) == nullptr) {
      missing += (missing.empty() ? "" : ", ") + std::string(word);
    }
  };
  spec.name = "torchtune";
  spec.source = "a configuration of torchtune";
  spec.ffn = 0;
  whole("vocab_size", spec.vocabulary, max_vocabulary, true);
  whole("num_layers", spec.layers, max_layers, true);
  whole("num_heads", spec.heads, max_width, true);
  whole("num_kv_heads", spec.kv_heads, max_width, true);
  whole("embed_dim", spec.hidden, max_width, true);
  whole("max_seq_len", spec.max_positions, max_sequence, true);
  whole("intermediate_dim", spec.ffn, max_width, false);
  if (!missing.empty()) r.error(component_key, "the builder needs " + missing);
  if (spec.ffn == 0) spec.ffn = usual_ffn(spec.hidden);
  spec.head_dim = spec.hidden / spec.heads;
  if (const auto epsilon = r.real("model.norm_eps")) spec.norm_epsilon = *epsilon;
  if (const auto base = r.real("model.rope_base")) spec.rope_theta = *base;
  r.without_effect({"model.norm_eps", "model.rope_base", "model.scale_factor"}, "of values");
  if (const auto rate = r.real("model.attn_dropout"); rate && *rate > 0.0)
    r.set("model.attn_dropout", "workload.attention_dropout", fmt::format("{}", *rate));
  r.without_effect({"model.attn_dropout"}, "it is off");
  Diagnostics found;
  if (!missing.empty() || check_model(spec, found)) return r.model(std::move(spec));
  r.error(component_key, found.list().front().message, found.list().front().details);
}

/// The matrices beside which adapters stand: of attention by their names, of the feed-forward part all or none.
void read_matrices(LaunchReading& r) {
  constexpr std::string_view attention = "model.lora_attn_modules", feed_forward = "model.apply_lora_to_mlp";
  std::string matrices;
  const auto add = [&](std::string_view name) {
    matrices += fmt::format("{}\"{}\"", matrices.empty() ? "" : ", ", name);
  };
  if (const LaunchValue* list = r.value(attention); list != nullptr) {
    for (const LaunchValue& item : list->items) {
      const std::string& name = item.text;
      if (name == "q_proj" || name == "k_proj" || name == "v_proj" || name == "output_proj") {
        add(name.substr(0, 1));
      } else {
        return r.error(attention, fmt::format("no matrix of attention is named \"{}\"", name.substr(0, 40)),
                       {"Known: q_proj, k_proj, v_proj, output_proj."});
      }
    }
    r.take(attention, "");
  }
  if (const auto on = r.toggle(feed_forward)) {
    r.take(feed_forward, *on ? "gate, up and down have adapters too" : "the feed-forward part has none");
    if (*on) matrices += (matrices.empty() ? "" : ", ") + std::string("\"gate\", \"up\", \"down\"");
  }
  const std::string_view from = r.value(attention) != nullptr ? attention : feed_forward;
  if (matrices.empty())
    return r.error(r.value(from) != nullptr ? from : component_key, "no matrix has an adapter",
                   {"Give lora_attn_modules: ['q_proj', 'v_proj'], or apply_lora_to_mlp: True."});
  r.set(from, "workload.adapters.matrices", fmt::format("[{}]", matrices));
}

void read_adapters(LaunchReading& r, bool quantizes) {
  if (const auto rank = r.whole("model.lora_rank", 1, max_adapter_rank))
    r.set("model.lora_rank", "workload.adapters.rank", std::to_string(*rank));
  else
    r.assume("workload.adapters.rank", "8", "the builder's default");
  if (const auto alpha = r.real("model.lora_alpha"))
    r.set("model.lora_alpha", "workload.adapters.alpha", fmt::format("{:.17g}", *alpha));
  else
    r.assume("workload.adapters.alpha", "16", "the builder's default");
  read_matrices(r);
  if (r.real("model.lora_dropout").value_or(0.0) > 0.0)
    r.refuse("model.lora_dropout", "dropout in front of adapters is not in plans", "adapters without dropout");
  if (r.toggle("model.use_dora").value_or(false))
    r.refuse("model.use_dora", "magnitudes (DoRA) are not in plans", "adapters without magnitudes");
  if (r.toggle("model.apply_lora_to_output").value_or(false))
    r.refuse("model.apply_lora_to_output", "an adapter of the head is not in plans", "those of the layers' matrices");
  r.without_effect({"model.lora_dropout", "model.use_dora", "model.apply_lora_to_output"}, "it is off");
  const bool said = r.value("model.quantize_base") != nullptr;
  if (r.toggle("model.quantize_base").value_or(quantizes)) {
    const std::string_view from = said ? std::string_view("model.quantize_base") : component_key;
    r.set(from, "workload.adapters.base", "\"nf4\"");
    r.assume("workload.adapters.double_quantization", "true", "torchao keeps the scales in 8 bits");
  }
  r.without_effect({"model.quantize_base"}, "the frozen matrices keep their type");
  r.without_effect({"model.scaler_block_size"}, "of the scales' own scales");
}

}  // namespace

void read_torchtune_model(LaunchReading& r) {
  const std::optional<std::string> component = r.text(component_key);
  if (!component) {
    if (r.value(component_key) == nullptr)
      r.error(component_key, "the file does not say which model it builds", {"It is model._component_."});
    return;
  }
  const Builder builder = builder_of(*component);
  const ModelSpec* base = nullptr;
  if (const Row* row = find(named, builder.name); row != nullptr) {
    r.model_named(component_key, std::string(row->shipped));
    base = r.known_model();
    // The 1B and 3B of Llama 3.2 can have a head of their own.
    if (base != nullptr && base->tied_embeddings && !r.options().model &&
        !r.toggle("model.tie_word_embeddings").value_or(true)) {
      r.refuse("model.tie_word_embeddings", "a head of its own is not in the shipped model", "the embedding as head");
    }
    r.without_effect({"model.tie_word_embeddings"}, "as the shipped model has it");
  } else if (const Row* family = find(sized, builder.name); family != nullptr && !r.options().model) {
    r.take(component_key, "the model");
    if (auto spec = r.library().model(std::string(family->shipped), "", r.diagnostics())) read_sized(r, *spec);
  } else {
    r.model_named(component_key, *component);
  }
  if (builder.adapts) {
    r.take(component_key, "adapters are trained, and the weights stay as they are");
    read_adapters(r, builder.quantizes);
  }
  if (r.options().model) r.without_effect({"model.*"}, "--model gives the model in its place");
}

}  // namespace orrery
