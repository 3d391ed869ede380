#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/count.hpp"
#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Encoders of text that follow BERT. RoBERTa's and DistilBERT's layers are BERT's; those of the others are counted.
namespace orrery::hf {
namespace {

constexpr std::array roberta_keys{
    read("vocab_size", "30522"),
    read("max_position_embeddings", "512"),
    read("type_vocab_size", "2"),
    no_effect("classifier_dropout"),
};
constexpr std::array roberta_first_keys{read("vocab_size", "50265")};
constexpr std::array roberta_xl_keys{
    read("vocab_size", "250880"),      read("hidden_size", "2560"),        read("num_hidden_layers", "36", "layers"),
    read("num_attention_heads", "32"), read("intermediate_size", "10240"), read("max_position_embeddings", "514"),
    read("type_vocab_size", "1"),      read("layer_norm_eps", "1e-5"),
};
constexpr std::array megatron_keys{
    read("vocab_size", "29056"),
    read("hidden_size", "1024"),
    read("num_hidden_layers", "24", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("intermediate_size", "4096"),
};
constexpr std::array distilbert_keys{
    read("vocab_size", "30522"),
    read("max_position_embeddings", "512"),
    read("n_layers", "6", "layers"),
    read("n_heads", "12", "heads"),
    read("dim", "768"),
    read("hidden_dim", "3072"),
    only("tie_word_embeddings", "true", "a head that is not the word table"),
    same_as("hidden_size", "dim"),
    same_as("num_attention_heads", "n_heads"),
    same_as("num_hidden_layers", "n_layers"),
    read("activation", "\"gelu\""),
    no_effect("attention_dropout"),
    no_effect("dropout"),
    no_effect("qa_dropout"),
    no_effect("seq_classif_dropout"),
    no_effect("tie_weights_"),
    no_effect("sinusoidal_pos_embds"),  // where their values begin
};
constexpr std::array electra_keys{
    read("embedding_size", "128"),     read("hidden_size", "256"),        read("num_attention_heads", "4", "heads"),
    read("intermediate_size", "1024"), no_effect("summary_type"),         no_effect("summary_use_proj"),
    no_effect("summary_activation"),   no_effect("summary_last_dropout"),
};
constexpr std::array albert_keys{
    read("vocab_size", "30000"),        read("embedding_size", "128"), read("hidden_size", "4096"),
    read("num_hidden_groups", "1"),     read("inner_group_num", "1"),  read("num_attention_heads", "64", "heads"),
    read("intermediate_size", "16384"), no_effect("hidden_act"),       no_effect("classifier_dropout_prob"),
    no_effect("down_scale_factor"),     no_effect("gap_size"),         no_effect("net_structure_type"),
    no_effect("num_memory_blocks"),     no_effect("layers_to_keep"),
};
constexpr std::array mpnet_keys{
    read("vocab_size", "30527"),
    read("relative_attention_num_buckets", "32"),
};
constexpr std::array roformer_keys{
    read("vocab_size", "50000"),
    read("embedding_size", "null"),
    read("max_position_embeddings", "1536"),
    no_effect("rotary_value"),
};
constexpr std::array esm_keys{
    read("vocab_size", "33"),
    read("max_position_embeddings", "1026"),
    read("position_embedding_type", "\"absolute\""),
    read("emb_layer_norm_before", "null"),
    only("is_folding_model", "false", "a model that folds proteins"),
    no_effect("esmfold_config"),
    no_effect("vocab_list"),
    no_effect("token_dropout"),
    no_effect("rope_theta"),
    no_effect("hidden_act"),
};

/// RoBERTa counts positions from behind its padding's, so two rows of the table are never a position's.
ModelSpec roberta(Config& c) {
  ModelSpec m = bert(c);
  constexpr std::uint64_t ahead = 2;
  if (m.max_positions <= ahead && c.good()) {
    c.error("max_position_embeddings", "hf.range", "max_position_embeddings leaves no position",
            {"The first two rows of the table are no positions."});
    return m;
  }
  m.position_offset = ahead;
  m.max_positions -= ahead;
  return m;
}

ModelSpec norms_ahead(Config& c) {
  ModelSpec m = bert(c);
  // BERT's norm behind the embedding is here behind the last layer. The head is the same.
  m.counted = CountedOnly{parameter_count(m), 0, "BERT's layers with norms ahead of their parts"};
  return m;
}

/// BERT without segments.
ModelSpec distilbert(Config& c) {
  ModelSpec m = shape(c, {"n_layers", "dim", "n_heads", nullptr, nullptr, "hidden_dim"});
  m.architecture = Architecture::bert;
  heads_divide(c, m, "n_heads", "dim");
  m.norm = Norm::layer_norm;
  m.norm_epsilon = 1e-12;
  m.activation = activation(c, "activation", Gate::without);
  m.positions = PositionEncoding::learned;
  m.biases = Biases::of_layers(true);
  m.tied_embeddings = true;
  return m;
}

/// Tables, e wide, with their norm: (V + P + G) e + 2 e. G segments.
Count narrow_tables(Config& c, const ModelSpec& m, Count e) {
  return (Count(m.vocabulary) + m.max_positions + number(c, "type_vocab_size") + 2) * e;
}

/// A head over tables that are e wide: h e + e, a norm 2 e, biases V.
Count narrow_head(const ModelSpec& m, Count e) { return product(m.hidden, e, true) + 2 * e + m.vocabulary; }

/// ELECTRA's generator has a head for masked words, its discriminator one product for each word: h^2 + h + h + 1. With
/// tables as wide as its layers the generator is BERT.
ModelSpec electra(Config& c) {
  if (!is_class(c, "ElectraForPreTraining") && number(c, "embedding_size") == number(c, "hidden_size")) return bert(c);
  ModelSpec m = shape(c);
  const Count e = number(c, "embedding_size"), h = m.hidden;
  const Count widen = e == h ? Count(0) : product(e, h, true);
  const Count head = is_class(c, "ElectraForPreTraining") ? product(h, h, true) + h + 1 : narrow_head(m, e);
  count(c, m, narrow_tables(c, m, e) + widen + m.layers * bert_layer(h, m.ffn), head,
        e == h ? "a head that finds replaced words" : "tables that are narrower than the layers");
  return m;
}

/// ALBERT's layers share weights: there are so many groups of so many layers. Its first class of two tasks has a pooler
/// and two classes of pairs, h^2 + h + 2 h + 2.
ModelSpec albert(Config& c) {
  ModelSpec m = shape(c);
  const Count e = number(c, "embedding_size"), h = m.hidden;
  const Count layers = number(c, "num_hidden_groups") * number(c, "inner_group_num");
  const Count pairs = is_class(c, "AlbertForPreTraining") ? product(h, h, true) + 2 * h + 2 : Count(0);
  count(c, m, narrow_tables(c, m, e) + product(e, h, true) + layers * bert_layer(h, m.ffn), narrow_head(m, e) + pairs,
        "layers that share their weights");
  return m;
}

/// RoFormer keeps the angles of its positions in a table of P x d.
ModelSpec roformer(Config& c) {
  ModelSpec m = shape(c);
  const Count h = m.hidden, e = number(c, "embedding_size", h);
  const Count tables = (Count(m.vocabulary) + number(c, "type_vocab_size") + 2) * e;
  const Count widen = e == h ? Count(0) : product(e, h, true);
  count(c, m, tables + widen + Count(m.max_positions) * m.head_dim + m.layers * bert_layer(h, m.ffn), narrow_head(m, e),
        "an encoder with rotary positions");
  return m;
}

/// MPNet has no segments, and a bias of scores for each head and distance.
ModelSpec mpnet(Config& c) {
  ModelSpec m = shape(c);
  const Count h = m.hidden, v = m.vocabulary;
  const Count distances = number(c, "relative_attention_num_buckets") * m.heads;
  count(c, m, (v + m.max_positions + 2) * h + distances + m.layers * bert_layer(h, m.ffn),
        product(h, h, true) + 2 * h + v, "positions relative to each other");
  return m;
}

/// ESM has norms ahead of its parts and one at the end, and predicts contacts from all scores: L a + 1.
ModelSpec esm(Config& c) {
  ModelSpec m = shape(c);
  const Count h = m.hidden, v = m.vocabulary;
  const std::string positions =
      c.choice("position_embedding_type", {"absolute", "rotary", "relative_key", "relative_key_query"});
  const Count tables = v * h + (positions == "absolute" ? Count(m.max_positions) * h : Count(0));
  const Count norms = truth(c, "emb_layer_norm_before") ? 4 * h : 2 * h;
  const Count contacts = Count(m.layers) * m.heads + 1;
  if (positions.starts_with("relative")) {
    c.error("position_embedding_type", "hf.unsupported", "positions relative to each other are not counted for ESM",
            {"Supported: absolute, rotary."});
  }
  count(c, m, tables + norms + contacts + m.layers * bert_layer(h, m.ffn), product(h, h, true) + 2 * h + v,
        "an encoder of proteins");
  return m;
}

}  // namespace

std::vector<Family> text_encoder_families() {
  using Heads = Family::Heads;
  const Keys common = common_keys();
  const auto like_bert = [&](std::string_view type, std::vector<std::string_view> classes, std::vector<Keys> own,
                             ModelSpec (*reader)(Config&), Heads heads) {
    own.insert(own.end(), {bert_keys(), encoder_keys(), common});
    return Family{type, std::move(classes), std::move(own), reader, {}, heads};
  };
  constexpr Heads like_roberta = Heads::pooler_unless_classified;
  return {
      like_bert("roberta", {"RobertaForMaskedLM"}, {roberta_first_keys, roberta_keys}, roberta, like_roberta),
      like_bert("xlm-roberta", {"XLMRobertaForMaskedLM"}, {roberta_keys}, roberta, like_roberta),
      like_bert("camembert", {"CamembertForMaskedLM"}, {roberta_keys}, roberta, like_roberta),
      like_bert("data2vec-text", {"Data2VecTextForMaskedLM"}, {roberta_keys}, roberta, like_roberta),
      like_bert("xlm-roberta-xl", {"XLMRobertaXLForMaskedLM"}, {roberta_xl_keys}, norms_ahead, like_roberta),
      like_bert("megatron-bert", {"MegatronBertForMaskedLM"}, {megatron_keys}, norms_ahead, Heads::pooler),
      {"distilbert", {"DistilBertForMaskedLM"}, {distilbert_keys, common}, distilbert, {}, Heads::dense},
      like_bert("electra", {"ElectraForMaskedLM", "ElectraForPreTraining"}, {electra_keys}, electra, Heads::dense),
      like_bert("albert", {"AlbertForMaskedLM", "AlbertForPreTraining"}, {albert_keys}, albert, Heads::pooler),
      like_bert("roformer", {"RoFormerForMaskedLM"}, {roformer_keys}, roformer, Heads::dense),
      like_bert("mpnet", {"MPNetForMaskedLM"}, {mpnet_keys}, mpnet, like_roberta),
      like_bert("esm", {"EsmForMaskedLM"}, {esm_keys}, esm, like_roberta),
  };
}

}  // namespace orrery::hf
