#include "core/spec/hf/mixers.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

namespace orrery::hf {
namespace {

constexpr std::array counted{
    no_effect("hidden_act"),
    no_effect("hidden_activation"),
    no_effect("sliding_window"),
    no_effect("use_sliding_window"),
    no_effect("max_window_layers"),
    no_effect("rms_norm_eps"),
    no_effect("rope_theta"),
    no_effect("rope_scaling"),
    no_effect("rope_parameters"),
    no_effect("partial_rotary_factor"),
    no_effect("norm_topk_prob"),
    no_effect("routed_scaling_factor"),
    no_effect("n_group"),
    no_effect("topk_group"),
    no_effect("topk_method"),
    no_effect("scoring_func"),
    // The library's classes build no prediction modules.
    no_effect("num_nextn_predict_layers"),
    no_effect("num_mtp_layers"),
};

}  // namespace

std::vector<std::string> layer_names(Config& c, const char* key, std::uint64_t layers,
                                     const std::function<std::string(std::uint64_t)>& otherwise) {
  std::vector<std::string> names = c.texts(key);
  if (names.empty()) {
    for (std::uint64_t l = 0; l < layers; ++l) names.push_back(otherwise(l));
  }
  if (names.size() != layers && c.good()) {
    c.error(key, "hf.range", fmt::format("{} does not name a kind for each layer", key),
            {fmt::format("It has {} names; the model has {} layers.", names.size(), layers)});
  }
  names.resize(layers);
  return names;
}

Count number_or_auto(Config& c, const char* key, Count otherwise) {
  const nlohmann::json* value = c.find(key);
  return value == nullptr || (value->is_string() && *value == "auto") ? otherwise : number(c, key);
}

ModelSpec decoder_shape(Config& c) {
  ModelSpec m = shape(c, {.kv_heads = "num_key_value_heads", .head_dim = "head_dim"});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  return m;
}

Count decoder_attention(Config& c, const ModelSpec& m) {
  const bool bias = truth(c, "attention_bias");
  return grouped_attention(m.hidden, m.heads, m.kv_heads, m.head_dim, bias, bias);
}

Keys counted_keys() { return counted; }

void count_decoder(Config& c, ModelSpec& m, const Decoder& d, std::string because) {
  const Count table = Count(m.vocabulary) * m.hidden, head = m.tied_embeddings ? Count(0) : table;
  const Count body = table + d.layers + m.hidden;
  const bool sparse = d.active < d.layers;
  count(c, m, body, head, std::move(because), sparse ? table + d.active + m.hidden + head : Count(0));
}

}  // namespace orrery::hf
