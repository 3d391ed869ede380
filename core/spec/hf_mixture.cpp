#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/spec/hf_family.hpp"
#include "core/spec/spec_check.hpp"

// Models with experts: Mixtral, and the experts of DeepSeek-V2 and V3.
namespace orrery::hf {

ModelSpec mixtral(Config& c) {
  ModelSpec m = llama(c);
  if (c.find("sliding_window") != nullptr) {
    c.error("sliding_window", "hf.unsupported", "attention to a window of positions is not supported");
  }
  Mixture x;
  x.experts = static_cast<std::uint32_t>(c.whole("num_local_experts", 8, 4096));
  x.per_token = static_cast<std::uint32_t>(c.whole("num_experts_per_tok", 2, 4096));
  x.ffn = m.ffn;
  m.mixture = x;
  return m;
}

void deepseek_experts(Config& c, ModelSpec& m) {
  Mixture x;
  x.experts = static_cast<std::uint32_t>(c.whole("n_routed_experts", std::nullopt, 4096));
  x.per_token = static_cast<std::uint32_t>(c.whole("num_experts_per_tok", std::nullopt, 4096));
  x.ffn = c.whole("moe_intermediate_size", std::nullopt, max_width);
  if (c.find("n_shared_experts") != nullptr) x.shared_ffn = c.whole_from_zero("n_shared_experts", 64) * x.ffn;
  if (c.find("first_k_dense_replace") != nullptr)
    x.first_dense = c.whole_from_zero("first_k_dense_replace", max_layers);
  // Mixtures are the layers from there on whose number it divides.
  x.every = c.whole("moe_layer_freq", 1, max_layers);
  x.first_dense = (x.first_dense + x.every - 1) / x.every * x.every;
  x.scale = c.number("routed_scaling_factor", 1.0, 1e-3, 1e3);
  const bool sigmoid = c.text("scoring_func", "softmax") == "sigmoid";
  c.only("scoring_func", "softmax", {"softmax", "sigmoid"});
  const bool divided = c.flag("norm_topk_prob", sigmoid);
  if (sigmoid && !divided) {
    c.error("norm_topk_prob", "hf.unsupported", "sigmoid scores that are not divided by their sum are not supported");
  }
  x.scores =
      sigmoid ? Mixture::Scores::sigmoid : (divided ? Mixture::Scores::softmax_chosen : Mixture::Scores::softmax_all);
  const std::string method = c.text("topk_method", "");
  x.score_bias = method == "noaux_tc";
  if (method == "noaux_tc" || method == "group_limited_greedy") {
    if (c.find("n_group") != nullptr) x.groups = static_cast<std::uint32_t>(c.whole("n_group", 1, 4096));
    if (c.find("topk_group") != nullptr)
      x.groups_per_token = static_cast<std::uint32_t>(c.whole("topk_group", 1, 4096));
    if (x.groups > 1 && x.score_bias) x.group_score = Mixture::GroupScore::two_best;
  }
  m.mixture = x;
}

}  // namespace orrery::hf
