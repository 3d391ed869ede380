#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/launch/shell_values.hpp"

namespace orrery {

/// What a script would run, and its variables at the end.
struct ShellScript {
  struct Call {
    std::vector<ShellText> words;
  };
  std::vector<Call> calls;       ///< commands with their words, those of untaken branches left out
  bool is_cut = false;           ///< its functions call each other longer than scripts do
  std::vector<std::string> set;  ///< names of variables, in the order of their first assignments
};

/// Follows a script without running it. Branches are taken as their conditions say. Where a condition asks for what the
/// script does not say, variables of its branches become unknown. Functions are followed where they are called, with
/// their arguments; what $(...) prints is known where it only prints words.
[[nodiscard]] ShellScript follow_script(const std::string& text, ShellValues&);

}  // namespace orrery
