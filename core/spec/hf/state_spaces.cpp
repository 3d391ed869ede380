#include <array>
#include <nlohmann/json.hpp>

#include "core/spec/hf/families.hpp"
#include "core/spec/hf/mixers.hpp"
#include "core/spec/spec_check.hpp"

// State spaces without attention (Mamba), and Nemotron-H, whose layers are one part each.
namespace orrery::hf {
namespace {

constexpr std::array mamba_keys{
    read("vocab_size", "50280", "vocabulary"),
    read("hidden_size", "768", "hidden"),
    read("num_hidden_layers", "32", "layers"),
    read("state_size", "16"),
    read("expand", "2"),
    read("conv_kernel", "4"),
    read("use_bias", "false"),
    read("use_conv_bias", "true"),
    read("time_step_rank", "\"auto\""),
    read("tie_word_embeddings", "true"),
    same_as("d_model", "hidden_size"),
    same_as("n_layer", "num_hidden_layers"),
    // These follow from the widths above.
    no_effect("intermediate_size"),
    no_effect("d_inner"),
    no_effect("ssm_cfg"),
    no_effect("pad_vocab_size_multiple"),
    no_effect("fused_add_norm"),
    no_effect("rms_norm"),
    no_effect("norm_before_gate"),
    no_effect("layer_norm_epsilon"),
    no_effect("mixer_rms_eps"),
    no_effect("hidden_act"),
    no_effect("residual_in_fp32"),
    no_effect("rescale_prenorm_residual"),
    no_effect("time_step_scale"),
    no_effect("time_step_min"),
    no_effect("time_step_max"),
    no_effect("time_step_floor"),
    no_effect("time_step_limit"),
    no_effect("time_step_init_scheme"),
    no_effect("use_mambapy"),
    no_effect("use_falcon_mambapy"),
    no_effect("use_associative_scan"),
};
constexpr std::array mamba2_keys{
    read("vocab_size", "32768", "vocabulary"),
    read("hidden_size", "4096", "hidden"),
    read("num_hidden_layers", "64", "layers"),
    read("num_heads", "128"),
    read("state_size", "128"),
    read("n_groups", "8"),
    read("tie_word_embeddings", "false"),
    no_effect("time_step_rank"),
    no_effect("head_dim"),
    no_effect("chunk_size"),
};
constexpr std::array nemotron_keys{
    read("vocab_size", "131072", "vocabulary"),
    read("hidden_size", "4096", "hidden"),
    read("num_hidden_layers", "null", "layers"),
    read("layers_block_type", "null"),
    read("hybrid_override_pattern", "null"),
    no_effect("tie_word_embeddings"),  // its class has a head of its own in any case
    read("num_attention_heads", "32", "heads"),
    read("num_key_value_heads", "8", "kv_heads"),
    read("head_dim", "128", "head_dim"),
    read("max_position_embeddings", "4096", "max_positions"),
    read("intermediate_size", "21504", "ffn"),
    read("mlp_bias", "false"),
    read("ssm_state_size", "128"),
    read("mamba_num_heads", "128"),
    read("mamba_head_dim", "64"),
    read("n_groups", "8"),
    read("conv_kernel", "4"),
    read("use_conv_bias", "true"),
    read("use_bias", "false"),
    read("n_routed_experts", "8"),
    read("n_shared_experts", "1"),
    read("moe_intermediate_size", "7688"),
    read("moe_shared_expert_intermediate_size", "7688"),
    read("moe_latent_size", "null"),
    read("num_experts_per_tok", "2"),
    same_as("layer_types", "layers_block_type"),
    same_as("attention_head_dim", "head_dim"),
    same_as("mamba_n_groups", "n_groups"),
    same_as("mamba_d_conv", "conv_kernel"),
    same_as("mamba_conv_bias", "use_conv_bias"),
    same_as("num_local_experts", "n_routed_experts"),
    only("residual_in_fp32", "false", "a stream in f32"),
    no_effect("attention_bias"),  // its class has none
    no_effect("mamba_proj_bias"),
    no_effect("hidden_act"),
    no_effect("mlp_hidden_act"),
    no_effect("mamba_hidden_act"),
    no_effect("sliding_window"),
    no_effect("num_logits_to_keep"),
    no_effect("use_mamba_kernels"),
    no_effect("mamba_ssm_cache_dtype"),
    no_effect("chunk_size"),
    no_effect("mamba_chunk_size"),
    no_effect("expand"),
    no_effect("mamba_expand"),
    no_effect("time_step_min"),
    no_effect("time_step_max"),
    no_effect("time_step_floor"),
    no_effect("time_step_limit"),
    no_effect("time_step_rank"),
    no_effect("layer_norm_epsilon"),
    no_effect("norm_eps"),
    no_effect("rms_norm_eps"),
    no_effect("rescale_prenorm_residual"),
    no_effect("moe_shared_expert_overlap"),
    no_effect("routed_scaling_factor"),
    no_effect("n_group"),
    no_effect("topk_group"),
    no_effect("norm_topk_prob"),
    no_effect("topk_method"),
    no_effect("scoring_func"),
    // The library's class builds no prediction modules.
    no_effect("num_nextn_predict_layers"),
    no_effect("mtp_layers_block_type"),
    no_effect("mtp_hybrid_override_pattern"),
};

constexpr ShapeKeys mamba_shape{"num_hidden_layers", "hidden_size", nullptr, nullptr, nullptr, nullptr,
                                "vocab_size",        nullptr};

ModelSpec state_space_shape(Config& c) {
  ModelSpec m = shape(c, mamba_shape);
  m.positions = PositionEncoding::none;
  m.tied_embeddings = c.flag("tie_word_embeddings");
  m.ffn = std::max<std::uint64_t>(1, std::min(max_width, (number(c, "expand") * m.hidden).value()));
  return m;
}

/// Each layer is a norm and a mixer.
ModelSpec mamba_model(Config& c) {
  ModelSpec m = state_space_shape(c);
  const Count h = m.hidden;
  const Mamba mixer{number(c, "expand") * h,  number(c, "state_size"),
                    number(c, "conv_kernel"), number_or_auto(c, "time_step_rank", (h + 15) / 16),
                    truth(c, "use_bias"),     truth(c, "use_conv_bias")};
  Decoder all;
  all.add(m.layers * (h + mamba(h, mixer)));
  count_decoder(c, m, all, "state-space layers");
  return m;
}

ModelSpec mamba2_model(Config& c) {
  ModelSpec m = state_space_shape(c);
  const Count h = m.hidden;
  const bool bias = truth(c, "use_bias");
  const Mamba2 mixer{number(c, "expand") * h,
                     number(c, "num_heads"),
                     number(c, "n_groups"),
                     number(c, "state_size"),
                     number(c, "conv_kernel"),
                     bias,
                     bias,
                     truth(c, "use_conv_bias")};
  Decoder all;
  all.add(m.layers * (h + mamba2(h, mixer)));
  count_decoder(c, m, all, "state-space layers");
  return m;
}

/// The letters of hybrid_override_pattern: M mixers, - feed-forward layers, * attention, E experts.
std::vector<std::string> parts(Config& c, ModelSpec& m) {
  std::vector<std::string> names = c.texts("layers_block_type");
  if (names.empty() && !c.none("hybrid_override_pattern")) {
    for (const char letter : c.text("hybrid_override_pattern")) names.emplace_back(1, letter);
  }
  if (names.empty()) names = {"M", "E", "*", "-"};
  if (names.size() > max_layers) {
    c.error("hybrid_override_pattern", "hf.range", "the pattern has too many layers");
    names.resize(1);
  }
  m.layers = names.size();
  return names;
}

/// Experts are two products without a gate. Latent ones are narrower: two products u h lead to them and back. The
/// shared expert is not latent.
ModelSpec nemotron_h(Config& c) {
  ModelSpec m = shape(c, {.layers = nullptr, .kv_heads = "num_key_value_heads", .head_dim = "head_dim"});
  m.tied_embeddings = false;
  m.positions = PositionEncoding::none;
  const Count h = m.hidden;
  const bool bias = truth(c, "use_bias"), mlp_bias = truth(c, "mlp_bias");
  const Mamba2 mixer{number(c, "mamba_num_heads") * number(c, "mamba_head_dim"),
                     number(c, "mamba_num_heads"),
                     number(c, "n_groups"),
                     number(c, "ssm_state_size"),
                     number(c, "conv_kernel"),
                     bias,
                     bias,
                     truth(c, "use_conv_bias")};
  const Count u = number(c, "moe_latent_size", 0), wide = u > Count(0) ? u : h;
  const Count expert = feed_forward(wide, number(c, "moe_intermediate_size"), false, false);
  const Count shared = feed_forward(h, number(c, "moe_shared_expert_intermediate_size"), false, mlp_bias);
  const Count latent = u > Count(0) ? product(h, u, mlp_bias) + product(u, h, mlp_bias) : Count(0);
  const Count all_experts = number(c, "n_routed_experts");
  const Count around = all_experts * h + shared + latent + h;
  Decoder all;
  for (const std::string& name : parts(c, m)) {
    if (name == "M" || name == "mamba" || name == "linear_attention") {
      all.add(h + mamba2(h, mixer));
    } else if (name == "*" || name == "attention" || name == "full_attention") {
      all.add(h + grouped_attention(h, m.heads, m.kv_heads, m.head_dim, false, false));
    } else if (name == "-" || name == "mlp") {
      all.add(h + feed_forward(h, m.ffn, false, mlp_bias));
    } else if (name == "E" || name == "moe") {
      all.add(around + all_experts * expert, around + number(c, "num_experts_per_tok") * expert);
    } else if (c.good()) {
      const char* key = c.none("layers_block_type") ? "hybrid_override_pattern" : "layers_block_type";
      c.error(key, "hf.unsupported", "a layer of the kind " + shown(name) + " is not supported",
              {"Supported: M or mamba, * or attention, - or mlp, E or moe."});
    }
  }
  count_decoder(c, m, all, "state-space layers");
  return m;
}

}  // namespace

std::vector<Family> state_space_families() {
  const Keys common = common_keys();
  using Heads = Family::Heads;
  return {
      {"mamba", {"MambaForCausalLM"}, {mamba_keys, common}, mamba_model, {}, Heads::nothing},
      {"falcon_mamba", {"FalconMambaForCausalLM"}, {mamba_keys, common}, mamba_model, {}, Heads::nothing},
      {"mamba2", {"Mamba2ForCausalLM"}, {mamba2_keys, mamba_keys, common}, mamba2_model, {}, Heads::nothing},
      {"nemotron_h",
       {"NemotronHForCausalLM"},
       {nemotron_keys, rotary_keys(), router_keys(), common},
       nemotron_h,
       {},
       Heads::nothing},
  };
}

}  // namespace orrery::hf
