#include <array>

#include "core/spec/hf_family.hpp"

// The model types that are read. Where a file leaves out a key, the default of the Hugging Face library's class for
// that type counts. A key that its class lacks but that models' own code reads is taken as that code writes it.
namespace orrery::hf {
namespace {

constexpr std::array gpt2_keys{
    read("n_layer", "12", "layers"),
    read("n_embd", "768"),
    read("n_head", "12", "heads"),
    read("n_inner", "null"),
    read("vocab_size", "50257"),
    read("n_positions", "1024"),
    read("layer_norm_epsilon", "1e-5"),
    read("activation_function", "\"gelu_new\""),
    read("tie_word_embeddings", "true"),
    only("scale_attn_weights", "true", "attention scores that are not divided by the root of their width"),
    only("scale_attn_by_inverse_layer_idx", "false", "attention scores that are divided by the layer's number"),
    same_as("hidden_size", "n_embd"),
    same_as("max_position_embeddings", "n_positions"),
    same_as("num_attention_heads", "n_head"),
    same_as("num_hidden_layers", "n_layer"),
    no_effect("n_ctx"),
    no_effect("is_decoder"),
    no_effect("reorder_and_upcast_attn"),
    no_effect("attn_pdrop"),
    no_effect("embd_pdrop"),
    no_effect("resid_pdrop"),
    no_effect("predict_special_tokens"),
    // These keys belong to a head that the language model's class does not have.
    no_effect("summary_type"),
    no_effect("summary_use_proj"),
    no_effect("summary_activation"),
    no_effect("summary_proj_to_labels"),
    no_effect("summary_first_dropout"),
};

constexpr std::array llama_keys{
    read("num_hidden_layers", "32", "layers"),
    read("hidden_size", "4096"),
    read("num_attention_heads", "32", "heads"),
    read("num_key_value_heads", "null", "kv_heads"),
    read("head_dim", "null", "head_dim"),
    read("intermediate_size", "11008"),
    read("vocab_size", "32000"),
    read("max_position_embeddings", "2048"),
    read("rms_norm_eps", "1e-6"),
    read("hidden_act", "\"silu\""),
    read("tie_word_embeddings", "false"),
    read("attention_bias", "false"),
    read("mlp_bias", "false"),
    no_effect("is_decoder"),
};

constexpr std::array mixtral_keys{
    read("num_key_value_heads", "8", "kv_heads"),
    read("intermediate_size", "14336"),
    read("max_position_embeddings", "131072"),
    read("rms_norm_eps", "1e-5"),
    read("rope_theta", "1000000.0"),
    read("num_local_experts", "8", "mixture.experts"),
    read("num_experts_per_tok", "2", "mixture.per_token"),
    same_as("num_experts", "num_local_experts"),
    only("sliding_window", "null", "attention to a window of positions"),
    only("attention_bias", "false", "biases in attention"),
    only("mlp_bias", "false", "biases in experts"),
    // These are losses and noise of training, which the workload states.
    no_effect("output_router_logits"),
    no_effect("router_aux_loss_coef"),
    no_effect("router_jitter_noise"),
};

/// DeepSeek-V2 and V3.
constexpr std::array deepseek_keys{
    read("num_key_value_heads", "null", "kv_heads"),
    read("q_lora_rank", "1536"),
    read("kv_lora_rank", "512"),
    read("qk_nope_head_dim", "128"),
    read("qk_rope_head_dim", "64", "latent.rope_dim"),
    read("v_head_dim", "128"),
    read("rms_norm_eps", "1e-6"),
    read("hidden_act", "\"silu\""),
    read("tie_word_embeddings", "false"),
    read("moe_layer_freq", "1"),
    read("num_nextn_predict_layers", "0"),  // the library's class builds none
    same_as("num_mtp_layers", "num_nextn_predict_layers"),
    only("attention_bias", "false", "biases in latent attention"),
    only("mlp_bias", "false", "biases in feed-forward layers"),
    no_effect("head_dim"),  // follow from the widths above
    no_effect("qk_head_dim"),
    no_effect("rope_interleave"),  // the order of features that rotate
    no_effect("is_decoder"),
    no_effect("ep_size"),
    no_effect("output_router_logits"),
    no_effect("aux_loss_alpha"),
    no_effect("seq_aux"),
};

constexpr std::array deepseek_v2_keys{
    read("num_hidden_layers", "32", "layers"),
    read("hidden_size", "4096"),
    read("num_attention_heads", "32", "heads"),
    read("intermediate_size", "11008"),
    read("vocab_size", "102400"),
    read("max_position_embeddings", "2048"),
    read("n_routed_experts", "64", "mixture.experts"),
    read("n_shared_experts", "2"),
    read("num_experts_per_tok", "null", "mixture.per_token"),
    read("moe_intermediate_size", "1407"),
    read("first_k_dense_replace", "0"),
    read("routed_scaling_factor", "1.0"),
    read("topk_method", "\"greedy\""),
    read("n_group", "null"),
    read("topk_group", "null"),
    only("scoring_func", "\"softmax\"", "another score of experts"),
    only("norm_topk_prob", "false", "gates that are divided by their sum, which the library does not do for this type"),
    same_as("num_experts", "n_routed_experts"),
};

constexpr std::array deepseek_v3_keys{
    read("num_hidden_layers", "61", "layers"),
    read("hidden_size", "7168"),
    read("num_attention_heads", "128", "heads"),
    read("intermediate_size", "18432"),
    read("vocab_size", "129280"),
    read("max_position_embeddings", "4096"),
    read("n_routed_experts", "256", "mixture.experts"),
    read("n_shared_experts", "1"),
    read("num_experts_per_tok", "8", "mixture.per_token"),
    read("moe_intermediate_size", "2048"),
    read("first_k_dense_replace", "3"),
    read("routed_scaling_factor", "2.5"),
    read("n_group", "8"),
    read("topk_group", "4"),
    only("topk_method", "\"noaux_tc\"", "another choice of experts"),
    only("scoring_func", "\"sigmoid\"", "another score of experts"),
    only("norm_topk_prob", "true", "sigmoid scores that are not divided by their sum"),
    same_as("num_local_experts", "n_routed_experts"),
};

/// BERT and ViT.
constexpr std::array encoder_keys{
    read("num_hidden_layers", "12", "layers"),
    read("hidden_size", "768"),
    read("num_attention_heads", "12", "heads"),
    read("intermediate_size", "3072"),
    read("layer_norm_eps", "1e-12"),
    read("hidden_act", "\"gelu\""),
    no_effect("hidden_dropout_prob"),
    no_effect("attention_probs_dropout_prob"),
};

constexpr std::array bert_keys{
    read("vocab_size", "30522"),
    read("max_position_embeddings", "512"),
    read("type_vocab_size", "2"),
    only("position_embedding_type", "\"absolute\"", "positions relative to each other"),
    only("is_decoder", "false", "BERT as a decoder"),
    only("tie_word_embeddings", "true", "a head that is not the word table"),
    no_effect("classifier_dropout"),
    // These keys belong to a pooler, which the class with the head for masked words does not have.
    no_effect("directionality"),
    no_effect("pooler_fc_size"),
    no_effect("pooler_num_attention_heads"),
    no_effect("pooler_num_fc_layers"),
    no_effect("pooler_size_per_head"),
    no_effect("pooler_type"),
};

constexpr std::array vit_keys{
    read("image_size", "224", "image.size"),
    read("patch_size", "16", "image.patch"),
    read("num_channels", "3"),
    read("id2label", "null"),
    read("num_labels", "2"),
    only("qkv_bias", "true", "biases in only some linear layers"),
    // These keys belong to heads and poolers that the classifier does not have.
    no_effect("encoder_stride"),
    no_effect("pooler_act"),
    no_effect("pooler_output_size"),
};

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"gpt2", {"GPT2LMHeadModel"}, {gpt2_keys, common_keys()}, gpt2},
      {"llama", {"LlamaForCausalLM", "LLaMAForCausalLM"}, {llama_keys, rotary_keys(), common_keys()}, llama},
      {"bert", {"BertForMaskedLM"}, {bert_keys, encoder_keys, common_keys()}, bert},
      {"vit", {"ViTForImageClassification"}, {vit_keys, encoder_keys, common_keys()}, vit},
      {"deepseek_v2",
       {"DeepseekV2ForCausalLM"},
       {deepseek_v2_keys, deepseek_keys, rotary_keys(), common_keys()},
       deepseek_v2},
      {"deepseek_v3",
       {"DeepseekV3ForCausalLM"},
       {deepseek_v3_keys, deepseek_keys, rotary_keys(), common_keys()},
       deepseek_v3},
      {"mixtral", {"MixtralForCausalLM"}, {mixtral_keys, llama_keys, rotary_keys(), common_keys()}, mixtral},
  };
  return all;
}

}  // namespace orrery::hf
