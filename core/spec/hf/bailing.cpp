#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/spec_check.hpp"

// Ling and Ring: mixtures with experts that all tokens visit. Their files name code of their authors. The second
// generation has sigmoid scores with biases of choice, groups, and norms of queries and keys; files of both call
// themselves bailing_moe.
namespace orrery::hf {
namespace {

constexpr std::array bailing_keys{
    read("vocab_size", "157184", "vocabulary"),
    read("hidden_size", "2048", "hidden"),
    read("intermediate_size", "5120", "ffn"),
    read("num_hidden_layers", "20", "layers"),
    read("num_attention_heads", "16", "heads"),
    read("num_key_value_heads", "null", "kv_heads"),
    read("max_position_embeddings", "32768", "max_positions"),
    read("num_experts", "16", "mixture.experts"),
    read("num_shared_experts", "0"),
    read("num_experts_per_tok", "2", "mixture.per_token"),
    read("moe_intermediate_size", "null", "mixture.ffn"),
    read("moe_shared_expert_intermediate_size", "null", "mixture.shared_ffn"),
    read("first_k_dense_replace", "0", "mixture.first_dense"),
    read("norm_topk_prob", "true"),
    read("use_bias", "false"),
    read("use_qkv_bias", "false"),
    read("use_qk_norm", "false"),
    read("score_function", "\"softmax\""),
    read("moe_router_enable_expert_bias", "false"),
    read("routed_scaling_factor", "1.0", "mixture.scale"),
    read("n_group", "1", "mixture.groups"),
    read("topk_group", "1", "mixture.groups_per_token"),
    read("num_nextn_predict_layers", "0", "prediction_modules"),
    only("norm_head", "false", "a head whose rows are divided by their length"),
    only("multi_gate", "false", "a router for each kind of input"),
    only("use_rmsnorm", "true", "layer norms in place of rms norms"),
    only("use_sliding_window", "false", "layers that see a window of positions"),
    only("moe_router_topk_scaling_factor", "null", "another scale of gates"),
    only("rotary_type", "\"full-1d\"", "another rotation"),
    only("rotary_dim", "null", "rotation of a part of each head"),
    same_as("num_local_experts", "num_experts"),
    same_as("scoring_func", "score_function"),
    no_effect("sliding_window"),
    no_effect("max_window_layers"),
    no_effect("norm_softmax"),  // in which type scores are computed
    no_effect("router_dtype"),
    no_effect("output_dropout"),
    no_effect("mtp_loss_scaling_factor"),
    no_effect("router_type"),
    no_effect("moe_router_group_topk"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};
constexpr std::array second_keys{
    read("num_key_value_heads", "4", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("num_experts", "256", "mixture.experts"),
    read("num_shared_experts", "1"),
    read("num_experts_per_tok", "8", "mixture.per_token"),
    read("moe_intermediate_size", "512", "mixture.ffn"),
    read("first_k_dense_replace", "1", "mixture.first_dense"),
    read("use_qk_norm", "true"),
    read("score_function", "\"sigmoid\""),
    read("moe_router_enable_expert_bias", "true"),
    read("routed_scaling_factor", "2.5", "mixture.scale"),
    read("n_group", "8", "mixture.groups"),
    read("topk_group", "4", "mixture.groups_per_token"),
    read("partial_rotary_factor", "0.5", "rotary_dim"),
};

ModelSpec bailing(Config& c) {
  ModelSpec m = decoder(c);
  const bool bias = c.flag("use_bias");
  m.biases = {bias || c.flag("use_qkv_bias"), bias, false, false};
  if (c.flag("use_qk_norm")) m.query_key_norm = QueryKeyNorm::head;
  m.prediction_modules = c.whole_from_zero("num_nextn_predict_layers", max_layers);
  Mixture x = mixture(c, "num_experts", "num_experts_per_tok",
                      c.none("moe_intermediate_size") ? "intermediate_size" : "moe_intermediate_size");
  const std::uint64_t each = c.none("moe_shared_expert_intermediate_size")
                                 ? x.ffn
                                 : c.whole_from_zero("moe_shared_expert_intermediate_size", max_width);
  x.shared_ffn = c.whole_from_zero("num_shared_experts", 64) * each;
  x.first_dense = c.whole_from_zero("first_k_dense_replace", max_layers);
  const bool sigmoid = c.choice("score_function", {"softmax", "sigmoid"}) == "sigmoid";
  const bool divided = c.flag("norm_topk_prob");
  x.scores = sigmoid   ? Mixture::Scores::sigmoid
             : divided ? Mixture::Scores::softmax_chosen
                       : Mixture::Scores::softmax_all;
  if (sigmoid && !divided)
    c.error("norm_topk_prob", "hf.unsupported", "sigmoid scores that are not divided by their sum are not supported");
  x.score_bias = c.flag("moe_router_enable_expert_bias");
  x.scale = c.number("routed_scaling_factor", 1e-3, 1e3);
  x.groups = static_cast<std::uint32_t>(c.whole("n_group", 4096));
  x.groups_per_token = static_cast<std::uint32_t>(c.whole("topk_group", 4096));
  if (x.groups > 1) x.group_score = Mixture::GroupScore::two_best;
  if (x.first_dense < m.layers) m.mixture = x;
  return m;
}

}  // namespace

std::vector<Family> bailing_families() {
  return with_tables(
      {
          {"bailing_moe", {"BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"}, {bailing_keys}, bailing},
          {"bailing_moe_v2", {"BailingMoeV2ForCausalLM"}, {second_keys, bailing_keys}, bailing},
      },
      {usual_keys(), rms_keys(), rotary_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
