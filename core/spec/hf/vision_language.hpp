#pragma once

#include "core/spec/hf/towers.hpp"

/// What readers of models of text and images share. The language model is read by its own type's reader.
namespace orrery::hf {

/// The whole: the language model, and `more` parameters of its tower and of what joins them.
[[nodiscard]] ModelSpec with_images(Config&, Count more);
/// Keys of every such file.
[[nodiscard]] Keys vision_language_keys();
/// A row of such a type. `own` comes ahead of the keys above.
[[nodiscard]] Family vision_language(std::string_view type, std::vector<std::string_view> classes,
                                     std::vector<Keys> own, ModelSpec (*reader)(Config&), Part language);
[[nodiscard]] inline Count side_of(Config& c, const char* key) { return c.side(key, max_side); }

}  // namespace orrery::hf
