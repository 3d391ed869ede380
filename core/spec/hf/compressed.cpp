#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// DeepSeek-V4: attention to compressed keys, and several streams in place of one.
namespace orrery::hf {
namespace {

constexpr std::array deepseek_v4_keys{
    read("vocab_size", "129280", "vocabulary"),
    read("hidden_size", "4096", "hidden"),
    read("num_hidden_layers", "43", "layers"),
    read("num_attention_heads", "64", "heads"),
    read("head_dim", "512", "head_dim"),
    read("max_position_embeddings", "1048576", "max_positions"),
    read("q_lora_rank", "1024"),
    read("o_groups", "8"),
    read("o_lora_rank", "1024"),
    read("index_n_heads", "64"),
    read("index_head_dim", "128"),
    read("hc_mult", "4"),
    read("moe_intermediate_size", "2048"),
    read("n_routed_experts", "256"),
    read("n_shared_experts", "1"),
    read("num_experts_per_tok", "6"),
    read("layer_types", "null"),
    read("compress_ratios", "null"),
    read("compress_rates.compressed_sparse_attention", "4"),
    read("compress_rates.heavily_compressed_attention", "128"),
    read("tie_word_embeddings", "false"),
    only("num_key_value_heads", "1", "several key heads"),
    only("attention_bias", "false", "biases in attention"),
    only("mlp_bias", "false", "biases in experts"),
    same_as("compress_rate_csa", "compress_rates.compressed_sparse_attention"),
    same_as("compress_rate_hca", "compress_rates.heavily_compressed_attention"),
    same_as("num_local_experts", "n_routed_experts"),
    same_as("num_experts", "n_routed_experts"),
    same_as("intermediate_size", "moe_intermediate_size"),
    // Which experts the first layers' tokens visit stands in a table, which is not trained.
    no_effect("mlp_layer_types"),
    no_effect("num_hash_layers"),
    no_effect("index_topk"),
    no_effect("hc_sinkhorn_iters"),
    no_effect("hc_eps"),
    no_effect("compress_rope_theta"),
    no_effect("qk_rope_head_dim"),
    no_effect("sliding_window"),
    no_effect("swiglu_limit"),
    no_effect("expert_dtype"),
};

/// How each layer sees far positions: by layer_types, else by compress_ratios, where 0 stands for a window alone and
/// 128 for heavy compression, else in turn after two heavy ones.
std::vector<std::string> kinds_of(Config& c, const ModelSpec& m) {
  const std::vector<std::uint64_t> ratios = c.wholes("compress_ratios", 1U << 20U);  // with those of prediction modules
  return layer_names(c, "layer_types", m.layers, [&](std::uint64_t l) {
    const std::uint64_t ratio = l < ratios.size() ? ratios[l] : l < 2 || l % 2 == 0 ? 128 : 4;
    return ratio == 0  ? "sliding_attention"
           : ratio > 4 ? "heavily_compressed_attention"
                       : "compressed_sparse_attention";
  });
}

/// Attention with one key of d for all heads, which is the value too, a sink for each head and an output in g groups:
///
///     h q + q + q a d + h d + d + a d o + g o h + a
///
/// A compressor makes a key of r: two products w wide (d, or 2 d where keys overlap), r w of positions and a norm:
///
///     2 h w + r w + d
///
/// Where keys are chosen, an indexer has a compressor with its own heads, a_i of d_i, and a weight for each:
///
///     4 h d_i + 2 r d_i + d_i + q a_i d_i + h a_i
ModelSpec deepseek_v4(Config& c) {
  ModelSpec m = shape(c, {.head_dim = "head_dim", .ffn = "moe_intermediate_size"});
  m.kv_heads = 1;
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const Count h = m.hidden, a = m.heads, d = m.head_dim, f = m.ffn, n = number(c, "hc_mult");
  const Count q = number(c, "q_lora_rank"), wide = number(c, "o_groups") * number(c, "o_lora_rank");
  const Count attention = product(h, q) + q + product(q, a * d) + product(h, d) + d +
                          product(a * d, number(c, "o_lora_rank")) + product(wide, h) + a;
  const auto compressor = [&](Count rate, Count w, Count out) { return 2 * product(h, w) + rate * w + out; };
  const Count sparse = number(c, "compress_rates.compressed_sparse_attention");
  const Count heavy = number(c, "compress_rates.heavily_compressed_attention");
  const Count heads = number(c, "index_n_heads"), each = number(c, "index_head_dim");
  const Count indexer = compressor(sparse, 2 * each, each) + product(q, heads * each) + product(h, heads);
  // n streams: what enters a branch, what leaves it and how streams mix, each with a factor.
  const Count streams = (2 + n) * n * n * h + (2 + n) * n + 3;
  const Experts mixture{number(c, "n_routed_experts"), number(c, "num_experts_per_tok"), f,
                        number(c, "n_shared_experts") * f};
  Decoder all;
  all.add(n * n * h + n + 1);
  for (const std::string& kind : kinds_of(c, m)) {
    all.add(attention + 2 * h + 2 * streams);
    if (kind == "compressed_sparse_attention") all.add(compressor(sparse, 2 * d, d) + indexer);
    if (kind == "heavily_compressed_attention") all.add(compressor(heavy, d, d));
    all.add(experts(h, mixture), experts(h, mixture, true));
  }
  count_decoder(c, m, all, "attention to compressed keys, in several streams");
  return m;
}

}  // namespace

std::vector<Family> compressed_families() {
  return {{"deepseek_v4",
           {"DeepseekV4ForCausalLM"},
           {deepseek_v4_keys, counted_keys(), usual_keys(), router_keys(), common_keys()},
           deepseek_v4}};
}

}  // namespace orrery::hf
