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
  [[nodiscard]] bool said(const std::string& key, LaunchNote::Kind kind) const {
    const LaunchNote* n = note(key);
    return n != nullptr && n->kind == kind;
  }
};

/// Reads a launch file with a model of the library.
inline Launched launched(const std::string& text, const std::string& file, LaunchOptions options = {}) {
  Launched out;
  out.run = read_launch(text, file, "auto", options, test::shipped_library(), out.diagnostics);
  return out;
}
inline LaunchOptions with_model(const std::string& model, std::optional<std::uint32_t> gpus = std::nullopt) {
  LaunchOptions out;
  out.model = model;
  out.gpus = gpus;
  return out;
}

}  // namespace orrery
