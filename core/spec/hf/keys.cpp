#include "core/spec/hf/keys.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/nearest.hpp"
#include "core/base/source_excerpt.hpp"

namespace orrery::hf {
namespace {

constexpr std::array common{
    read("model_type", "null"),
    read("architectures", "null"),
    read("_name_or_path", "\"\""),
    only("is_encoder_decoder", "false", "an encoder and a decoder"),
    only("add_cross_attention", "false", "cross-attention"),
    only("pruned_heads", "{}", "heads that were cut out"),
    only("per_layer_config", "{}", "layers unlike each other"),
    only("text_config", "null", "a model inside the model"),
    only("vision_config", "null", "a model inside the model"),
    only("audio_config", "null", "a model inside the model"),
    // These are names, versions and types of released weights.
    no_effect("name_or_path"),
    no_effect("transformers_version"),
    no_effect("torch_dtype"),
    no_effect("dtype"),
    no_effect("auto_map"),
    no_effect("quantization_config"),
    no_effect("tokenizer_class"),
    no_effect("finetuning_task"),
    no_effect("task_specific_params"),
    no_effect("problem_type"),
    no_effect("id2label"),  // classes.cpp looks at it where a file names a class with a classifier
    no_effect("label2id"),
    no_effect("num_labels"),
    no_effect("_num_labels"),
    no_effect("unsloth_version"),
    no_effect("unsloth_fixed"),
    // These say how the library runs the model.
    no_effect("_commit_hash"),
    no_effect("_attn_implementation"),
    no_effect("_attn_implementation_autoset"),
    no_effect("attn_implementation"),
    no_effect("experts_implementation"),
    no_effect("torchscript"),
    no_effect("use_bfloat16"),
    no_effect("tf_legacy_loss"),
    no_effect("xla_device"),
    no_effect("use_cache"),
    no_effect("output_past"),
    no_effect("output_attentions"),
    no_effect("output_hidden_states"),
    no_effect("return_dict"),
    no_effect("return_dict_in_generate"),
    no_effect("chunk_size_feed_forward"),
    no_effect("gradient_checkpointing"),
    no_effect("tie_encoder_decoder"),
    no_effect("tie_last_hidden_states"),
    no_effect("cross_attention_hidden_size"),
    no_effect("pretraining_tp"),
    // These say where training starts, and rates that the workload states.
    no_effect("initializer_range"),
    no_effect("attention_dropout"),
    no_effect("hidden_dropout"),
    // Tokens and generation.
    no_effect("bos_token_id"),
    no_effect("eos_token_id"),
    no_effect("pad_token_id"),
    no_effect("sep_token_id"),
    no_effect("cls_token_id"),
    no_effect("mask_token_id"),
    no_effect("unk_token_id"),
    no_effect("decoder_start_token_id"),
    no_effect("boi_token_id"),
    no_effect("eoi_token_id"),
    no_effect("boa_token_id"),
    no_effect("eoa_token_id"),
    no_effect("eod_token_id"),
    no_effect("prefix"),
    no_effect("max_length"),
    no_effect("max_new_tokens"),
    no_effect("min_length"),
    no_effect("do_sample"),
    no_effect("early_stopping"),
    no_effect("num_beams"),
    no_effect("num_beam_groups"),
    no_effect("diversity_penalty"),
    no_effect("temperature"),
    no_effect("top_k"),
    no_effect("top_p"),
    no_effect("typical_p"),
    no_effect("repetition_penalty"),
    no_effect("length_penalty"),
    no_effect("no_repeat_ngram_size"),
    no_effect("encoder_no_repeat_ngram_size"),
    no_effect("encoder_repetition_penalty"),
    no_effect("bad_words_ids"),
    no_effect("num_return_sequences"),
    no_effect("output_scores"),
    no_effect("forced_bos_token_id"),
    no_effect("forced_eos_token_id"),
    no_effect("remove_invalid_values"),
    no_effect("exponential_decay_length_penalty"),
    no_effect("suppress_tokens"),
    no_effect("begin_suppress_tokens"),
};

constexpr std::array inner{
    no_effect("hidden_act"),
    no_effect("layer_norm_eps"),
    no_effect("rms_norm_eps"),
    no_effect("norm_eps"),
    no_effect("dropout"),
    no_effect("attention_probs_dropout_prob"),
    no_effect("hidden_dropout_prob"),
    no_effect("drop_path_rate"),
    no_effect("initializer_factor"),
    no_effect("tie_word_embeddings"),
    no_effect("is_decoder"),
    no_effect("is_encoder_decoder"),
    no_effect("add_cross_attention"),
    no_effect("pruned_heads"),
    no_effect("layer_norm_epsilon"),
    no_effect("use_flash_attn"),
    no_effect("logit_scale_init_value"),
};

constexpr std::array rotary{
    read("rope_theta", "10000.0"),
    read("rope_scaling", "null", "rope_scaling"),
    read("rope_parameters", "null", "rope_scaling"),
    read("partial_rotary_factor", "1.0", "rotary_dim"),
};

// The kind of scaling and its numbers, which change neither parameters nor costs.
constexpr std::array rope{
    read("rope_type", "null"),
    read("type", "null"),
    read("rope_theta", "null"),
    read("partial_rotary_factor", "null"),
    read("full_attention", "null"),  // Gemma-3: angles of each kind of layers
    read("sliding_attention", "null"),
    // Positions of images in several dimensions; those of words are the same in each.
    no_effect("mrope_section"),
    no_effect("mrope_interleaved"),
    read("factor", "null"),
    read("original_max_position_embeddings", "null"),
    read("attention_factor", "null"),
    read("beta_fast", "null"),
    read("beta_slow", "null"),
    read("mscale", "null"),
    read("mscale_all_dim", "null"),
    read("truncate", "null"),
    read("short_factor", "null"),
    read("long_factor", "null"),
    read("low_freq_factor", "null"),
    read("high_freq_factor", "null"),
    no_effect("finetuned"),
};

constexpr std::array usual{
    read("num_hidden_layers", "32", "layers"),
    read("hidden_size", "4096", "hidden"),
    read("num_attention_heads", "32", "heads"),
    read("num_key_value_heads", "null", "kv_heads"),
    read("head_dim", "null", "head_dim"),
    read("intermediate_size", "11008", "ffn"),
    read("vocab_size", "32000", "vocabulary"),
    read("max_position_embeddings", "2048", "max_positions"),
    read("hidden_act", "\"silu\""),
    read("tie_word_embeddings", "false"),
    read("attention_bias", "false"),
    read("mlp_bias", "false"),
    no_effect("is_decoder"),
    no_effect("use_flash_attn"),
    // Rates of dropout.
    no_effect("resid_pdrop"),
    no_effect("embd_pdrop"),
    no_effect("attn_pdrop"),
    no_effect("residual_dropout"),
    no_effect("embedding_dropout"),
};
constexpr std::array rms{read("rms_norm_eps", "1e-6", "norm_epsilon")};
constexpr std::array layer_norm{read("layer_norm_eps", "1e-5", "norm_epsilon")};
constexpr std::array router{
    no_effect("output_router_logits"),
    no_effect("router_aux_loss_coef"),
    no_effect("router_jitter_noise"),
    no_effect("router_z_loss_coef"),
    no_effect("aux_loss_alpha"),
    no_effect("seq_aux"),
    no_effect("ep_size"),
};

/// The name in small letters, with one mark between words.
std::string plain(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == '.' || c == ' ') c = '_';
  }
  return out;
}

}  // namespace

Keys common_keys() { return common; }
Keys inner_keys() { return inner; }
Keys rotary_keys() { return rotary; }
Keys rope_keys() { return rope; }
std::vector<Family> with_tables(std::vector<Family> types, const std::vector<Keys>& shared) {
  for (Family& f : types) f.tables.insert(f.tables.end(), shared.begin(), shared.end());
  return types;
}

Keys usual_keys() { return usual; }
Keys rms_keys() { return rms; }
Keys layer_norm_keys() { return layer_norm; }
Keys router_keys() { return router; }

const Family* family_of(std::string_view type) {
  const std::vector<Family>& all = families();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Family& f) { return f.type == type; });
  return at == all.end() ? nullptr : &*at;
}

const Key* find_key(std::span<const Keys> tables, std::string_view name) {
  for (const Keys& keys : tables) {
    const auto at = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.name == name; });
    if (at != keys.end()) return &*at;
  }
  return nullptr;
}

std::string_view near_key(std::span<const Keys> tables, std::string_view name) {
  constexpr std::size_t longest = 48;  // no known key is longer
  if (name.size() > longest) return {};
  const std::string wanted = plain(name);
  const std::size_t most = name.size() < 4 ? 0 : name.size() < 8 ? 1 : 2;
  std::size_t best = most + 1;
  std::string_view nearest;
  for (const Keys& keys : tables) {
    for (const Key& k : keys) {
      const bool harmless = k.use == Use::no_effect;
      const std::size_t below = std::min(best, harmless && most > 0 ? most : best);
      if (k.name.size() + below <= name.size() || name.size() + below <= k.name.size()) continue;
      const std::size_t distance = edit_distance(wanted, k.name);
      if (distance < below) best = distance, nearest = k.name;
    }
  }
  return nearest;
}

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t most = 60;
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  }
  std::string text = escaped(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  return text.size() > most ? text.substr(0, most) + "..." : text;
}

}  // namespace orrery::hf
