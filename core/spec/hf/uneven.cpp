#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Decoders whose layers differ in widths or heads.
namespace orrery::hf {
namespace {

constexpr std::array mimo_keys{
    read("vocab_size", "152576", "vocabulary"),
    read("intermediate_size", "16384", "ffn"),
    read("num_hidden_layers", "48", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("head_dim", "192", "head_dim"),
    read("v_head_dim", "128"),
    read("max_position_embeddings", "131072", "max_positions"),
    read("moe_intermediate_size", "2048"),
    read("num_experts_per_tok", "8"),
    read("n_routed_experts", "256"),
    read("layer_types", "null"),
    read("mlp_layer_types", "null"),
    read("hybrid_layer_pattern", "null"),
    read("moe_layer_freq", "null"),
    same_as("num_local_experts", "n_routed_experts"),
    only("n_shared_experts", "null", "experts that every token visits"),
    no_effect("add_full_attention_sink_bias"),
    no_effect("add_swa_attention_sink_bias"),
    no_effect("attention_chunk_size"),
    no_effect("attention_value_scale"),
    no_effect("hybrid_block_size"),
    no_effect("layernorm_epsilon"),
    no_effect("sliding_window_size"),
    no_effect("swa_head_dim"),
    no_effect("swa_num_attention_heads"),
    no_effect("swa_num_key_value_heads"),
    no_effect("swa_rope_theta"),
    no_effect("swa_v_head_dim"),
};
constexpr std::array cohere_moe_keys{
    read("vocab_size", "256000", "vocabulary"),
    read("hidden_size", "8192", "hidden"),
    read("intermediate_size", "22528", "mixture.ffn"),
    read("num_hidden_layers", "40", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "8192", "max_positions"),
    read("tie_word_embeddings", "true"),
    read("num_experts_per_tok", "2"),
    read("num_experts", "8"),
    read("num_shared_experts", "0"),
    read("first_k_dense_replace", "0"),
    read("mlp_layer_types", "null"),
    read("prefix_dense_intermediate_size", "null"),
    same_as("num_local_experts", "num_experts"),
    no_effect("logit_scale"),
    no_effect("layer_norm_eps"),
    no_effect("layer_types"),
    no_effect("shared_expert_combination_strategy"),
    no_effect("expert_selection_fn"),
    no_effect("prefix_dense_sliding_window_pattern"),
    no_effect("sliding_window_pattern"),
    no_effect("cache_implementation"),
    no_effect("use_parallel_block"),
    no_effect("use_parallel_embedding"),
    no_effect("use_qk_norm"),
    no_effect("use_embedding_sharing"),
    no_effect("use_gated_activation"),
    no_effect("position_embedding_type"),
    no_effect("rotary_pct"),
    no_effect("order_of_interleaved_layers"),
};
constexpr std::array decilm_keys{
    read("intermediate_size", "null", "ffn"),
    read("block_configs", "null"),
};
constexpr std::array granite_swa_keys{
    read("vocab_size", "100352", "vocabulary"),
    read("hidden_size", "2560", "hidden"),
    read("intermediate_size", "8192", "ffn"),
    read("num_hidden_layers", "24", "layers"),
    read("num_attention_heads", "20", "heads"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("max_position_embeddings", "8192", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("tie_word_embeddings", "true"),
    read("embedding_multiplier", "1.0", "embedding_scale"),
    read("residual_multiplier", "1.0", "residual_scale"),
    read("attention_multiplier", "1.0", "attention_scale"),
    read("logits_scaling", "1.0"),
    read("sliding_window", "128"),
    read("layer_types", "null"),
    only("layer_rope_theta", "null", "rotary angles of each layer"),
};

/// Whether a list of zeros and ones says yes of the layer; `absent` where there is no list.
bool listed(const std::vector<std::uint64_t>& list, std::uint64_t layer, bool absent) {
  return list.empty() ? absent : layer < list.size() && list[layer] != 0;
}

/// MiMo-V2: layers that see a window have twice the kv heads, and a sink for each head. Values are narrower than keys.
ModelSpec mimo_v2(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden, a = m.heads, d = m.head_dim, e = number(c, "v_head_dim");
  const Experts mixture{number(c, "n_routed_experts"), number(c, "num_experts_per_tok"),
                        number(c, "moe_intermediate_size")};
  const std::vector<std::uint64_t> windows = c.wholes("hybrid_layer_pattern", 1),
                                   sparse = c.wholes("moe_layer_freq", 1);
  const auto names = layer_names(c, "layer_types", m.layers, [&](std::uint64_t l) {
    return listed(windows, l, l != 0 && (l + 1) % 6 != 0) ? "sliding_attention" : "full_attention";
  });
  const auto kinds = layer_names(c, "mlp_layer_types", m.layers,
                                 [&](std::uint64_t l) { return listed(sparse, l, l > 0) ? "sparse" : "dense"; });
  const bool bias = truth(c, "attention_bias");
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    const bool windowed = names[l] == "sliding_attention";
    const Count k = windowed ? 2 * Count(m.kv_heads) : Count(m.kv_heads);
    all.add(2 * h + product(h, a * d + k * d + k * e, bias) + product(a * e, h) + (windowed ? a : Count(0)));
    if (kinds[l] == "dense") {
      all.add(feed_forward(h, m.ffn, true, false));
    } else {
      all.add(experts(h, mixture), experts(h, mixture, true));
    }
  }
  count_decoder(c, m, all, "layers with different numbers of heads");
  return m;
}

/// Command-A's mixtures stand beside attention, behind one norm of h.
ModelSpec cohere_moe(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  const Experts mixture{number(c, "num_experts"), number(c, "num_experts_per_tok"), m.ffn,
                        number(c, "num_shared_experts") * m.ffn};
  const Count dense = number(c, "prefix_dense_intermediate_size", m.ffn);
  const std::uint64_t first = c.whole_from_zero("first_k_dense_replace", max_layers);
  const bool bias = truth(c, "attention_bias");
  Decoder all;
  for (const std::string& kind :
       layer_names(c, "mlp_layer_types", m.layers, [&](std::uint64_t l) { return l < first ? "dense" : "sparse"; })) {
    all.add(h + grouped_attention(h, m.heads, m.kv_heads, m.head_dim, bias, bias));
    if (kind == "dense") {
      all.add(feed_forward(h, dense, true, false));
    } else {
      all.add(experts(h, mixture), experts(h, mixture, true));
    }
  }
  count_decoder(c, m, all, "mixtures beside attention");
  return m;
}

/// The part of a block that `key` describes. `kept` says what it has where it is neither left out nor one product.
template <typename Kept>
Count part_of(const nlohmann::json& block, const char* key, Count h, bool& good, const Kept& kept) {
  const auto at = block.find(key);
  if (at == block.end() || !at->is_object()) return good = false, Count(0);
  const auto says = [&](const char* flag) { return at->contains(flag) && (*at)[flag] == true; };
  if (says("no_op")) return 0;
  return h + (says("replace_with_linear") ? product(h, h) : kept(*at));  // its norm
}

/// Nemotron made by architecture search (DeciLM): block_configs says for each layer how many queries share a key, and
/// that feed-forward layers are 2/3 x h times a factor wide, rounded up to a multiple of 256. Either part can be left
/// out, or be one product of h^2. A part that is left out has no norm.
ModelSpec decilm(Config& c) {
  ModelSpec m = decoder_shape(c);
  const nlohmann::json* blocks = c.find("block_configs");
  const Count h = m.hidden, d = m.head_dim;
  Decoder all;
  bool good = blocks != nullptr && blocks->is_array() && !blocks->empty() && blocks->size() <= max_layers;
  if (good) m.layers = blocks->size();
  for (std::uint64_t l = 0; good && l < m.layers; ++l) {
    const nlohmann::json& block = (*blocks)[l];
    if (!(good = block.is_object())) break;
    all.add(part_of(block, "attention", h, good, [&](const nlohmann::json& a) {
      const auto group = a.find("n_heads_in_group");
      good = group != a.end() && group->is_number_unsigned() && *group > 0;
      return good ? grouped_attention(h, m.heads, Count(m.heads) / group->get<std::uint64_t>(), d, false, false)
                  : Count(0);
    }));
    all.add(part_of(block, "ffn", h, good, [&](const nlohmann::json& f) {
      const auto factor = f.find("ffn_mult");
      good = factor != f.end() && factor->is_number() && *factor > 0.0 && *factor < 64.0;
      if (!good) return Count(0);
      const double wide = 2.0 * factor->get<double>() * static_cast<double>(m.hidden) / 3.0;
      return feed_forward(h, (static_cast<std::uint64_t>(wide) + 255) / 256 * 256, true, false);
    }));
  }
  if (!good && c.good() && blocks != nullptr) {
    c.error("block_configs", "hf.type", "block_configs is not a list of blocks",
            {"A block has an attention with n_heads_in_group, and an ffn with ffn_mult; either can be a no_op."});
  }
  if (blocks == nullptr)
    all.add(m.layers *
            (2 * h + grouped_attention(h, m.heads, m.kv_heads, d, false, false) + feed_forward(h, m.ffn, true, false)));
  count_decoder(c, m, all, "layers of different widths");
  return m;
}

/// Granite with windows and sinks, which a spec describes in full.
ModelSpec granite_swa(Config& c) {
  ModelSpec m = decoder(c);
  read_granite_scales(c, m);
  m.sinks = true;
  read_windows(c, m, [](std::uint64_t layer) { return layer % 4 != 0; });
  return m;
}

}  // namespace

std::vector<Family> uneven_families() {
  return with_tables(
      {
          {"mimo_v2_flash", {"MiMoV2FlashForCausalLM"}, {mimo_keys}, mimo_v2},
          {"cohere2_moe", {"Cohere2MoeForCausalLM"}, {cohere_moe_keys}, cohere_moe},
          {"nemotron-nas", {"DeciLMForCausalLM"}, {decilm_keys}, decilm},
          {"granite_swa",
           {"GraniteSWAForCausalLM"},
           {granite_swa_keys, usual_keys(), rms_keys(), rotary_keys(), common_keys()},
           granite_swa},
      },
      {counted_keys(), usual_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
