#include "core/spec/hf/families.hpp"

namespace orrery::hf {

const std::vector<Family>& families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> out;
    for (const auto& kind : {gpt_families(),
                             llama_families(),
                             gemma_families(),
                             parallel_families(),
                             mixture_families(),
                             sigmoid_mixture_families(),
                             latent_families(),
                             encoder_families(),
                             text_encoder_families(),
                             relative_encoder_families(),
                             vision_encoder_families(),
                             two_tower_families(),
                             language_part_families(),
                             vision_language_families(),
                             own_tower_families(),
                             state_space_families(),
                             hybrid_families(),
                             linear_attention_families(),
                             encoder_decoder_families(),
                             sparse_families(),
                             gated_families(),
                             uneven_families(),
                             gemma_layer_families(),
                             sparse_image_families(),
                             gated_mixture_families(),
                             recurrence_families(),
                             latent_layer_families(),
                             minimax_image_families(),
                             zamba_families(),
                             own_code_families(),
                             bailing_families(),
                             compressed_families(),
                             sound_families()}) {
      out.insert(out.end(), kind.begin(), kind.end());
    }
    return out;
  }();
  return all;
}

}  // namespace orrery::hf
