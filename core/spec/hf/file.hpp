#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/spec/hf/keys.hpp"

namespace orrery::hf {

/// A key of a file.
struct Place {
  std::string name;
  std::string outer;  ///< the key whose object it stands in, where `nested`
  bool nested = false;
  std::size_t byte = 0;  ///< offset of its opening quote

  [[nodiscard]] std::string path() const { return nested ? outer + "." + name : name; }
};

/// The object of a config.json, with its own keys and those of its objects in the file's order.
struct File {
  Origin origin;
  std::shared_ptr<nlohmann::json> object;  ///< a pointer, since headers see the name of its type alone
  std::vector<Place> keys;                 ///< of the object, and of objects in it
};

/// Codes: hf.syntax
[[nodiscard]] std::optional<File> open_file(std::string text, std::string name, Diagnostics&);

/// The row of model_type, which says how the file's keys are read. Adds hf.missing-key, hf.type or hf.model-type where
/// there is none.
[[nodiscard]] const Family* family_of(const File&, Diagnostics&);

/// Decides for every key what becomes of it (hf::Use), and returns the keys that nobody knows, in the file's order. It
/// keeps the positions of known keys in `origin`, gives values under another name their own, refuses values that change
/// the model in a way that this program does not have (hf.unsupported), and refuses misspellings (hf.unknown-key).
std::vector<std::string> sort_keys(File&, const Family&, Diagnostics&);

}  // namespace orrery::hf
