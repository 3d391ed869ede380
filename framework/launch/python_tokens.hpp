#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// A word of a Python text.
struct PythonToken {
  enum class Kind : std::uint8_t {
    name,
    number,
    text,  ///< without quotes and escapes
    sign,  ///< an operator or a bracket; a formatted text too, which is no literal
    line,  ///< the end of a line outside of brackets
    end
  };
  Kind kind = Kind::end;
  std::string text;
  Position position;
};

/// The words of a Python text, without comments; the last one is the end. Never fails: what is cut off ends there.
[[nodiscard]] std::vector<PythonToken> python_tokens(std::string_view text);

}  // namespace orrery
