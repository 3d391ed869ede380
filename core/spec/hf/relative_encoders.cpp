#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/count.hpp"
#include "core/spec/hf/families.hpp"

// Encoders of text whose attention knows distances (DeBERTa), or whose layers follow LLaMA (ModernBERT and others).
namespace orrery::hf {
namespace {

constexpr std::array deberta_keys{
    read("vocab_size", "50265"),
    read("type_vocab_size", "0"),
    read("relative_attention", "false"),
    read("max_relative_positions", "-1"),
    read("position_biased_input", "true"),
    read("pos_att_type", "null"),
    read("talking_head", "false"),
    read("embedding_size", "null"),
    only("legacy", "true", "a head for masked words of another kind"),
    no_effect("layer_norm_eps"),
    no_effect("position_embedding_type"),
    no_effect("pooler_dropout"),
    no_effect("pooler_hidden_act"),
    no_effect("pooler_hidden_size"),
    no_effect("classifier_dropout"),
};
constexpr std::array deberta_v2_keys{
    read("vocab_size", "128100"),
    read("hidden_size", "1536"),
    read("num_hidden_layers", "24", "layers"),
    read("num_attention_heads", "24", "heads"),
    read("intermediate_size", "6144"),
    read("position_buckets", "-1"),
    read("share_att_key", "false"),
    read("norm_rel_ebd", "\"none\""),
    read("conv_kernel_size", "0"),
    read("conv_groups", "1"),
    no_effect("conv_act"),
    only("talking_head", "false", "heads that are mixed"),
};
constexpr std::array nomic_keys{
    read("vocab_size", "30528"),
    read("max_position_embeddings", "2048"),
    read("head_dim", "null"),
    only("hidden_act", "\"silu\"", "another activation"),
    same_as("n_embd", "hidden_size"),
    same_as("n_head", "num_attention_heads"),
    same_as("n_layer", "num_hidden_layers"),
    same_as("n_inner", "intermediate_size"),
    same_as("n_positions", "max_position_embeddings"),
};
constexpr std::array modernbert_keys{
    read("vocab_size", "50368"),
    read("hidden_size", "768"),
    read("intermediate_size", "1152"),
    read("num_hidden_layers", "22", "layers"),
    read("num_attention_heads", "12", "heads"),
    read("max_position_embeddings", "8192"),
    read("norm_bias", "false"),
    read("attention_bias", "false"),
    read("mlp_bias", "false"),
    read("decoder_bias", "true"),
    read("classifier_bias", "false"),
    read("tie_word_embeddings", "true"),
    no_effect("hidden_activation"),
    no_effect("classifier_activation"),
    no_effect("classifier_dropout"),
    no_effect("classifier_pooling"),
    no_effect("deterministic_flash_attn"),
    no_effect("embedding_dropout"),
    no_effect("mlp_dropout"),
    no_effect("global_attn_every_n_layers"),
    no_effect("global_rope_theta"),
    no_effect("local_rope_theta"),
    no_effect("local_attention"),
    no_effect("layer_types"),
    no_effect("gradient_checkpointing"),
    no_effect("initializer_cutoff_factor"),
    no_effect("layer_norm_eps"),
    no_effect("norm_eps"),
    no_effect("position_embedding_type"),
    no_effect("reference_compile"),
    no_effect("repad_logits_with_grad"),
    no_effect("sparse_pred_ignore_index"),
    no_effect("sparse_prediction"),
};
constexpr std::array eurobert_keys{
    read("vocab_size", "128256"),
    read("hidden_size", "768"),
    read("intermediate_size", "3072"),
    read("num_hidden_layers", "12", "layers"),
    read("num_attention_heads", "12", "heads"),
    read("max_position_embeddings", "8192"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    no_effect("clf_pooling"),
    no_effect("classifier_pooling"),
    no_effect("hidden_dropout"),
};

struct Distances {
  bool keys = false;     ///< c2p: scores of queries with keys of distances
  bool queries = false;  ///< p2c: scores of queries of distances with keys
  Count rows = 0;        ///< distances with a row in the table
};

/// pos_att_type is a list, or a text with | between its parts.
Distances distances(Config& c, const ModelSpec& m) {
  Distances out;
  if (!truth(c, "relative_attention")) return out;
  const nlohmann::json* kinds = c.find("pos_att_type");
  const auto has = [&](const char* kind) {
    if (kinds == nullptr) return false;
    if (kinds->is_string()) return kinds->get_ref<const std::string&>().find(kind) != std::string::npos;
    return kinds->is_array() && std::find(kinds->begin(), kinds->end(), kind) != kinds->end();
  };
  out.keys = has("c2p");
  out.queries = has("p2c");
  const auto positive = [&](const char* key) {
    const nlohmann::json* value = c.find(key);
    const bool none = value == nullptr || (value->is_number() && value->get<double>() < 1);
    return none ? Count(0) : number(c, key);
  };
  Count span = c.knows("position_buckets") ? positive("position_buckets") : Count(0);
  if (span == Count(0)) span = positive("max_relative_positions");
  out.rows = 2 * (span == Count(0) ? Count(m.max_positions) : span);
  return out;
}

/// V h, P h where positions are added, G h, and the norm 2 h.
Count tables(Config& c, const ModelSpec& m) {
  const Count positions = truth(c, "position_biased_input") ? Count(m.max_positions) : Count(0);
  const Count e = number(c, "embedding_size", m.hidden), h = m.hidden;
  const Count widen = e == h ? Count(0) : product(e, h);
  return (Count(m.vocabulary) + positions + number(c, "type_vocab_size")) * e + widen + 2 * h;
}

Count masked_head(const ModelSpec& m) { return product(m.hidden, m.hidden, true) + 2 * Count(m.hidden) + m.vocabulary; }

/// DeBERTa's queries and values have biases, its keys have none. Distances have products of keys (h^2) and of queries
/// (h^2 + h) in every layer, and a table of 2 R h. Heads that are mixed have 2 a^2. R distances.
ModelSpec deberta(Config& c) {
  ModelSpec m = shape(c);
  const Count h = m.hidden;
  const Distances far = distances(c, m);
  Count layer = 3 * product(h, h) + 2 * h + product(h, h, true) + feed_forward(h, m.ffn, false, true) + 4 * h;
  if (far.keys) layer += product(h, h);
  if (far.queries) layer += product(h, h, true);
  if (truth(c, "talking_head")) layer += 2 * Count(m.heads) * m.heads;
  count(c, m, tables(c, m) + m.layers * layer + far.rows * h, masked_head(m), "attention that knows distances");
  return m;
}

/// DeBERTa-v2 has biases everywhere. Distances share the layers' products, or have their own. A convolution of K words
/// beside the first layer has K h^2 / groups + h, and a norm.
ModelSpec deberta_v2(Config& c) {
  ModelSpec m = shape(c);
  const Count h = m.hidden;
  const Distances far = distances(c, m);
  const bool own = truth(c, "relative_attention") && !truth(c, "share_att_key");
  const Count more = ((own && far.keys ? 1 : 0) + (own && far.queries ? 1U : 0U)) * product(h, h, true);
  Count body = tables(c, m) + m.layers * (bert_layer(h, m.ffn) + more) + far.rows * h;
  if (truth(c, "relative_attention") && c.text("norm_rel_ebd").find("layer_norm") != std::string::npos) body += 2 * h;
  const Count width = number(c, "conv_kernel_size");
  if (width > Count(0)) body += width * h * h / number(c, "conv_groups") + 3 * h;
  count(c, m, body, masked_head(m), "attention that knows distances");
  return m;
}

/// V h + G h + 2 h and L (4 h^2 + 3 h f + 4 h), without biases.
ModelSpec nomic_bert(Config& c) {
  ModelSpec m = shape(c);
  const Count h = m.hidden, inner = Count(m.heads) * number(c, "head_dim", m.head_dim);
  const Count layer = 4 * product(h, inner) + feed_forward(h, m.ffn, true, false) + 4 * h;
  count(c, m, (Count(m.vocabulary) + number(c, "type_vocab_size") + 2) * h + m.layers * layer, masked_head(m),
        "an encoder with rotary positions and gates");
  return m;
}

/// ModernBERT has norms ahead of its parts, but none ahead of the first attention.
ModelSpec modernbert(Config& c) {
  ModelSpec m = shape(c);
  const Count h = m.hidden, norm = truth(c, "norm_bias") ? 2 * h : h;
  const Count layer = attention(h, truth(c, "attention_bias")) + feed_forward(h, m.ffn, true, truth(c, "mlp_bias"));
  const Count body = Count(m.vocabulary) * h + m.layers * layer + (2 * Count(m.layers) + 1) * norm;
  const Count untied = truth(c, "tie_word_embeddings") ? Count(0) : Count(m.vocabulary) * h;
  const Count head = product(h, h, truth(c, "classifier_bias")) + norm + untied +
                     (truth(c, "decoder_bias") ? Count(m.vocabulary) : Count(0));
  count(c, m, body, head, "an encoder with rotary positions and gates");
  return m;
}

/// EuroBERT is LLaMA whose positions all see each other. Its head has biases where feed-forward layers have some.
ModelSpec eurobert(Config& c) {
  ModelSpec m = shape(c, {.kv_heads = "num_key_value_heads", .head_dim = "head_dim"});
  const Count h = m.hidden, v = m.vocabulary;
  const bool bias = truth(c, "attention_bias");
  const Count layer = grouped_attention(h, m.heads, m.kv_heads, m.head_dim, bias, bias) +
                      feed_forward(h, m.ffn, true, truth(c, "mlp_bias")) + 2 * h;
  m.tied_embeddings = truth(c, "tie_word_embeddings");
  const Count head_bias = truth(c, "mlp_bias") ? v : Count(0);
  count(c, m, v * h + m.layers * layer + h, head_bias + (m.tied_embeddings ? Count(0) : v * h),
        "an encoder with rotary positions and gates");
  return m;
}

}  // namespace

std::vector<Family> relative_encoder_families() {
  using Heads = Family::Heads;
  const Keys common = common_keys(), rotary = rotary_keys();
  return {
      {"deberta",
       {"DebertaForMaskedLM"},
       {deberta_keys, bert_keys(), encoder_keys(), common},
       deberta,
       {},
       Heads::dense},
      {"deberta-v2",
       {"DebertaV2ForMaskedLM"},
       {deberta_v2_keys, deberta_keys, bert_keys(), encoder_keys(), common},
       deberta_v2,
       {},
       Heads::dense},
      {"nomic_bert",
       {"NomicBertForMaskedLM"},
       {nomic_keys, rotary, bert_keys(), encoder_keys(), common},
       nomic_bert,
       {},
       Heads::nothing},
      {"modernbert", {"ModernBertForMaskedLM"}, {modernbert_keys, rotary, common}, modernbert, {}, Heads::nothing},
      {"eurobert",
       {"EuroBertForMaskedLM"},
       {eurobert_keys, usual_keys(), rotary, common},
       eurobert,
       {},
       Heads::nothing},
  };
}

}  // namespace orrery::hf
