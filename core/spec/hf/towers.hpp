#pragma once

#include <string>

#include "core/spec/hf/count.hpp"

/// Towers of images, which stand beside a language model or alone. Their keys are those of vision_config, with
/// "vision_config." ahead, or of the file itself with nothing ahead.
namespace orrery::hf {

/// The sizes of a tower: width h, feed-forward width, layers, channels, and sides of the image and of a patch in
/// pixels.
struct Vision {
  Count h, f, layers, channels, image, patch;
  bool head = true;  ///< SigLIP: a head that attends to all patches
  Count rows = 0;    ///< positions, where the file says how many; 0: as many as patches
};

/// Longest side of an image or patch, in pixels.
inline constexpr std::uint64_t max_side = 1U << 16U;

/// Towers by the model type that vision_config names.
enum class TowerKind : std::uint8_t { clip, siglip, pixtral };

/// Sizes that the class has where vision_config leaves them out.
[[nodiscard]] Vision class_sizes(TowerKind);
/// Reads them. The usual keys' null stands for `absent`.
[[nodiscard]] Vision read_vision(Config&, const std::string& ahead, const Vision& absent);

///     CLIP      c P^2 h + h + (N + 1) h + L layer + 4 h        a class token; norms before and behind the layers
///     SigLIP    c P^2 h + h + N h + L layer + 2 h + head       head: a query, attention, a norm, two products
///     Pixtral   c P^2 h + h + L (4 h^2 + 3 h f + 2 h)          positions rotate; gates; no biases
///
/// N patches of P x P pixels with c channels.
[[nodiscard]] Count tower(TowerKind, const Vision&);

/// Keys of vision_config in every tower of these kinds, where null stands for the class's size.
[[nodiscard]] Keys tower_keys();

}  // namespace orrery::hf
