#include "framework/launch/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace orrery {
namespace {

enum class Truth : std::uint8_t { no, yes, open };

Truth negated(Truth t) { return t == Truth::open ? t : t == Truth::yes ? Truth::no : Truth::yes; }
Truth of(bool b) { return b ? Truth::yes : Truth::no; }
Truth both(Truth a, Truth b) {
  if (a == Truth::no || b == Truth::no) return Truth::no;
  return a == Truth::open || b == Truth::open ? Truth::open : Truth::yes;
}
Truth either(Truth a, Truth b) { return negated(both(negated(a), negated(b))); }

/// Whether a text is of a pattern with *, as `case` and [[ have them.
bool matches(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && (pattern[p] == text[t] || pattern[p] == '?')) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

class Follower {
 public:
  Follower(const std::string& text, ShellValues& values) : text_(text), values_(values) {}

  ShellScript all() {
    for (const ShellCommand& c : shell_commands(text_)) {
      if (values_.is_full()) break;
      one(c);
    }
    return std::move(out_);
  }

 private:
  /// An `if`, a loop or a `case` that is open.
  struct Block {
    Truth taken = Truth::yes;      ///< the branch that is read now
    Truth before = Truth::no;      ///< whether an earlier branch was taken
    Truth condition = Truth::yes;  ///< so far
    bool in_condition = false;
    std::optional<ShellText> subject;  ///< of a case
    std::size_t line = 0;
  };

  [[nodiscard]] std::string_view raw(const ShellWord& w) const {
    return std::string_view(text_).substr(w.begin, w.end - w.begin);
  }
  [[nodiscard]] Truth taken() const {
    Truth out = Truth::yes;
    for (const Block& b : blocks_) out = both(out, b.in_condition ? Truth::yes : b.taken);
    return out;
  }
  [[nodiscard]] std::string reason() const {
    for (const Block& b : blocks_) {
      if (!b.in_condition && b.taken == Truth::open) return fmt::format(" (a condition in line {} decides it)", b.line);
    }
    return {};
  }
  void open_block(const ShellCommand& c) {
    Block b;
    const auto newlines = std::count(text_.begin(), text_.begin() + c.words.front().begin, '\n');
    b.line = static_cast<std::size_t>(newlines) + 1;
    if (blocks_.size() < 1000) blocks_.push_back(b);
  }
  void branch(Block& b, Truth condition) {
    b.taken = both(negated(b.before), condition);
    b.before = either(b.before, condition);
    b.in_condition = false;
  }

  void one(const ShellCommand& c) {
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
        branch(blocks_.back(), Truth::yes);
      } else if (w == "while" || w == "until") {
        open_block(c);
        begin_condition();
        blocks_.back().condition = Truth::yes;
      } else if (w == "do" && !blocks_.empty()) {
        blocks_.back().in_condition = false;
      } else if (w == "fi" || w == "done" || w == "esac") {
        if (!blocks_.empty()) blocks_.pop_back();
      } else if (w == "!") {
        inverted = !inverted;
      } else if (w == "for" || w == "select") {
        if (taken() != Truth::no && k + 1 < c.words.size())
          values_.set_unknown(std::string(raw(c.words[k + 1])), " (a loop sets it)");
        open_block(c);
        return;
      } else if (w == "case") {
        open_block(c);
        blocks_.back().subject = k + 1 < c.words.size() ? joined(c.words[k + 1]) : ShellText{};
        blocks_.back().taken = Truth::no;
        return;
      } else if (w != "{" && w != "}" && w != "time" && w != "function") {
        break;
      }
    }
    const std::vector<ShellWord> rest(c.words.begin() + static_cast<std::ptrdiff_t>(k), c.words.end());
    if (rest.empty()) return;
    if (!blocks_.empty() && blocks_.back().in_condition) {
      condition(rest, inverted, c.end);
    } else if (taken() != Truth::no) {
      // What && and || make depend on a test is open unless the test is known.
      if (guard_ == Truth::yes)
        command(rest, reason());
      else if (guard_ == Truth::open)
        command(rest, " (a condition decides it)");
      const std::string_view first = raw(rest.front());
      const Truth tested = first == "[" || first == "[[" || first == "test" ? test(rest) : Truth::open;
      using End = ShellCommand::End;
      if (c.end == End::both && tested != Truth::open)
        guard_ = tested;
      else if (c.end == End::either)
        guard_ = tested == Truth::open ? Truth::yes : negated(tested);
      else if (c.end == End::both)
        guard_ = first == "[" || first == "[[" ? Truth::open : Truth::yes;
      else
        guard_ = Truth::yes;
    }
  }

  void begin_condition() {
    Block& b = blocks_.back();
    b.in_condition = true;
    b.condition = Truth::yes;
    join_ = ShellCommand::End::both;
  }

  void condition(const std::vector<ShellWord>& words, bool inverted, ShellCommand::End end) {
    Block& b = blocks_.back();
    const Truth t = inverted ? negated(test(words)) : test(words);
    b.condition = join_ == ShellCommand::End::either ? either(b.condition, t) : both(b.condition, t);
    join_ = end;
  }

  void arm(const ShellCommand& c) {
    if (blocks_.empty() || !blocks_.back().subject) return;
    Block& b = blocks_.back();
    Truth hit = Truth::no;
    for (const ShellWord& w : c.words) {
      const ShellText pattern = joined(w);
      if (pattern.chars == "*")
        hit = Truth::yes;
      else if (!pattern.is_known() || !b.subject->is_known())
        hit = either(hit, Truth::open);
      else
        hit = either(hit, of(matches(b.subject->chars, pattern.chars)));
    }
    branch(b, hit);
  }

  [[nodiscard]] ShellText joined(const ShellWord& w) {
    ShellText out;
    for (const ShellText& t : values_.expand(w)) out.add(t);
    return out;
  }

  Truth test(const std::vector<ShellWord>& words) {
    const std::string_view first = raw(words.front());
    if (first == "true") return Truth::yes;
    if (first == "false") return Truth::no;
    if (first != "[" && first != "[[" && first != "test") return Truth::open;
    std::vector<ShellText> parts;
    Truth out = Truth::no;
    Truth all = Truth::yes;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string_view w = raw(words[i]);
      if (w == "]" || w == "]]") break;
      if (w == "&&" || w == "-a" || w == "||" || w == "-o") {
        all = both(all, comparison(parts));
        parts.clear();
        if (w == "||" || w == "-o") {
          out = either(out, all);
          all = Truth::yes;
        }
        continue;
      }
      // Braces that hold a word with nothing in them are an empty word in [[.
      parts.push_back(joined(words[i]));
    }
    return either(out, both(all, comparison(parts)));
  }

  static Truth comparison(std::vector<ShellText> p) {
    if (!p.empty() && p.front().chars == "!") {
      p.erase(p.begin());
      return negated(comparison(std::move(p)));
    }
    const bool known = std::all_of(p.begin(), p.end(), [](const ShellText& t) { return t.is_known(); });
    if (!known) return Truth::open;
    if (p.size() == 1) return of(!p[0].chars.empty());
    if (p.size() == 2 && p[0].chars == "-z") return of(p[1].chars.empty());
    if (p.size() == 2 && p[0].chars == "-n") return of(!p[1].chars.empty());
    if (p.size() != 3) return Truth::open;
    const std::string& op = p[1].chars;
    if (op == "=" || op == "==") return of(matches(p[0].chars, p[2].chars));
    if (op == "!=") return of(!matches(p[0].chars, p[2].chars));
    const auto a = shell_arithmetic(p[0].chars), b = shell_arithmetic(p[2].chars);
    if (!a || !b) return Truth::open;
    if (op == "-eq") return of(*a == *b);
    if (op == "-ne") return of(*a != *b);
    if (op == "-gt" || op == ">") return of(*a > *b);
    if (op == "-ge") return of(*a >= *b);
    if (op == "-lt" || op == "<") return of(*a < *b);
    if (op == "-le") return of(*a <= *b);
    return Truth::open;
  }

  void note_set(const ShellWord& w) {
    const std::string_view t = raw(w);
    std::string name(t.substr(0, t.find_first_of("+=")));
    if (std::find(out_.set.begin(), out_.set.end(), name) == out_.set.end()) out_.set.push_back(std::move(name));
  }

  void command(const std::vector<ShellWord>& words, const std::string& why) {
    std::size_t k = 0;
    while (k < words.size() && values_.assign(words[k], why)) note_set(words[k++]);
    if (k == words.size()) return;
    const std::string_view first = raw(words[k]);
    static constexpr std::array<std::string_view, 5> declaring{"export", "declare", "local", "readonly", "typeset"};
    if (std::find(declaring.begin(), declaring.end(), first) != declaring.end()) {
      for (++k; k < words.size(); ++k) {
        if (values_.assign(words[k], why)) note_set(words[k]);
      }
      return;
    }
    ShellScript::Call call;
    for (; k < words.size(); ++k) {
      for (ShellText& t : values_.expand(words[k])) call.words.push_back(std::move(t));
    }
    if (!call.words.empty()) out_.calls.push_back(std::move(call));
  }

  const std::string& text_;
  ShellValues& values_;
  ShellScript out_;
  std::vector<Block> blocks_;
  ShellCommand::End join_ = ShellCommand::End::both;
  Truth guard_ = Truth::yes;
};

}  // namespace

ShellScript follow_script(const std::string& text, ShellValues& values) { return Follower(text, values).all(); }

}  // namespace orrery
