#pragma once

#include "core/spec/hf/config.hpp"

/// The model types that are read, by kind. Each file holds its types' tables of keys beside their readers. Where a file
/// leaves out a key, the default of the Hugging Face library's class for that type counts (version 5.24). A key that
/// its class lacks but that models' own code reads is taken as that code writes it.
namespace orrery::hf {

[[nodiscard]] std::vector<Family> gpt_families();
[[nodiscard]] std::vector<Family> llama_families();
[[nodiscard]] std::vector<Family> gemma_families();
[[nodiscard]] std::vector<Family> parallel_families();
[[nodiscard]] std::vector<Family> mixture_families();
[[nodiscard]] std::vector<Family> sigmoid_mixture_families();
[[nodiscard]] std::vector<Family> latent_families();
/// Latent attention with DeepSeek-V3's experts, and its keys.
[[nodiscard]] Keys latent_keys();
[[nodiscard]] Keys deepseek_v3_keys();
[[nodiscard]] ModelSpec deepseek_v3(Config&);
[[nodiscard]] std::vector<Family> encoder_families();

[[nodiscard]] std::vector<Family> text_encoder_families();
[[nodiscard]] std::vector<Family> relative_encoder_families();
[[nodiscard]] std::vector<Family> vision_encoder_families();
[[nodiscard]] std::vector<Family> two_tower_families();
[[nodiscard]] std::vector<Family> language_part_families();
[[nodiscard]] std::vector<Family> vision_language_families();
[[nodiscard]] std::vector<Family> own_tower_families();
[[nodiscard]] std::vector<Family> state_space_families();
[[nodiscard]] std::vector<Family> hybrid_families();
[[nodiscard]] std::vector<Family> linear_attention_families();
[[nodiscard]] std::vector<Family> encoder_decoder_families();
[[nodiscard]] std::vector<Family> sparse_families();
[[nodiscard]] std::vector<Family> gated_families();
[[nodiscard]] std::vector<Family> uneven_families();
[[nodiscard]] std::vector<Family> gated_mixture_families();
[[nodiscard]] std::vector<Family> recurrence_families();
[[nodiscard]] std::vector<Family> latent_layer_families();
[[nodiscard]] std::vector<Family> gemma_layer_families();
[[nodiscard]] std::vector<Family> sparse_image_families();
[[nodiscard]] std::vector<Family> minimax_image_families();
[[nodiscard]] std::vector<Family> zamba_families();
/// Decoders like LLaMA under code of their authors.
[[nodiscard]] std::vector<Family> own_code_families();
[[nodiscard]] std::vector<Family> bailing_families();
/// Attention to compressed keys.
[[nodiscard]] std::vector<Family> compressed_families();
/// Text and sound.
[[nodiscard]] std::vector<Family> sound_families();

/// Keys of Qwen2-VL's language model.
[[nodiscard]] std::vector<Keys> qwen2_vl_text_tables();

/// BERT, from the usual keys of encoders.
[[nodiscard]] ModelSpec bert(Config&);

/// Scales that several types share.
void read_granite_scales(Config&, ModelSpec&);
void read_minicpm_scales(Config&, ModelSpec&);

}  // namespace orrery::hf
