#include "framework/launch/shell_conditions.hpp"

#include <algorithm>

namespace orrery {

ShellTruth shell_truth(bool b) { return b ? ShellTruth::yes : ShellTruth::no; }

ShellTruth negated(ShellTruth t) {
  return t == ShellTruth::open ? t : t == ShellTruth::yes ? ShellTruth::no : ShellTruth::yes;
}

ShellTruth both(ShellTruth a, ShellTruth b) {
  if (a == ShellTruth::no || b == ShellTruth::no) return ShellTruth::no;
  return a == ShellTruth::open || b == ShellTruth::open ? ShellTruth::open : ShellTruth::yes;
}

ShellTruth either(ShellTruth a, ShellTruth b) { return negated(both(negated(a), negated(b))); }

bool matches_shell_pattern(std::string_view text, std::string_view pattern) {
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

ShellTruth shell_comparison(std::vector<ShellText> p) {
  if (!p.empty() && p.front().chars == "!") {
    p.erase(p.begin());
    return negated(shell_comparison(std::move(p)));
  }
  const bool known = std::all_of(p.begin(), p.end(), [](const ShellText& t) { return t.is_known(); });
  if (!known) return ShellTruth::open;
  if (p.size() == 1) return shell_truth(!p[0].chars.empty());
  if (p.size() == 2 && p[0].chars == "-z") return shell_truth(p[1].chars.empty());
  if (p.size() == 2 && p[0].chars == "-n") return shell_truth(!p[1].chars.empty());
  if (p.size() != 3) return ShellTruth::open;
  const std::string& op = p[1].chars;
  if (op == "=" || op == "==") return shell_truth(matches_shell_pattern(p[0].chars, p[2].chars));
  if (op == "!=") return shell_truth(!matches_shell_pattern(p[0].chars, p[2].chars));
  const auto a = shell_arithmetic(p[0].chars), b = shell_arithmetic(p[2].chars);
  if (!a || !b) return ShellTruth::open;
  if (op == "-eq") return shell_truth(*a == *b);
  if (op == "-ne") return shell_truth(*a != *b);
  if (op == "-gt" || op == ">") return shell_truth(*a > *b);
  if (op == "-ge") return shell_truth(*a >= *b);
  if (op == "-lt" || op == "<") return shell_truth(*a < *b);
  if (op == "-le") return shell_truth(*a <= *b);
  return ShellTruth::open;
}

}  // namespace orrery
