#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/decoder.hpp"
#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// Decoders with state-space layers beside attention, each with a feed-forward part.
namespace orrery::hf {
namespace {

constexpr std::array hybrid_keys{
    read("intermediate_size", "14336", "ffn"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("mamba_n_heads", "128"),
    read("mamba_d_head", "\"auto\""),
    read("mamba_n_groups", "1"),
    read("mamba_d_state", "256"),
    read("mamba_d_conv", "4"),
    read("mamba_expand", "2"),
    read("mamba_conv_bias", "true"),
    read("mamba_proj_bias", "false"),
    no_effect("mamba_chunk_size"),
    no_effect("mamba_use_mlp"),
    no_effect("time_step_min"),
    no_effect("time_step_max"),
    no_effect("time_step_floor"),
    no_effect("time_step_limit"),
    no_effect("num_logits_to_keep"),
    no_effect("sliding_window"),
    no_effect("use_mamba_kernels"),
    no_effect("use_mambapy"),
    no_effect("use_associative_scan"),
};
constexpr std::array bamba_keys{
    read("vocab_size", "128000", "vocabulary"),
    read("max_position_embeddings", "262144", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("partial_rotary_factor", "0.5"),
    read("attn_layer_indices", "null"),
    read("layers_block_type", "null"),
    same_as("layer_types", "layers_block_type"),
    no_effect("attn_rotary_emb"),
    no_effect("z_loss_coefficient"),
};
constexpr std::array falcon_keys{
    read("vocab_size", "128000", "vocabulary"),
    read("max_position_embeddings", "8192", "max_positions"),
    read("rms_norm_eps", "1e-5", "norm_epsilon"),
    read("mamba_d_ssm", "1024"),
    read("mamba_rms_norm", "false"),
    read("projectors_bias", "false"),
    no_effect("mamba_norm_before_gate"),
    // Factors of parts.
    no_effect("lm_head_multiplier"),
    no_effect("embedding_multiplier"),
    no_effect("mlp_multipliers"),
    no_effect("mlp_expansion_factor"),
    no_effect("key_multiplier"),
    no_effect("attention_out_multiplier"),
    no_effect("attention_in_multiplier"),
    no_effect("ssm_multipliers"),
    no_effect("ssm_in_multiplier"),
    no_effect("ssm_out_multiplier"),
    no_effect("attn_layer_indices"),
    no_effect("layers_block_type"),
    no_effect("layer_types"),
};
constexpr std::array jamba_keys{
    read("vocab_size", "65536", "vocabulary"),
    read("max_position_embeddings", "262144", "max_positions"),
    read("num_experts", "16"),
    read("num_experts_per_tok", "2"),
    read("expert_layer_period", "2"),
    read("expert_layer_offset", "1"),
    read("attn_layer_period", "8"),
    read("attn_layer_offset", "4"),
    read("layers_block_type", "null"),
    read("mamba_d_state", "16"),
    read("mamba_dt_rank", "\"auto\""),
    same_as("num_local_experts", "num_experts"),
    same_as("layer_types", "layers_block_type"),
    only("mamba_inner_layernorms", "true", "state-space layers without norms inside"),
    no_effect("calc_logits_for_entire_prompt"),
    no_effect("attention_bias"),
    no_effect("mlp_bias"),
};
constexpr std::array granite_keys{
    read("intermediate_size", "11008", "mixture.ffn"),
    read("num_key_value_heads", "null", "kv_heads"),
    read("embedding_multiplier", "1.0", "embedding_scale"),
    read("residual_multiplier", "1.0", "residual_scale"),
    read("attention_multiplier", "1.0", "attention_scale"),
    read("logits_scaling", "1.0"),
    read("num_local_experts", "8", "mixture.experts"),
    read("num_experts_per_tok", "2", "mixture.per_token"),
    read("shared_intermediate_size", "1024"),
    read("position_embedding_type", "null"),
    read("layer_types", "null"),
    same_as("layers_block_type", "layer_types"),
    same_as("num_experts", "num_local_experts"),
    no_effect("init_method"),
    no_effect("normalization_function"),
    no_effect("mlp_bias"),
};

Mamba2 mixer_of(Config& c, const ModelSpec& m) {
  const bool bias = truth(c, "mamba_proj_bias");
  return {number(c, "mamba_expand") * m.hidden,
          number(c, "mamba_n_heads"),
          number(c, "mamba_n_groups"),
          number(c, "mamba_d_state"),
          number(c, "mamba_d_conv"),
          bias,
          bias,
          truth(c, "mamba_conv_bias")};
}

/// Attention, or a mixer; then a gated feed-forward part; a norm before each.
ModelSpec bamba(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  const std::vector<std::uint64_t> attending = c.wholes("attn_layer_indices", max_layers);
  const auto names = layer_names(c, "layers_block_type", m.layers, [&](std::uint64_t l) {
    const bool attends = std::find(attending.begin(), attending.end(), l) != attending.end();
    return attends ? "attention" : "mamba";
  });
  const Count ffn = feed_forward(h, m.ffn, true, truth(c, "mlp_bias"));
  Decoder all;
  for (const std::string& name : names) {
    const bool attends = name.find("mamba") == std::string::npos && name != "linear_attention";
    all.add(2 * h + ffn + (attends ? decoder_attention(c, m) : mamba2(h, mixer_of(c, m))));
  }
  count_decoder(c, m, all, "state-space layers");
  return m;
}

/// Falcon-H1 has attention and a mixer side by side in every layer.
ModelSpec falcon_h1(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  Mamba2 mixer = mixer_of(c, m);
  mixer.inner = number(c, "mamba_d_ssm", mixer.inner);
  mixer.out_bias = truth(c, "projectors_bias");
  mixer.norm = truth(c, "mamba_rms_norm");
  Decoder all;
  all.add(m.layers *
          (2 * h + decoder_attention(c, m) + mamba2(h, mixer) + feed_forward(h, m.ffn, true, truth(c, "mlp_bias"))));
  count_decoder(c, m, all, "state-space layers");
  return m;
}

/// Jamba's mixers are Mamba's with norms of step and state, r + 2 n. Some layers are mixtures.
ModelSpec jamba(Config& c) {
  ModelSpec m = decoder_shape(c);
  const Count h = m.hidden;
  const Mamba mixer{number(c, "mamba_expand") * h, number(c, "mamba_d_state"),
                    number(c, "mamba_d_conv"),     number_or_auto(c, "mamba_dt_rank", (h + 15) / 16),
                    truth(c, "mamba_proj_bias"),   truth(c, "mamba_conv_bias")};
  const std::uint64_t often = c.whole("attn_layer_period", max_layers),
                      period = c.whole("expert_layer_period", max_layers);
  const std::uint64_t first = c.whole_from_zero("attn_layer_offset", max_layers);
  const std::uint64_t offset = c.whole_from_zero("expert_layer_offset", max_layers);
  const Experts mixture{number(c, "num_experts"), number(c, "num_experts_per_tok"), m.ffn};
  const auto names = layer_names(c, "layers_block_type", m.layers,
                                 [&](std::uint64_t l) { return l % often == first % often ? "attention" : "mamba"; });
  Decoder all;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    const bool attends = names[l].find("mamba") == std::string::npos && names[l] != "linear_attention";
    all.add(2 * h + (attends ? grouped_attention(h, m.heads, m.kv_heads, m.head_dim, false, false)
                             : mamba(h, mixer) + mixer.rank + 2 * mixer.state));
    const bool mixes = mixture.all > Count(1) && l % period == offset % period;
    if (mixes) {
      all.add(experts(h, mixture), experts(h, mixture, true));
    } else {
      all.add(feed_forward(h, m.ffn, true, false));
    }
  }
  count_decoder(c, m, all, "state-space layers");
  return m;
}

/// Granite-4: every layer has the expert that all tokens visit, and others where there are some. A model whose layers
/// all attend is described in full.
ModelSpec granite_hybrid(Config& c) {
  ModelSpec m = decoder_shape(c);
  const auto names = layer_names(c, "layer_types", m.layers, [](std::uint64_t) { return "mamba"; });
  const auto attends = [](const std::string& name) { return name == "attention" || name == "full_attention"; };
  const Experts mixture{number(c, "num_local_experts"), number(c, "num_experts_per_tok"),
                        number(c, "intermediate_size"), number(c, "shared_intermediate_size")};
  if (std::all_of(names.begin(), names.end(), attends) && c.good()) {
    m = decoder(c);
    read_granite_scales(c, m);
    if (c.none("position_embedding_type") || c.text("position_embedding_type") != "rope") {
      m.positions = PositionEncoding::none;
      m.rope_scaling.clear();
    }
    m.ffn = c.whole("shared_intermediate_size", max_width);
    if (mixture.all > Count(0)) {
      m.mixture = orrery::hf::mixture(c, "num_local_experts", "num_experts_per_tok", "intermediate_size");
      m.mixture->shared_ffn = m.ffn;
    }
    return m;
  }
  const Count h = m.hidden;
  Decoder all;
  for (const std::string& name : names) {
    all.add(2 * h + (attends(name) ? decoder_attention(c, m) : mamba2(h, mixer_of(c, m))));
    all.add(experts(h, mixture), experts(h, mixture, true));
  }
  m.ffn = std::max<std::uint64_t>(1, mixture.shared.value());
  count_decoder(c, m, all, "state-space layers");
  return m;
}

}  // namespace

std::vector<Family> hybrid_families() {
  return with_tables(
      {
          {"bamba", {"BambaForCausalLM"}, {bamba_keys}, bamba},
          {"falcon_h1", {"FalconH1ForCausalLM"}, {falcon_keys}, falcon_h1},
          {"jamba", {"JambaForCausalLM"}, {jamba_keys}, jamba},
          {"granitemoehybrid", {"GraniteMoeHybridForCausalLM"}, {granite_keys}, granite_hybrid},
      },
      {hybrid_keys, usual_keys(), rms_keys(), rotary_keys(), router_keys(), common_keys()});
}

}  // namespace orrery::hf
