#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/diagnostics.hpp"
#include "core/base/work_progress.hpp"

namespace orrery {

/// What is wrong with a JSON text, and where.
struct JsonMistake {
  enum class Kind : std::uint8_t {
    syntax,  ///< no JSON
    number,  ///< a number that no type can hold
    key      ///< a key that stands twice in one object; `key` names it
  };
  Kind kind = Kind::syntax;
  std::size_t byte = 0;  ///< offset of the place in the text
  std::string key;
};

struct JsonReading {
  /// Called for every object when it ends, with the number of values around it;
  /// false drops the object, so that a long list does not stay in memory.
  std::function<bool(int depth, const nlohmann::json&)> keep;
  WorkProgress progress;      ///< bytes read
  bool keys_once = true;      ///< false: where a key stands twice the last one counts, as in files of other programs
  std::size_t* at = nullptr;  ///< where given, tells `keep` how many bytes have been read
  /// Called for every key with the number of values around it and the offset of its opening quote.
  std::function<void(int depth, const std::string& key, std::size_t byte)> key_seen = {};
  /// Accepts NaN, Infinity and -Infinity, which are not JSON but which Python's json module writes.
  bool non_finite = false;
};

/// Parses a JSON text into `to`. Stricter than the language: a key that stands twice in one object is a mistake,
/// because only one of its values would count. The result is empty where the text is right. At most ten mistakes are
/// listed.
[[nodiscard]] std::vector<JsonMistake> parse_json_text(std::string_view text, nlohmann::json& to,
                                                       const JsonReading& = {});

/// Offset of the value of the key whose opening quote stands at `key` in a valid JSON text.
[[nodiscard]] std::size_t value_offset(std::string_view text, std::size_t key);

/// Line and column of a byte of a text.
[[nodiscard]] Position position_at(std::string_view text, std::size_t byte);

}  // namespace orrery
