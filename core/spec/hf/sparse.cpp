#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Latent attention with indexers that choose keys, or with more norms.
namespace orrery::hf {
namespace {

constexpr std::array indexer_keys{
    read("index_topk", "2048"),      read("index_head_dim", "128"),
    read("index_n_heads", "64"),     read("max_position_embeddings", "163840"),
    read("mlp_layer_types", "null"), same_as("num_experts", "n_routed_experts"),
    no_effect("layer_types"),        no_effect("indexer_rope_interleave"),
    no_effect("moe_router_dtype"),
};
constexpr std::array glm_dsa_keys{
    read("vocab_size", "154880"),
    read("hidden_size", "6144"),
    read("intermediate_size", "12288"),
    read("num_hidden_layers", "78", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("max_position_embeddings", "202752"),
    read("rms_norm_eps", "1e-5"),
    read("q_lora_rank", "2048"),
    read("qk_nope_head_dim", "192"),
    read("v_head_dim", "256"),
    read("n_group", "1"),
    read("topk_group", "1"),
    read("index_n_heads", "32"),
    read("indexer_types", "null"),
    read("index_topk_pattern", "null"),
    read("index_topk_freq", "1"),
    read("index_skip_topk_offset", "2"),
    no_effect("index_share_for_mtp_iteration"),
};
constexpr std::array mistral4_keys{
    read("vocab_size", "131072"),
    read("hidden_size", "4096"),
    read("intermediate_size", "12288"),
    read("num_hidden_layers", "36", "layers"),
    read("num_attention_heads", "32", "heads"),
    read("max_position_embeddings", "1048576"),
    read("q_lora_rank", "1024"),
    read("kv_lora_rank", "256"),
    read("qk_nope_head_dim", "64"),
    read("n_routed_experts", "128"),
    read("num_experts_per_tok", "4"),
    read("first_k_dense_replace", "0"),
    read("routed_scaling_factor", "1.0"),
    read("n_group", "1"),
    read("topk_group", "1"),
    read("mlp_layer_types", "null"),
    only("scoring_func", "\"softmax\"", "another score of experts"),
    no_effect("topk_method"),
    no_effect("norm_topk_prob"),
    no_effect("layer_types"),
};
constexpr std::array axk1_keys{
    read("vocab_size", "163840"),
    read("num_attention_heads", "64", "heads"),
    read("max_position_embeddings", "32768"),
    read("n_routed_experts", "192"),
    read("first_k_dense_replace", "1"),
    read("mlp_layer_types", "null"),
};

/// mlp_layer_types names the layers that are no mixtures, where the file has it.
void read_mixtures(Config& c, ModelSpec& m) {
  if (c.none("mlp_layer_types")) return;
  const auto names = layer_names(c, "mlp_layer_types", m.layers, [](std::uint64_t) { return "sparse"; });
  leave_dense(m, [&](std::uint64_t l) { return names[l] == "dense"; });
}

/// What the library's class has: biases that only the choice of experts sees are no parameters there.
void count_more(ModelSpec& m, Count more, std::string because) {
  const std::uint64_t all = parameter_count(m), active = active_parameter_count(m);
  m.counted = CountedOnly{(more + all).value(), active < all ? (more + active).value() : 0, std::move(because)};
}

/// Whether the layer chooses keys itself, or takes those that a layer before it chose.
bool chooses(Config& c, std::uint64_t layer) {
  if (!c.knows("indexer_types")) return true;
  const std::vector<std::string> types = c.texts("indexer_types");
  if (!types.empty()) return layer >= types.size() || types[layer] == "full";
  const nlohmann::json* pattern = c.find("index_topk_pattern");
  if (pattern != nullptr && pattern->is_string()) {
    const auto& letters = pattern->get_ref<const std::string&>();
    return layer >= letters.size() || letters[layer] == 'F';
  }
  const std::uint64_t every = std::max<std::uint64_t>(1, c.whole_from_zero("index_topk_freq", max_layers));
  const std::uint64_t offset = c.whole_from_zero("index_skip_topk_offset", max_layers);
  return layer + 1 <= offset || (layer + 1 - offset) % every == 0;
}

/// An indexer: products q a d of queries, h d of keys and h a of weights, and a layer norm of d. q rank of queries.
ModelSpec indexed(Config& c) {
  ModelSpec m = deepseek_v3(c);
  read_mixtures(c, m);
  if (!c.good()) return m;
  const Count h = m.hidden, a = number(c, "index_n_heads"), d = number(c, "index_head_dim");
  const Count indexer = product(m.latent->query_rank, a * d) + product(h, d + a) + 2 * d;
  std::uint64_t choosing = 0;
  for (std::uint64_t l = 0; l < m.layers; ++l) choosing += chooses(c, l) ? 1 : 0;
  count_more(m, choosing * indexer, "indexers that choose keys");
  return m;
}

ModelSpec mistral4(Config& c) {
  ModelSpec m = deepseek_v3(c);
  read_mixtures(c, m);
  if (m.mixture) m.mixture->score_bias = false;
  count_more(m, 0, "queries that grow with their position");
  return m;
}

/// A.X-K1 has a norm behind each mixture.
ModelSpec axk1(Config& c) {
  ModelSpec m = deepseek_v3(c);
  read_mixtures(c, m);
  count_more(m, Count(mixture_count(m)) * m.hidden, "norms behind mixtures alone");
  return m;
}

}  // namespace

std::vector<Family> sparse_families() {
  const Keys rotary = rotary_keys(), router = router_keys(), common = common_keys();
  const auto like_v3 = [&](std::string_view type, std::string_view name, std::vector<Keys> own,
                           ModelSpec (*reader)(Config&)) {
    own.insert(own.end(), {deepseek_v3_keys(), latent_keys(), rotary, router, common});
    return Family{type, {name}, std::move(own), reader};
  };
  return {
      like_v3("deepseek_v32", "DeepseekV32ForCausalLM", {indexer_keys}, indexed),
      like_v3("glm_moe_dsa", "GlmMoeDsaForCausalLM", {glm_dsa_keys, indexer_keys}, indexed),
      like_v3("mistral4", "Mistral4ForCausalLM", {mistral4_keys}, mistral4),
      like_v3("axk1", "AXK1ForCausalLM", {axk1_keys}, axk1),
  };
}

}  // namespace orrery::hf
