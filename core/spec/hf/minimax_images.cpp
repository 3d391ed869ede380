#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/hf/vision_language.hpp"
#include "core/spec/spec_check.hpp"

// MiniMax-M3: text and images, with indexers that choose keys. t is the width of the language model, v that of the
// tower.
namespace orrery::hf {
namespace {

constexpr std::array minimax_keys{
    read("projector_hidden_size", "6144"),           read("vision_config.hidden_size", "1280"),
    read("vision_config.intermediate_size", "5120"), read("vision_config.num_hidden_layers", "32"),
    read("vision_config.num_channels", "3"),         read("vision_config.patch_size", "14"),
    read("vision_config.temporal_patch_size", "2"),  read("vision_config.spatial_merge_size", "2"),
    no_effect("vision_config.image_size"),           no_effect("vision_config.model_type"),
};
constexpr std::array minimax_text_keys{
    read("vocab_size", "200064", "vocabulary"),
    read("hidden_size", "6144", "hidden"),
    read("intermediate_size", "3072", "mixture.ffn"),
    read("dense_intermediate_size", "12288"),
    read("shared_intermediate_size", "3072"),
    read("num_hidden_layers", "60", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("num_key_value_heads", "4", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "524288", "max_positions"),
    read("num_local_experts", "128"),
    read("num_experts_per_tok", "4"),
    read("layer_types", "null"),
    read("mlp_layer_types", "null"),
    read("moe_layer_freq", "null"),
    read("sparse_attention_config.sparse_attention_freq", "null"),
    read("sparse_attention_config.sparse_num_index_heads", "4"),
    read("sparse_attention_config.sparse_index_dim", "128"),
    same_as("index_n_heads", "sparse_attention_config.sparse_num_index_heads"),
    same_as("index_head_dim", "sparse_attention_config.sparse_index_dim"),
    same_as("num_experts", "num_local_experts"),
    no_effect("sparse_attention_config.sparse_block_size"),
    no_effect("sparse_attention_config.sparse_topk_blocks"),
    no_effect("sparse_attention_config.sparse_local_block"),
    no_effect("sparse_attention_config.sparse_init_block"),
    no_effect("sparse_attention_config.sparse_score_type"),
    no_effect("sparse_attention_config.sparse_disable_index_value"),
    no_effect("sparse_attention_config.use_sparse_attention"),
    no_effect("index_block_size"),
    no_effect("index_topk_blocks"),
    no_effect("index_local_blocks"),
    no_effect("rotary_dim"),
    no_effect("routed_scaling_factor"),
    no_effect("swiglu_alpha"),
    no_effect("swiglu_limit"),
    no_effect("rms_norm_eps"),
    no_effect("rope_theta"),
    no_effect("rope_scaling"),
    no_effect("rope_parameters"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

/// MiniMax-M3: CLIP's layers without a class token or positions; products v p + p, p t + t, and behind the merging of
/// s x s tokens s^2 t p + p, p t + t. p width of the projector.
ModelSpec minimax_m3(Config& c) {
  const Count v = number(c, "vision_config.hidden_size"), t = c.language().hidden,
              p = number(c, "projector_hidden_size");
  const Count patch = side_of(c, "vision_config.patch_size"), s = number(c, "vision_config.spatial_merge_size");
  const Count pixels =
      patch * patch * number(c, "vision_config.num_channels") * number(c, "vision_config.temporal_patch_size");
  const Count body =
      product(pixels, v) + 2 * v +
      number(c, "vision_config.num_hidden_layers") * bert_layer(v, number(c, "vision_config.intermediate_size"));
  return with_images(c, body + product(v, p, true) + 2 * product(p, t, true) + product(s * s * t, p, true));
}

/// Layers that choose keys have an indexer: n heads of queries and one of keys, e wide, and a norm of e for each.
ModelSpec minimax_m3_text(Config& c) {
  ModelSpec m = shape(c, {.kv_heads = "num_key_value_heads", .head_dim = "head_dim"});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const Count h = m.hidden, d = m.head_dim, dense = number(c, "dense_intermediate_size");
  const Count e = number(c, "sparse_attention_config.sparse_index_dim");
  const Count indexer = product(h, (number(c, "sparse_attention_config.sparse_num_index_heads") + 1) * e) + 2 * e;
  const std::vector<std::uint64_t> chosen = c.wholes("sparse_attention_config.sparse_attention_freq", 1);
  const std::vector<std::uint64_t> mixed = c.wholes("moe_layer_freq", 1);
  const auto names = layer_names(c, "layer_types", m.layers, [&](std::uint64_t l) {
    return l < chosen.size() && chosen[l] == 1 ? "minimax_m3_sparse" : "full_attention";
  });
  const auto kinds = layer_names(c, "mlp_layer_types", m.layers, [&](std::uint64_t l) {
    return mixed.empty() || (l < mixed.size() && mixed[l] == 1) ? "sparse" : "dense";
  });
  const Experts mixture{number(c, "num_local_experts"), number(c, "num_experts_per_tok"), m.ffn,
                        number(c, "shared_intermediate_size")};
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    all.add(2 * h + grouped_attention(h, m.heads, m.kv_heads, d, false, false) + 2 * d);
    if (names[l] == "minimax_m3_sparse") all.add(indexer);
    if (kinds[l] == "dense") {
      all.add(feed_forward(h, dense, true, false));
    } else {
      all.add(experts(h, mixture), experts(h, mixture, true));
    }
  }
  count_decoder(c, m, all, "indexers that choose keys");
  return m;
}

}  // namespace

std::vector<Family> minimax_image_families() {
  const Keys usual = usual_keys(), router = router_keys(), common = common_keys();
  return {
      vision_language("minimax_m3_vl", {"MiniMaxM3SparseForConditionalGeneration"}, {minimax_keys}, minimax_m3,
                      {"text_config", "minimax_m3_vl_text", "false"}),
      {"minimax_m3_vl_text", {"MiniMaxM3VLForCausalLM"}, {minimax_text_keys, usual, router, common}, minimax_m3_text},
  };
}

}  // namespace orrery::hf
