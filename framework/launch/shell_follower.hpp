#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/launch/shell_conditions.hpp"
#include "framework/launch/shell_script.hpp"

namespace orrery {

/// Goes through the commands of a script: assignments, branches and calls of its functions.
class ShellFollower {
 public:
  ShellFollower(const std::string& text, ShellValues& values);
  ~ShellFollower();
  ShellFollower(const ShellFollower&) = delete;
  ShellFollower& operator=(const ShellFollower&) = delete;

  ShellScript all();

 private:
  using Commands = std::vector<ShellCommand>;
  /// An `if`, a loop or a `case` that is open.
  struct Block {
    ShellTruth taken = ShellTruth::yes;      ///< the branch that is read now
    ShellTruth before = ShellTruth::no;      ///< whether an earlier branch was taken
    ShellTruth condition = ShellTruth::yes;  ///< so far
    bool in_condition = false;
    std::optional<ShellText> subject;  ///< of a case
    std::size_t line = 0;
  };
  struct Function {
    std::shared_ptr<const Commands> body;
    bool followed = false;
  };
  /// What the commands of $(...) print.
  struct Printing {
    ShellText text;
    bool opaque = false;  ///< only running the commands tells
  };
  static constexpr int deepest = 16;  ///< calls within calls
  static constexpr std::size_t most_steps = 100'000;

  [[nodiscard]] std::string_view raw(const ShellWord& w) const {
    return std::string_view(text_).substr(w.begin, w.end - w.begin);
  }
  [[nodiscard]] std::size_t line_of(const ShellCommand&) const;
  [[nodiscard]] ShellText joined(const ShellWord&);

  // Branches: shell_script.cpp.
  [[nodiscard]] ShellTruth taken() const;
  [[nodiscard]] std::string reason() const;
  void open_block(const ShellCommand&);
  void begin_condition();
  void condition(const std::vector<ShellWord>&, bool inverted, ShellCommand::End);
  void branch(Block&, ShellTruth condition);
  void arm(const ShellCommand&);
  ShellTruth test(const std::vector<ShellWord>&);
  void one(const ShellCommand&);

  // Commands and functions: shell_functions.cpp.
  void follow(const Commands&);
  void command(const std::vector<ShellWord>&, const std::string& why);
  void declare(std::string_view how, const std::vector<ShellWord>&, const std::string& why);
  void note_set(const ShellWord&);
  [[nodiscard]] int opened(const ShellCommand&) const;
  std::size_t define(const Commands&, std::size_t at);
  void call(const std::string& name, ShellValues::Arguments, bool keeps_variables);
  void follow_rest(bool named);  ///< `named`: those that some command names
  [[nodiscard]] bool says_flags() const;
  std::optional<ShellText> printed(std::size_t begin, std::size_t end);
  void print(std::string_view name, const std::vector<ShellText>&);

  const std::string& text_;
  ShellValues& values_;
  ShellScript out_;
  std::vector<Block> blocks_;
  ShellCommand::End join_ = ShellCommand::End::both;
  ShellTruth guard_ = ShellTruth::yes;
  std::map<std::string, Function, std::less<>> functions_;
  Printing* printing_ = nullptr;  ///< in $(...)
  int depth_ = 0;
  std::size_t steps_ = 0;  ///< commands in functions
  std::size_t line_ = 0;   ///< of the last command behind an open condition
  bool silent_ = false;    ///< the command's output goes elsewhere
  bool returned_ = false;
};

}  // namespace orrery
