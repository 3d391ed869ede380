#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

/// Text of a file as a terminal may show it. Control characters, marks that turn the direction of writing, and bytes
/// that are not UTF-8 become \xNN or, from U+007F on, \uNNNN, which JSON and TOML read back. `keep` names control
/// characters that stay as they are.
[[nodiscard]] std::string escaped(std::string_view text, std::string_view keep = "");

/// Characters of a text, as columns count them; a byte that is not UTF-8 counts as one.
[[nodiscard]] std::uint32_t character_count(std::string_view text);

/// A line of a file around a place in it, and the text to print below it before the caret, so that the caret is under
/// that place.
struct Excerpt {
  std::string line;  ///< escaped; "..." for what is cut off, at most 120 characters of the file
  std::string pad;   ///< spaces, and the tabs of `line`
};

/// `column` counts characters (code points) from 1.
[[nodiscard]] Excerpt excerpt(std::string_view line, std::uint32_t column);

}  // namespace orrery
