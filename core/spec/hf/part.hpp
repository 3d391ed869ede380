#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/spec/hf/file.hpp"

/// The language model inside a larger one: an object of the file (Family::language), read as a file of its own type.
namespace orrery::hf {

/// What marks, among an origin's positions, that only the language model was read.
inline constexpr const char* language_mark = "#language";

/// The object that `key` names, which may be a path of two: "thinker_config.text_config". Null where there is none.
[[nodiscard]] const nlohmann::json* object_at(const nlohmann::json& whole, std::string_view key);

/// Part::tied of a type that is not known: tie_word_embeddings of the whole counts where the file gives it there alone.
inline constexpr std::string_view said_tie = "said";

/// The object as a file, with positions in the whole file, and the row of its type. tie_word_embeddings of the whole
/// counts for it. Codes: hf.type  hf.model-type
struct LanguageFile {
  File file;
  const Family* family = nullptr;
};
[[nodiscard]] std::optional<LanguageFile> open_language(const File& whole, const Family&, Diagnostics&);

/// Reads it. Its origin has the positions of its keys. After a mistake it is empty.
[[nodiscard]] ModelSpec read_language(const File& whole, const Family&, Diagnostics&);

/// Keys of the object that nobody knows, with its name ahead: "text_config.zebra".
[[nodiscard]] std::vector<std::string> unread_in_language(const File& whole, const Family&);

/// Positions of our keys ("model.hidden"), which rules speak of, point at the file's keys.
void place_rules(const Family&, Origin&);

}  // namespace orrery::hf
