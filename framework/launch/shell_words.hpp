#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The words of a shell script, as they are written: quotes and variables are still in them.

namespace orrery {

/// A word of a script, from one place in its text to another.
struct ShellWord {
  std::uint32_t begin = 0, end = 0;
};

/// A simple command: the words up to what separates it from the next.
struct ShellCommand {
  enum class End : std::uint8_t {
    line,      ///< a new line, ; or &
    both,      ///< &&
    either,    ///< ||
    pipe,      ///< |
    pattern,   ///< the words are the patterns of an arm of `case`, each the text of one
    arm,       ///< ;;
    function,  ///< the word is the name of a function, whose body comes next
  };
  std::vector<ShellWord> words;
  End end = End::line;
  bool redirected = false;  ///< what it prints goes elsewhere
};

/// The commands of a script in the order of its text. Comments and the texts of here-documents are left out. Comment
/// lines within a continued command do not end it, as their writers mean it.
[[nodiscard]] std::vector<ShellCommand> shell_commands(const std::string& text);

/// The same of a part of a script: from `begin` to `end`.
[[nodiscard]] std::vector<ShellCommand> shell_commands(const std::string& text, std::size_t begin, std::size_t end);

/// The words of an array's parentheses, or of a text that is a command: from `begin` to `end`.
[[nodiscard]] std::vector<ShellWord> shell_words(const std::string& text, std::uint32_t begin, std::uint32_t end);

}  // namespace orrery
