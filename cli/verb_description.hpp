#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/common.hpp"

namespace orrery {

/// A flag of a verb, as it is declared.
struct FlagDescription {
  std::vector<std::string> names;  ///< "-o", "--output"
  std::string help;
  std::string value;                 ///< what its value is called, "N", "TEXT"; empty: it takes none
  std::vector<std::string> choices;  ///< its values, where they are a list
  std::string preset;                ///< the value without the flag; may be empty
  bool required = false;
};

/// A verb, as it is declared: what manual pages and completions are made of, so that they cannot differ from what the
/// program takes.
struct VerbDescription {
  std::string name, summary;
  struct Argument {
    std::string name, help;
    bool required = true, repeats = false;
  };
  std::vector<Argument> arguments;
  std::vector<FlagDescription> flags;
  std::string examples;
};

[[nodiscard]] std::vector<VerbDescription> describe_verbs(const std::vector<std::unique_ptr<Verb>>&);

/// A manual page in man(7): of one verb, or of the program where `verb` is empty.
[[nodiscard]] std::string manual_page(const std::vector<VerbDescription>&, const std::string& verb,
                                      const std::string& version);
/// A script that completes verbs, flags and their values in a shell: "bash", "zsh" or "fish".
[[nodiscard]] std::string completion_script(const std::vector<VerbDescription>&, const std::string& shell);

}  // namespace orrery
