#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Decoders whose attention or feed-forward parts have a few weights more than LLaMA's.
namespace orrery::hf {
namespace {

constexpr std::array apertus_keys{
    read("vocab_size", "131072", "vocabulary"),
    read("intermediate_size", "14336", "ffn"),
    read("max_position_embeddings", "65536", "max_positions"),
    only("qk_norm", "true", "queries and keys without norms"),
    only("post_norm", "false", "norms behind the branches"),
    no_effect("mlp_bias"),
};
constexpr std::array bitnet_keys{
    read("vocab_size", "128256", "vocabulary"),
    read("hidden_size", "2560", "hidden"),
    read("intermediate_size", "6912", "ffn"),
    read("num_hidden_layers", "30", "layers"),
    read("num_attention_heads", "20", "heads"),
    read("num_key_value_heads", "5", "kv_heads"),
    no_effect("mlp_bias"),
};
constexpr std::array diffllama_keys{
    read("hidden_size", "2048", "hidden"),
    read("intermediate_size", "8192", "ffn"),
    read("num_hidden_layers", "16", "layers"),
    no_effect("lambda_std_dev"),
    no_effect("mlp_bias"),
};
constexpr std::array doge_keys{
    read("vocab_size", "32768", "vocabulary"),
    read("hidden_size", "1024", "hidden"),
    read("intermediate_size", "2048", "ffn"),
    read("num_attention_heads", "8", "heads"),
    read("is_moe", "false"),
    read("num_experts", "16384"),
    read("num_experts_per_tok", "64"),
    no_effect("keep_window_size"),
    no_effect("dynamic_mask_ratio"),
    no_effect("num_cdmoe_experts"),
};
constexpr std::array jetmoe_keys{
    read("hidden_size", "2048", "hidden"),
    read("num_hidden_layers", "12", "layers"),
    read("num_key_value_heads", "16", "kv_heads"),
    read("kv_channels", "128"),
    read("intermediate_size", "5632", "mixture.ffn"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("num_local_experts", "8"),
    read("num_experts_per_tok", "2"),
    read("tie_word_embeddings", "true"),
    same_as("head_dim", "kv_channels"),
    no_effect("num_attention_heads"),  // kv heads times experts that a token visits
    no_effect("activation_function"),
    no_effect("aux_loss_coef"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

void count_layers(Config& c, ModelSpec& m, Count layer, std::string because) {
  Decoder all;
  all.add(m.layers * layer);
  count_decoder(c, m, all, std::move(because));
}

/// Apertus learns two constants of its activation in each layer.
ModelSpec apertus(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  count_layers(c, m, decoder_attention(c, m) + 2 * Count(m.head_dim) + feed_forward(h, m.ffn, false, false) + 2 + 2 * h,
               "an activation with constants that are learned");
  return m;
}

/// BitNet has a norm ahead of the last product of each part.
ModelSpec bitnet(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  count_layers(c, m, decoder_attention(c, m) + h + feed_forward(h, m.ffn, true, false) + m.ffn + 2 * h,
               "norms ahead of the last product of each part");
  return m;
}

/// DiffLlama weighs two attentions with four vectors of d.
ModelSpec diffllama(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  count_layers(c, m, decoder_attention(c, m) + 4 * Count(m.head_dim) + feed_forward(h, m.ffn, true, false) + 2 * h,
               "differences of two attentions");
  return m;
}

/// Doge masks by a product k d x k of the values and k weights; each part has a weight for each feature of the stream.
/// Its experts are single vectors, E of them on each side, found by 2 sqrt(E) keys.
ModelSpec doge(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden, k = m.kv_heads, d = m.head_dim;
  const bool bias = truth(c, "attention_bias");
  const Count masks = product(k * d, k, bias) + k;
  Count layer = decoder_attention(c, m) + 2 * d + masks + feed_forward(h, m.ffn, true, truth(c, "mlp_bias")) + 4 * h;
  Count met = layer;
  if (truth(c, "is_moe")) {
    const std::uint64_t vectors = c.whole("num_experts", 1U << 20U);
    std::uint64_t keys = 1;
    while ((keys + 1) * (keys + 1) <= vectors) ++keys;
    const Count router = product(h, 2 * Count(keys));
    layer += router + 2 * Count(vectors) * h;
    met += router + 2 * number(c, "num_experts_per_tok") * h;
  }
  Decoder all;
  all.add(m.layers * layer, m.layers * met);
  count_decoder(c, m, all, "attention with masks that are learned");
  return m;
}

/// JetMoE has experts in attention too: E products h x k d for queries and as many for the output; keys and values are
/// shared. Each mixture has a bias of h.
ModelSpec jetmoe(Config& c) {
  ModelSpec m = shape(c, {.heads = nullptr, .head_dim = "kv_channels"});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const Count h = m.hidden, k = number(c, "num_key_value_heads"), d = number(c, "kv_channels");
  const Count all_experts = number(c, "num_local_experts"), met = number(c, "num_experts_per_tok");
  m.kv_heads = std::max<std::uint64_t>(1, std::min(max_width, k.value()));
  m.heads = std::max<std::uint64_t>(1, std::min(max_width, (k * met).value()));
  const Count around = product(h, 2 * k * d) + 2 * product(h, all_experts) + 4 * h;
  const Count expert = 2 * product(h, k * d) + feed_forward(h, m.ffn, true, false);
  Decoder all;
  all.add(m.layers * (around + all_experts * expert), m.layers * (around + met * expert));
  count_decoder(c, m, all, "experts in attention");
  return m;
}

}  // namespace

std::vector<Family> gated_families() {
  return with_tables(
      {
          {"apertus", {"ApertusForCausalLM"}, {apertus_keys}, apertus},
          {"bitnet", {"BitNetForCausalLM"}, {bitnet_keys}, bitnet},
          {"diffllama", {"DiffLlamaForCausalLM"}, {diffllama_keys}, diffllama},
          {"doge", {"DogeForCausalLM"}, {doge_keys}, doge},
          {"jetmoe", {"JetMoeForCausalLM"}, {jetmoe_keys}, jetmoe},
      },
      {counted_keys(), usual_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
