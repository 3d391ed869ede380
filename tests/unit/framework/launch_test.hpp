#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "framework/framework.hpp"
#include "tests/support/shipped_model.hpp"

namespace orrery {

/// What reading a launch file gave, its mistakes among it.
struct Launched {
  std::optional<LaunchedRun> run;
  Diagnostics diagnostics;

  /// The note of a key; null where nothing is said of it.
  [[nodiscard]] const LaunchNote* note(const std::string& key) const {
    if (!run) return nullptr;
    const auto at = std::find_if(run->notes.begin(), run->notes.end(), [&](const auto& n) { return n.key == key; });
    return at == run->notes.end() ? nullptr : &*at;
  }
  /// Whether one of the notes of a key is of this kind.
  [[nodiscard]] bool said(const std::string& key, LaunchNote::Kind kind) const {
    return run && std::any_of(run->notes.begin(), run->notes.end(),
                              [&](const LaunchNote& n) { return n.key == key && n.kind == kind; });
  }
  [[nodiscard]] bool refuses(const std::string& key) const { return said(key, LaunchNote::Kind::not_expressible); }
};

/// Reads a launch file with a model of the library.
inline Launched launched(const std::string& text, const std::string& file, LaunchInputs options = {}) {
  Launched out;
  out.run = read_launch(text, file, "auto", options, test::shipped_library(), out.diagnostics);
  return out;
}
inline LaunchInputs with_gpus(std::uint32_t gpus) {
  LaunchInputs out;
  out.gpus = gpus;
  return out;
}
inline LaunchInputs with_model(const std::string& model, std::optional<std::uint32_t> gpus = std::nullopt) {
  LaunchInputs out;
  out.model = model;
  out.gpus = gpus;
  return out;
}

}  // namespace orrery
