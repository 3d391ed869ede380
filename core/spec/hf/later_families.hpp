#pragma once

#include "core/spec/hf/keys.hpp"

/// Types that came after those of families.hpp, by kind.
namespace orrery::hf {

/// Decoders like LLaMA under code of their authors.
[[nodiscard]] std::vector<Family> own_code_families();
[[nodiscard]] std::vector<Family> bailing_families();
/// Attention to compressed keys.
[[nodiscard]] std::vector<Family> compressed_families();
/// Text and sound.
[[nodiscard]] std::vector<Family> sound_families();

}  // namespace orrery::hf
