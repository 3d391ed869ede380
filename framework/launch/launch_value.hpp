#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"

// What stands in a launch file, whatever its syntax: keys and values with their places. The rooms of the frameworks
// read this form alone.

namespace orrery {

/// One value of a launch file.
struct LaunchValue {
  enum class Kind : std::uint8_t {
    text,    ///< in quotes, or a word that is none of the others
    number,  ///< "8", "1e-4", "5_000"
    flag,    ///< true or false; a flag without a value is true
    none,    ///< null, or a key with nothing behind it
    list,    ///< `items` are its entries
    table,   ///< an entry of a list, with `items` as its keys; or an empty table
  };
  std::string key;  ///< dotted path: "parallelism.tensor_parallel_degree", "--tensor-model-parallel-size"; empty for
                    ///< entries of lists
  Kind kind = Kind::none;
  std::string text;  ///< as written, without quotes; "true" or "false" of a flag
  std::vector<LaunchValue> items;
  Position position;  ///< of the value, or of the key where there is no value
  /// What the value depends on and the file does not say: a variable of a script. The text is of no use then.
  std::string unknown = {};
};

/// The forms in which launch files are written.
enum class LaunchSyntax : std::uint8_t {
  yaml,    ///< YAML and JSON; keys of tables are joined by dots
  toml,    ///< likewise
  flags,   ///< a shell script or a command line: keys are flags, with their dashes
  python,  ///< calls with literal arguments: keys are "HybridParallelPlugin.tp_size"
};

/// A launch file, parsed. Tables are flattened: each value has a dotted path, in the order of the file.
struct LaunchFile {
  LaunchSyntax syntax = LaunchSyntax::yaml;
  Origin origin;  ///< file and text; positions are in the values
  std::vector<LaunchValue> values;

  /// The last value with this path; null where there is none.
  [[nodiscard]] const LaunchValue* find(std::string_view key) const;
  /// Whether a key begins with this path ("model" for "model.name").
  [[nodiscard]] bool has(std::string_view path) const;
};

/// Most values in a file, entries of lists among them.
inline constexpr std::size_t launch_value_limit = 100'000;

/// Parses YAML or JSON (which YAML contains) whose root is a table.
/// Codes: launch.syntax  launch.size
[[nodiscard]] std::optional<LaunchFile> parse_launch_yaml(std::string text, std::string file, Diagnostics&);
/// Parses TOML. Codes: file.syntax
[[nodiscard]] std::optional<LaunchFile> parse_launch_toml(std::string text, std::string file, Diagnostics&);
/// Reads a shell script or a command line without running it: the flags of the command that has most of them, once
/// variables, arrays and arithmetic are put in. Conditions are followed where the script says enough. `variables` come
/// before those of the script. A flag with several words behind it is a list. A word "a.b=c" is the key "a.b".
///
/// What the launcher is told (torchrun, srun, #SBATCH, or the usual variables) is in keys of their own:
/// "launcher.gpus" is the number of GPUs, "launcher.program" the script or module, "launcher.NAME" a flag of the
/// launcher.
/// Codes: launch.syntax  launch.size
[[nodiscard]] std::optional<LaunchFile> parse_launch_flags(
    std::string text, std::string file, const std::map<std::string, std::string, std::less<>>& variables, Diagnostics&);
/// Reads literals of a Python text without running it: keyword arguments of calls ("HybridParallelPlugin.tp_size", the
/// last name of the called), those of a call within ("Plugin.config.ratio", with the name of what is called as the text
/// of "Plugin.config"), and assignments ("cfg.model.x"). A dictionary is a table. A capital name called without such
/// arguments is a key without a value. A name stands for what `variables` say, else for the literal assigned last. An
/// argument that is computed has `unknown` set. Codes: launch.size
[[nodiscard]] std::optional<LaunchFile> parse_launch_python(
    std::string text, std::string file, const std::map<std::string, std::string, std::less<>>& variables, Diagnostics&);
/// Whether a character may stand in a name of a script's or Python's: a letter, a digit or "_".
[[nodiscard]] constexpr bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
/// Whether a text is a number as launch files write them: "8", "1e-4", "5_000".
[[nodiscard]] bool is_launch_number(const std::string&);

}  // namespace orrery
