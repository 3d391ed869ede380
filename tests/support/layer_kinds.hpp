#pragma once

#include <span>

#include "core/spec/model_spec.hpp"

namespace orrery::test {

/// A choice of what layers are made of, applied to a model of the GPT or LLaMA family.
struct LayerKindCase {
  const char* name;
  void (*apply)(ModelSpec&);
  bool grid = true;      ///< a grid cuts it
  bool mixture = false;  ///< needs layers of experts
  bool exact = false;    ///< rounding to fewer digits may change gradients by much: where they jump, and where norms of
                         ///< two features leave little of them
};

/// One thing at a time.
[[nodiscard]] std::span<const LayerKindCase> single_kinds();
/// What published families have together (docs/model-file.md names them), without windows, sinks and caps of scores.
[[nodiscard]] std::span<const LayerKindCase> family_kinds();

}  // namespace orrery::test
