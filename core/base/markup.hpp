#pragma once

#include <string>
#include <string_view>

namespace orrery {

/// Text as it may stand between tags, and in double quotes inside them, of HTML and SVG: & < > and double quotes are
/// named, and control characters that neither format allows become U+FFFD. This is the one place where text from files
/// becomes markup.
[[nodiscard]] std::string marked_up(std::string_view text);

}  // namespace orrery
