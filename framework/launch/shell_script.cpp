#include "framework/launch/shell_follower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace orrery {

std::size_t ShellFollower::line_of(const ShellCommand& c) const {
  return static_cast<std::size_t>(std::count(text_.begin(), text_.begin() + c.words.front().begin, '\n')) + 1;
}

ShellText ShellFollower::joined(const ShellWord& w) {
  ShellText out;
  for (const ShellText& t : values_.expand(w)) out.add(t);
  return out;
}

ShellTruth ShellFollower::taken() const {
  ShellTruth out = ShellTruth::yes;
  for (const Block& b : blocks_) out = both(out, b.in_condition ? ShellTruth::yes : b.taken);
  return out;
}

std::string ShellFollower::reason() const {
  for (const Block& b : blocks_) {
    if (!b.in_condition && b.taken == ShellTruth::open)
      return fmt::format(" (a condition in line {} decides it)", b.line);
  }
  return {};
}

void ShellFollower::open_block(const ShellCommand& c) {
  Block b;
  b.line = line_of(c);
  if (blocks_.size() < 1000) blocks_.push_back(b);
}

void ShellFollower::begin_condition() {
  Block& b = blocks_.back();
  b.in_condition = true;
  b.condition = ShellTruth::yes;
  join_ = ShellCommand::End::both;
}

void ShellFollower::condition(const std::vector<ShellWord>& words, bool inverted, ShellCommand::End end) {
  Block& b = blocks_.back();
  const ShellTruth t = inverted ? negated(test(words)) : test(words);
  b.condition = join_ == ShellCommand::End::either ? either(b.condition, t) : both(b.condition, t);
  join_ = end;
}

void ShellFollower::branch(Block& b, ShellTruth condition) {
  b.taken = both(negated(b.before), condition);
  b.before = either(b.before, condition);
  b.in_condition = false;
}

void ShellFollower::arm(const ShellCommand& c) {
  if (blocks_.empty() || !blocks_.back().subject) return;
  Block& b = blocks_.back();
  ShellTruth hit = ShellTruth::no;
  for (const ShellWord& w : c.words) {
    const ShellText pattern = joined(w);
    if (pattern.chars == "*")
      hit = ShellTruth::yes;
    else if (!pattern.is_known() || !b.subject->is_known())
      hit = either(hit, ShellTruth::open);
    else
      hit = either(hit, shell_truth(matches_shell_pattern(b.subject->chars, pattern.chars)));
  }
  branch(b, hit);
}

ShellTruth ShellFollower::test(const std::vector<ShellWord>& words) {
  const std::string_view first = raw(words.front());
  if (first == "true") return ShellTruth::yes;
  if (first == "false") return ShellTruth::no;
  if (first != "[" && first != "[[" && first != "test") return ShellTruth::open;
  std::vector<ShellText> parts;
  ShellTruth out = ShellTruth::no;
  ShellTruth all = ShellTruth::yes;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view w = raw(words[i]);
    if (w == "]" || w == "]]") break;
    if (w == "&&" || w == "-a" || w == "||" || w == "-o") {
      all = both(all, shell_comparison(parts));
      parts.clear();
      if (w == "||" || w == "-o") {
        out = either(out, all);
        all = ShellTruth::yes;
      }
      continue;
    }
    // Braces that hold a word with nothing in them are an empty word in [[.
    parts.push_back(joined(words[i]));
  }
  return either(out, both(all, shell_comparison(parts)));
}

void ShellFollower::one(const ShellCommand& c) {
  if (c.end == ShellCommand::End::pattern) return arm(c);
  std::size_t k = 0;
  bool inverted = false;
  for (; k < c.words.size(); ++k) {
    const std::string_view w = raw(c.words[k]);
    if (w == "if") {
      open_block(c);
      begin_condition();
    } else if (w == "elif" && !blocks_.empty()) {
      begin_condition();
    } else if (w == "then" && !blocks_.empty()) {
      branch(blocks_.back(), blocks_.back().condition);
    } else if (w == "else" && !blocks_.empty()) {
      branch(blocks_.back(), ShellTruth::yes);
    } else if (w == "while" || w == "until") {
      open_block(c);
      begin_condition();
      blocks_.back().condition = ShellTruth::yes;
    } else if (w == "do" && !blocks_.empty()) {
      blocks_.back().in_condition = false;
    } else if (w == "fi" || w == "done" || w == "esac") {
      if (!blocks_.empty()) blocks_.pop_back();
    } else if (w == "!") {
      inverted = !inverted;
    } else if (w == "for" || w == "select") {
      if (taken() != ShellTruth::no && k + 1 < c.words.size())
        values_.set_unknown(std::string(raw(c.words[k + 1])), " (a loop sets it)");
      open_block(c);
      return;
    } else if (w == "case") {
      open_block(c);
      blocks_.back().subject = k + 1 < c.words.size() ? joined(c.words[k + 1]) : ShellText{};
      blocks_.back().taken = ShellTruth::no;
      return;
    } else if (w != "{" && w != "}" && w != "time" && w != "function") {
      break;
    }
  }
  const std::vector<ShellWord> rest(c.words.begin() + static_cast<std::ptrdiff_t>(k), c.words.end());
  if (rest.empty()) return;
  if (!blocks_.empty() && blocks_.back().in_condition) {
    condition(rest, inverted, c.end);
  } else if (taken() != ShellTruth::no) {
    if (printing_ != nullptr && c.end == ShellCommand::End::pipe) printing_->opaque = true;
    if (guard_ == ShellTruth::open) line_ = line_of(c);
    silent_ = c.redirected;
    // What && and || make depend on a test is open unless the test is known.
    if (guard_ == ShellTruth::yes)
      command(rest, reason());
    else if (guard_ == ShellTruth::open)
      command(rest, " (a condition decides it)");
    const std::string_view first = raw(rest.front());
    const ShellTruth tested = first == "[" || first == "[[" || first == "test" ? test(rest) : ShellTruth::open;
    using End = ShellCommand::End;
    if (c.end == End::both && tested != ShellTruth::open)
      guard_ = tested;
    else if (c.end == End::either)
      guard_ = tested == ShellTruth::open ? ShellTruth::yes : negated(tested);
    else if (c.end == End::both)
      guard_ = first == "[" || first == "[[" ? ShellTruth::open : ShellTruth::yes;
    else
      guard_ = ShellTruth::yes;
  }
}

ShellScript follow_script(const std::string& text, ShellValues& values) { return ShellFollower(text, values).all(); }

}  // namespace orrery
