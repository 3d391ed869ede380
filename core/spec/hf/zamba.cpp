#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Zamba2: state-space layers with a few blocks of attention that they share.
namespace orrery::hf {
namespace {

constexpr std::array zamba_mixer_keys{
    read("mamba_d_conv", "4"),       read("mamba_expand", "2"),    no_effect("time_step_min"),
    no_effect("time_step_max"),      no_effect("time_step_floor"), no_effect("time_step_limit"),
    no_effect("num_logits_to_keep"), no_effect("sliding_window"),  no_effect("use_mamba_kernels"),
    no_effect("mamba_conv_bias"),    no_effect("mamba_proj_bias"),
};
constexpr std::array zamba2_keys{
    read("hidden_size", "2560", "hidden"),
    read("num_hidden_layers", "54", "layers"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("intermediate_size", "null", "ffn"),
    read("num_key_value_heads", "null", "kv_heads"),
    read("tie_word_embeddings", "true"),
    read("layers_block_type", "null"),
    read("mamba_d_state", "64"),
    read("mamba_ngroups", "1"),
    read("n_mamba_heads", "8"),
    read("add_bias_linear", "false"),
    read("num_mem_blocks", "1"),
    read("use_shared_attention_adapter", "false"),
    read("adapter_rank", "128"),
    same_as("layer_types", "layers_block_type"),
    same_as("ffn_hidden_size", "intermediate_size"),
    // These follow from the widths above, or change no weight.
    no_effect("use_conv_bias"),
    no_effect("use_shared_mlp_adapter"),
    no_effect("mamba_headdim"),
    no_effect("attention_hidden_size"),
    no_effect("attention_head_dim"),
    no_effect("head_dim"),
    no_effect("kv_channels"),
    no_effect("num_query_groups"),
    no_effect("hybrid_layer_ids"),
    no_effect("use_mem_rope"),
    no_effect("use_long_context"),
    no_effect("use_mem_eff_path"),
    no_effect("chunk_size"),
    no_effect("mamba_dt_rank"),
    no_effect("hidden_act"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};

/// Zamba2's layers are mixers. Some have before them one of a few shared blocks, which see the stream beside the
/// embedding (2 h wide), and a product h^2 of their own. For each such layer the block has adapters of rank r in its
/// gates, r (h + 2 f), and where they are asked for in queries, keys and values, 12 r h.
ModelSpec zamba2(Config& c) {
  ModelSpec m = shape(c, {.kv_heads = "num_key_value_heads"});
  m.tied_embeddings = c.flag("tie_word_embeddings");
  const Count h = m.hidden, f = m.ffn, r = number(c, "adapter_rank");
  const bool bias = truth(c, "add_bias_linear");
  const Mamba2 mixer{number(c, "mamba_expand") * h,
                     number(c, "n_mamba_heads"),
                     number(c, "mamba_ngroups"),
                     number(c, "mamba_d_state"),
                     number(c, "mamba_d_conv"),
                     bias,
                     bias};
  const auto names = layer_names(c, "layers_block_type", m.layers, [](std::uint64_t l) {
    const bool shared = (l >= 6 && l <= 42 && l % 6 == 0) || l == 47 || l == 51;
    return shared ? "hybrid" : "mamba";
  });
  const Count shared = static_cast<std::uint64_t>(std::count(names.begin(), names.end(), "hybrid"));
  const Count d = 2 * h / m.heads;
  const Count block = product(2 * h, (Count(m.heads) + 2 * Count(m.kv_heads)) * d) + product(2 * h, h) +
                      feed_forward(h, f, true, bias) + 3 * h;
  const Count adapters = r * (h + 2 * f) + (truth(c, "use_shared_attention_adapter") ? 12 * r * h : Count(0));
  const Count blocks = std::min(number(c, "num_mem_blocks"), shared);
  Decoder all;
  all.add(m.layers * (h + mamba2(h, mixer)) + shared * (product(h, h) + adapters) + blocks * block);
  count_decoder(c, m, all, "state-space layers");
  return m;
}

}  // namespace

std::vector<Family> zamba_families() {
  return {{"zamba2",
           {"Zamba2ForCausalLM"},
           {zamba2_keys, zamba_mixer_keys, usual_keys(), rms_keys(), rotary_keys(), router_keys(), common_keys()},
           zamba2}};
}

}  // namespace orrery::hf
