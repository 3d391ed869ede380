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
[[nodiscard]] std::vector<Family> latent_families();
[[nodiscard]] std::vector<Family> encoder_families();

/// Scales that several types share.
void read_granite_scales(Config&, ModelSpec&);
void read_minicpm_scales(Config&, ModelSpec&);

}  // namespace orrery::hf
