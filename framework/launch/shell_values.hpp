#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/launch/shell_words.hpp"

// What the words of a script say once its variables are put in. Nothing is run: what only a running script knows stays
// unknown, and is carried along by name.

namespace orrery {

/// A text with the place in the script of each of its characters. The character `unknown` stands for a value that the
/// script does not give; its place is the number of its name.
struct ShellText {
  static constexpr char unknown = '\x01';
  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};  ///< of characters that a person gives
  std::string chars;
  std::vector<std::uint32_t> at;
  void add(char c, std::uint32_t place) {
    chars += c;
    at.push_back(place);
  }
  void add(const ShellText& t) {
    chars += t.chars;
    at.insert(at.end(), t.at.begin(), t.at.end());
  }
  [[nodiscard]] bool is_known() const { return chars.find(unknown) == std::string::npos; }
};

/// The variables of a script, and the values of words that use them.
class ShellValues {
 public:
  using Given = std::map<std::string, std::string, std::less<>>;
  /// `given` are values that a person gives; they come before those of the script.
  ShellValues(const std::string& text, const Given& given) : text_(text), given_(given) {}

  /// The words that a word becomes: none, one, or several.
  [[nodiscard]] std::vector<ShellText> expand(ShellWord);
  /// "NAME=value", "NAME+=value", "NAME=(...)": puts the variable in place; false where the word is no assignment. With
  /// `why`, the value depends on something unknown, and becomes so.
  bool assign(ShellWord, const std::string& why = {});
  void set_unknown(const std::string& name, const std::string& why);
  [[nodiscard]] bool has(std::string_view name) const;
  /// The value of a variable; unknown where the script does not set it.
  [[nodiscard]] ShellText value(const std::string& name);
  /// The words in a variable, as the script would pass them on.
  [[nodiscard]] std::vector<ShellText> words(const std::string& name);
  /// The name of the unknown value in a text, and what is known of it.
  [[nodiscard]] const std::string& unknown_in(const ShellText&) const;
  /// Splits a text at blanks, as `eval` does: quotes within it count.
  [[nodiscard]] static std::vector<ShellText> split(const ShellText&);

  /// What a function is called with.
  struct Arguments {
    std::vector<ShellText> words;
    bool open = false;  ///< perhaps more, which only who starts the script knows
  };
  /// A call begins: $1, $2 and $@ are its arguments, and what it declares local is its own up to leave(). A call in
  /// $(...) sets no variable.
  void enter(Arguments, bool keeps_variables = false);
  void leave();
  /// Words of which each becomes an argument, as "$@" and $TP do.
  [[nodiscard]] Arguments arguments(const std::vector<ShellWord>&);
  void shift(std::size_t n);
  void make_local(const std::string& name);
  /// `local -n NAME=OTHER`: within this call NAME is another variable's name.
  void refer(const std::string& name, const std::string& other);
  /// Says what the commands of $(...) print, from one place in the text to another; empty where only running them
  /// tells.
  using Printed = std::function<std::optional<ShellText>(std::size_t begin, std::size_t end)>;
  void print_by(Printed p) { printed_ = std::move(p); }

  /// Whether expansions became longer than scripts do.
  [[nodiscard]] bool is_full() const { return size_ > limit; }

 private:
  static constexpr std::size_t limit = std::size_t{1} << 22;  ///< characters
  struct Variable {
    std::vector<ShellText> items;
    bool array = false;
  };
  struct Part {
    ShellText text;
    std::vector<ShellText> items;  ///< of an array
    bool array = false;
  };
  struct Call {
    Arguments arguments;
    std::vector<std::pair<std::string, std::optional<Variable>>> before;  ///< of what it declares local
    std::map<std::string, std::string, std::less<>> references;
    std::optional<std::map<std::string, Variable, std::less<>>> all_before;  ///< of a call in $(...)
  };
  [[nodiscard]] std::optional<Part> argument(std::string_view name) const;
  [[nodiscard]] Part arguments_from(std::size_t first) const;
  [[nodiscard]] std::string target(const std::string& name) const;
  [[nodiscard]] Part substitution(std::size_t& i, std::size_t end, int depth);
  [[nodiscard]] Part braces(std::size_t begin, std::size_t end, int depth);
  [[nodiscard]] ShellText inner(std::size_t begin, std::size_t end, int depth);
  void expand_into(std::size_t begin, std::size_t end, bool split, int depth, std::vector<ShellText>& out);
  [[nodiscard]] Part variable(const std::string& name, bool all);
  [[nodiscard]] ShellText unknown(const std::string& name);
  [[nodiscard]] ShellText arithmetic(std::size_t begin, std::size_t end, int depth);

  const std::string& text_;
  const Given& given_;
  std::map<std::string, Variable, std::less<>> variables_;
  std::vector<std::string> unknown_;
  std::vector<Call> calls_;
  Printed printed_;
  std::size_t size_ = 0;
};

/// The value of an expression of whole numbers: + - * / % and parentheses; empty where it is none, or too large.
[[nodiscard]] std::optional<std::int64_t> shell_arithmetic(std::string_view expression);

}  // namespace orrery
