#include <fmt/format.h>

#include <algorithm>

#include "core/spec/spec_check.hpp"
#include "framework/nanotron/reading.hpp"

// The model of a nanotron configuration. Source: huggingface/nanotron@2411b022, src/nanotron/config/models_config.py,
// src/nanotron/models/{llama,qwen,starcoder2}.py and src/nanotron/nn/moe.py.

namespace orrery {
namespace {

std::string in(std::string_view key) { return "model.model_config." + std::string(key); }

}  // namespace

bool NanotronReading::model() {
  const auto refuse = [&](const std::string& at, std::string message, std::vector<std::string> details) {
    r_.without_effect({"*"}, "the model is not in plans");
    r_.error(at, std::move(message), std::move(details));
    return false;
  };
  for (const LaunchValue& v : r_.file().values) {
    const bool names_family = v.key.starts_with("model.model_config.is_") && v.key.ends_with("_config");
    if (!names_family || v.text != "true") continue;
    for (const char* known : {"is_llama_config", "is_qwen2_config", "is_starcoder2_config", "is_llamoe_config"}) {
      if (v.key == in(known)) r_.take(v.key, "the model's family");
    }
    if (v.key.find("mamba") != std::string::npos) {
      return refuse(v.key, "state-space models are not in plans", {"Plans have transformers."});
    }
    if (r_.file().has(in("moe_num_experts")) || v.key == in("is_llama_config") || v.key == in("is_qwen2_config") ||
        v.key == in("is_starcoder2_config")) {
      continue;
    }
    return refuse(v.key, fmt::format("nanotron's {} is not known here", v.key.substr(19)),
                  {"Known: is_llama_config, is_qwen2_config, is_starcoder2_config, is_llamoe_config."});
  }
  if (r_.known_model() != nullptr) {  // of --model
    for (const LaunchValue& v : r_.file().values) {
      if (v.key.starts_with("model.model_config.")) r_.take(v.key, "--model gives the model in its place");
    }
    return true;
  }
  ModelSpec m;
  m.name = r_.text("general.run").value_or("nanotron").substr(0, 60);
  std::replace_if(
      m.name.begin(), m.name.end(), [](char c) { return c == '%' || c == '"' || c == '/'; }, '-');
  m.source = "a configuration of nanotron";
  const auto whole = [&](const char* key, std::uint64_t otherwise, std::uint64_t most) {
    const auto value = r_.whole(in(key), 1, most);
    if (value) r_.take(in(key), "the model");
    return value.value_or(otherwise);
  };
  m.layers = whole("num_hidden_layers", 32, max_layers);
  m.hidden = whole("hidden_size", 4096, max_width);
  m.heads = whole("num_attention_heads", 32, max_width);
  m.head_dim = m.hidden / m.heads;
  m.vocabulary = whole("vocab_size", 32000, max_vocabulary);
  m.max_positions = whole("max_position_embeddings", 2048, max_sequence);
  m.positions = PositionEncoding::rotary;
  if (const auto theta = r_.real(in("rope_theta"))) {
    m.rope_theta = *theta;
    r_.take(in("rope_theta"), "the model");
  }
  if (m.hidden % m.heads != 0) {
    r_.error(
        in("hidden_size"), "heads do not divide the width",
        {fmt::format("hidden_size is {}, and {} / {} leaves {}.", m.hidden, m.hidden, m.heads, m.hidden % m.heads)});
  }
  r_.file().has(in("is_starcoder2_config")) ? starcoder(m) : llama(m);
  if (const auto window = r_.whole(in("sliding_window_size"), 1)) {
    m.local = LocalAttention{.size = *window, .global = m.unrotated};
    if (const LaunchValue* global = r_.value(in("global_attn_layers")); global != nullptr) {
      std::vector<bool> sees_all(m.layers, false);
      for (const LaunchValue& layer : global->items) {
        const std::size_t n = layer.text.size() < 6 && !layer.text.empty() &&
                                      layer.text.find_first_not_of("0123456789") == std::string::npos
                                  ? std::stoul(layer.text)
                                  : m.layers;
        if (n < m.layers) sees_all[n] = true;
      }
      m.local->global = LayerPattern::of(sees_all);
    }
    r_.take(in("sliding_window_size"), "the model");
  }
  if (has(in("global_attn_layers"))) r_.take(in("global_attn_layers"), "layers that see all positions");
  Diagnostics found;
  if (!check_model(m, found)) {
    r_.without_effect({"*"}, "the model is not in plans");
    for (const Diagnostic& wrong : found.list()) r_.error(in("hidden_size"), wrong.message, wrong.details);
    return false;
  }
  r_.model(std::move(m));
  return true;
}

void NanotronReading::llama(ModelSpec& m) {
  m.norm = Norm::rms_norm;
  m.activation = Activation::swiglu;
  m.norm_epsilon = r_.real(in("rms_norm_eps")).value_or(1e-6);
  m.kv_heads = r_.whole(in("num_key_value_heads"), 1, max_width).value_or(m.heads);
  m.ffn = r_.whole(in("intermediate_size"), 1, max_width).value_or(11008);
  m.tied_embeddings = r_.toggle(in("tie_word_embeddings")).value_or(false);
  // Only queries, keys and values have biases, and only in the family Qwen2.
  const bool qwen = !r_.file().has(in("is_llama_config"));
  m.biases = Biases{qwen && r_.toggle(in("attention_bias")).value_or(false), false, false, false};
  if (const auto every = r_.whole(in("no_rope_layer"), 1, max_layers)) m.unrotated.every = *every;
  if (const auto act = r_.word(in("hidden_act"), {"silu", "gelu", "gelu_pytorch_tanh", "gelu_new"});
      act && *act != "silu")
    m.activation = Activation::geglu;
  for (const char* key : {"rms_norm_eps", "num_key_value_heads", "intermediate_size", "tie_word_embeddings",
                          "attention_bias", "no_rope_layer", "hidden_act"}) {
    if (has(in(key))) r_.take(in(key), "the model");
  }
  mixture(m);
}

void NanotronReading::mixture(ModelSpec& m) {
  if (has(in("moe_num_experts"))) {  // examples/moe
    Mixture x;
    x.experts = static_cast<std::uint32_t>(r_.whole(in("moe_num_experts"), 1, 4096).value_or(1));
    x.per_token = static_cast<std::uint32_t>(r_.whole(in("num_experts_per_tok"), 1, x.experts).value_or(1));
    x.ffn = m.ffn;
    x.scores = Mixture::Scores::softmax_all;
    if (x.experts > 1) m.mixture = x;
    for (const char* key : {"moe_num_experts", "num_experts_per_tok"}) {
      if (has(in(key))) r_.take(in(key), "the model");
    }
    r_.without_effect({in("moe_capacity_factor")}, "no tokens are dropped");
    return;
  }
  const std::string table = in("moe_config.");
  if (!r_.file().has(table + "num_experts") && !r_.file().has(table + "top_k")) return;
  Mixture x;
  const auto whole = [&](const char* key, std::uint64_t otherwise, std::uint64_t most) {
    const auto value = r_.whole(table + key, 1, most);
    if (value) r_.take(table + key, "the model");
    return value.value_or(otherwise);
  };
  x.experts = static_cast<std::uint32_t>(whole("num_experts", 8, 4096));
  x.per_token = static_cast<std::uint32_t>(whole("top_k", 2, x.experts));
  x.ffn = whole("moe_intermediate_size", 1408, max_width);
  const std::uint64_t shared = whole("shared_expert_intermediate_size", 5632, max_width);
  x.shared_gate = r_.toggle(table + "enable_shared_expert").value_or(false);
  if (x.shared_gate) x.shared_ffn = shared;
  x.scores = Mixture::Scores::softmax_all;
  if (const LaunchValue* layers = r_.value(table + "layers"); layers != nullptr) {
    std::vector<bool> sparse(m.layers, false);
    for (const LaunchValue& layer : layers->items) {
      if (layer.text == "-1") sparse.assign(m.layers, true);
      for (std::size_t i = 0; i < m.layers; ++i) {
        if (layer.text == std::to_string(i)) sparse[i] = true;
      }
    }
    for (std::uint32_t i = 0; i < m.layers; ++i) {
      if (!sparse[i]) x.dense.push_back(i);
    }
    r_.take(table + "layers", "the model");
  }
  if (has(table + "enable_shared_expert")) r_.take(table + "enable_shared_expert", "the model");
  if (const auto weight = r_.real(table + "router_aux_loss_coef")) {
    r_.without_effect(table + "router_aux_loss_coef", "it adds one number to the loss");
  }
  r_.without_effect({table + "token_dispatcher_type"}, "experts are all on each rank");
  m.mixture = std::move(x);
}

void NanotronReading::starcoder(ModelSpec& m) {
  m.norm = Norm::layer_norm;
  m.activation = Activation::gelu;
  m.biases = Biases::of_layers(true);
  m.tied_embeddings = true;
  m.norm_epsilon = r_.real(in("layer_norm_epsilon")).value_or(1e-5);
  m.ffn = r_.whole(in("intermediate_size"), 1, max_width).value_or(4 * m.hidden);
  const bool grouped = r_.toggle(in("grouped_query")).value_or(false);
  m.kv_heads = grouped ? r_.whole(in("num_kv_heads"), 1, max_width).value_or(m.heads) : 1;
  for (const char* key : {"layer_norm_epsilon", "intermediate_size", "grouped_query", "num_kv_heads", "multi_query",
                          "activation_function", "use_rotary_embeddings", "use_position_embeddings"}) {
    if (has(in(key))) r_.take(in(key), "the model");
  }
  const double residual = r_.real(in("resid_pdrop")).value_or(0.1);
  set_or_assume(in("resid_pdrop"), "workload.hidden_dropout", fmt::format("{}", residual));
  set_or_assume(in("attn_pdrop"), "workload.attention_dropout",
                fmt::format("{}", r_.real(in("attn_pdrop")).value_or(0.1)));
  if (const auto rate = r_.real(in("embd_pdrop")); rate && *rate != residual) {
    r_.refuse(in("embd_pdrop"), "another dropout rate of embeddings is not in plans",
              fmt::format("{} for all but attention", residual));
  } else if (has(in("embd_pdrop"))) {
    r_.take(in("embd_pdrop"), "dropout of embeddings");
  }
}

}  // namespace orrery
