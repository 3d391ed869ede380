#include "framework/launch/shell_values.hpp"

#include <algorithm>
#include <cctype>
#include "framework/launch/launch_value.hpp"

namespace orrery {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_first(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
constexpr int deepest = 16;  // Defaults within defaults nest two or three deep.

/// Whether nothing but blanks stands before `i` in its line.
bool begins_line(const std::string& text, std::size_t i) {
  while (i > 0 && (text[i - 1] == ' ' || text[i - 1] == '\t')) --i;
  return i == 0 || text[i - 1] == '\n';
}

/// Past the bracket that matches the one before `i`.
std::size_t past(const std::string& text, std::size_t i, std::size_t end, char open, char shut) {
  int depth = 1;
  for (; i < end; ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '\'' && open == '(') {
      i = std::min(text.find('\'', i + 1), end);
    } else if (text[i] == open) {
      ++depth;
    } else if (text[i] == shut && --depth == 0) {
      return i + 1;
    }
  }
  return end;
}

}  // namespace

ShellText ShellValues::unknown(const std::string& name) {
  ShellText out;
  out.add(ShellText::unknown, static_cast<std::uint32_t>(unknown_.size()));
  unknown_.push_back(name);
  return out;
}

const std::string& ShellValues::unknown_in(const ShellText& t) const {
  return unknown_[t.at[t.chars.find(ShellText::unknown)]];
}

void ShellValues::set_unknown(const std::string& name, const std::string& why) {
  if (given_.contains(name)) return;
  variables_[name] = {{unknown(name + why)}, false};
}

ShellValues::Part ShellValues::variable(const std::string& name, bool all) {
  if (const auto given = given_.find(name); given != given_.end()) {
    ShellText t;
    for (const char c : given->second) t.add(c, ShellText::nowhere);
    return {t, {}, false};
  }
  if (const auto own = argument(name)) return *own;
  const auto at = variables_.find(target(name));
  if (at == variables_.end()) return {unknown(name), {}, false};
  Part out;
  out.array = at->second.array && all;
  if (out.array)
    out.items = at->second.items;
  else if (!at->second.items.empty())
    out.text = at->second.items.front();
  return out;
}

ShellText ShellValues::value(const std::string& name) { return variable(name, false).text; }

std::vector<ShellText> ShellValues::words(const std::string& name) {
  const Part part = variable(name, true);
  return part.array ? part.items : split(part.text);
}

ShellText ShellValues::inner(std::size_t begin, std::size_t end, int depth) {
  std::vector<ShellText> words;
  expand_into(begin, end, false, depth, words);
  ShellText out;
  for (const ShellText& w : words) {
    if (!out.chars.empty()) out.add(' ', w.at.empty() ? 0 : w.at.front());
    out.add(w);
  }
  return out;
}

/// What stands between ${ and }.
ShellValues::Part ShellValues::braces(std::size_t begin, std::size_t end, int depth) {
  std::size_t i = begin;
  while (i < end && is_name_letter(text_[i])) ++i;
  if (i == begin && i < end) ++i;  // ${@}, ${#NAME}, ${!NAME}
  const std::string name = text_.substr(begin, i - begin);
  if (name == "@" || name == "*") {
    const auto first = i < end && text_[i] == ':' ? shell_arithmetic(text_.substr(i + 1, end - i - 1)) : 1;
    return first && *first >= 0 ? arguments_from(static_cast<std::size_t>(*first)) : Part{unknown("${@}"), {}, false};
  }
  bool all = false;
  if (i < end && text_[i] == '[') {
    const std::size_t shut = std::min(text_.find(']', i), end);
    const std::string index = text_.substr(i + 1, shut - i - 1);
    i = std::min(shut + 1, end);
    all = index == "@" || index == "*";
    if (!all) {
      const auto at = variables_.find(target(name));
      const auto number = shell_arithmetic(index);
      if (at == variables_.end() || !number || *number < 0 ||
          static_cast<std::size_t>(*number) >= at->second.items.size()) {
        return {unknown(name + "[" + index + "]"), {}, false};
      }
      return {at->second.items[static_cast<std::size_t>(*number)], {}, false};
    }
  }
  if (i >= end)
    return (!name.empty() && is_first(name.front())) || has(name) ? variable(name, all)
                                                                  : Part{unknown(name), {}, false};
  const bool colon = text_[i] == ':' && i + 1 < end;
  const char sign = text_[colon ? i + 1 : i];
  const std::size_t rest = i + (colon ? 2 : 1);
  const bool set = has(name);
  const Part own = set ? variable(name, all) : Part{};
  const bool filled = set && (!colon || own.array || !own.text.chars.empty());
  if (sign == '-' || sign == '=') {
    if (filled) return own;
    Part out{inner(rest, end, depth - 1), {}, false};
    if (sign == '=') variables_[target(name)] = {{out.text}, false};
    return out;
  }
  if (sign == '?') return set ? own : Part{unknown(name), {}, false};
  if (sign == '+') return filled ? Part{inner(rest, end, depth - 1), {}, false} : Part{};
  return {unknown(name), {}, false};  // parts and replacements
}

ShellText ShellValues::arithmetic(std::size_t begin, std::size_t end, int depth) {
  std::string expression;
  std::size_t i = begin;
  while (i < end) {
    const char c = text_[i];
    ShellText value;
    if (c == '$') {
      value = substitution(i, end, depth - 1).text;
    } else if (is_first(c)) {
      const std::size_t from = i;
      while (i < end && is_name_letter(text_[i])) ++i;
      value = this->value(text_.substr(from, i - from));
    } else {
      if (c != '"') expression += c;
      ++i;
      continue;
    }
    if (!value.is_known()) return value;
    expression += "(" + value.chars + ")";
  }
  const auto number = shell_arithmetic(expression);
  if (!number) return unknown("$((" + text_.substr(begin, std::min<std::size_t>(end - begin, 40)) + "))");
  ShellText out;
  for (const char digit : std::to_string(*number)) out.add(digit, static_cast<std::uint32_t>(begin));
  return out;
}

/// A `$` and what belongs to it; `i` is moved behind it.
ShellValues::Part ShellValues::substitution(std::size_t& i, std::size_t end, int depth) {
  const std::size_t begin = i++;
  if (depth <= 0 || i >= end) {
    i = end;
    return {unknown("$"), {}, false};
  }
  if (text_[i] == '{') {
    const std::size_t from = ++i;
    i = past(text_, i, end, '{', '}');
    return braces(from, i > from && text_[i - 1] == '}' ? i - 1 : i, depth - 1);
  }
  if (text_[i] == '(') {
    const std::size_t from = ++i;
    i = past(text_, i, end, '(', ')');
    if (text_[from] == '(' && i - from >= 3) return {arithmetic(from + 1, i - 2, depth - 1), {}, false};
    if (const auto text = printed_ && i > from ? printed_(from, i - 1) : std::nullopt) return {*text, {}, false};
    return {unknown(text_.substr(begin, std::min<std::size_t>(i - begin, 60))), {}, false};
  }
  if (is_first(text_[i])) {
    const std::size_t from = i;
    while (i < end && is_name_letter(text_[i])) ++i;
    return variable(text_.substr(from, i - from), false);
  }
  const char c = text_[i++];
  if (c == '@' || c == '*') return arguments_from(1);
  if (c == '"' || c == '\'') {
    --i;
    return {};
  }
  return variable(std::string(1, c), false);
}

void ShellValues::expand_into(std::size_t begin, std::size_t end, bool split, int depth, std::vector<ShellText>& out) {
  ShellText word;
  bool there = false;  // Quotes make a word even where nothing is in them.
  const auto close = [&] {
    if (there || !word.chars.empty()) out.push_back(std::move(word));
    word = {};
    there = false;
  };
  const auto take = [&](const Part& part, bool quoted) {
    size_ += part.text.chars.size();
    for (const ShellText& t : part.items) size_ += t.chars.size() + 1;
    if (is_full()) return;
    if (part.array) {
      if (part.items.empty() && word.chars.empty()) there = false;  // "$@" of nothing is no word
      for (std::size_t k = 0; k < part.items.size(); ++k) {
        if (k > 0) close();
        const ShellText& item = part.items[k];
        for (std::size_t c = 0; c < item.chars.size(); ++c) {
          if (split && !quoted && is_blank(item.chars[c]))
            close();
          else
            word.add(item.chars[c], item.at[c]);
        }
        there = there || quoted;
      }
      return;
    }
    for (std::size_t k = 0; k < part.text.chars.size(); ++k) {
      if (split && !quoted && is_blank(part.text.chars[k]))
        close();
      else
        word.add(part.text.chars[k], part.text.at[k]);
    }
  };
  bool quoted = false;
  std::size_t i = begin;
  while (i < end && !is_full()) {
    const char c = text_[i];
    if (c == '\\') {
      std::size_t k = i + 1;
      while (k < end && (text_[k] == ' ' || text_[k] == '\t' || text_[k] == '\r')) ++k;
      if (k < end && text_[k] == '\n') {  // a continuation
        if (quoted) word.add(' ', static_cast<std::uint32_t>(i));
        i = k + 1;
      } else if (i + 1 < end) {
        if (quoted && text_[i + 1] != '"' && text_[i + 1] != '\\' && text_[i + 1] != '$' && text_[i + 1] != '`')
          word.add(c, static_cast<std::uint32_t>(i));
        word.add(text_[i + 1], static_cast<std::uint32_t>(i + 1));
        i += 2;
      } else {
        ++i;
      }
    } else if (c == '"') {
      quoted = !quoted;
      there = there || quoted;
      ++i;
    } else if (c == '\'' && !quoted) {
      const std::size_t stop = std::min(text_.find('\'', i + 1), end);
      for (std::size_t k = i + 1; k < stop; ++k) word.add(text_[k], static_cast<std::uint32_t>(k));
      there = true;
      i = stop + 1;
    } else if (c == '#' && quoted && begins_line(text_, i)) {  // a comment within quotes, as its writer means it
      i = std::min(text_.find('\n', i), end);
    } else if (c == '$') {
      take(substitution(i, end, depth), quoted || !split);
    } else if (c == '`') {
      const std::size_t stop = std::min(text_.find('`', i + 1), end);
      take({unknown(text_.substr(i, std::min<std::size_t>(stop - i + 1, 60))), {}, false}, true);
      i = stop + 1;
    } else {
      word.add(c, static_cast<std::uint32_t>(i));
      ++i;
    }
  }
  close();
}

std::vector<ShellText> ShellValues::expand(ShellWord w) {
  std::vector<ShellText> out;
  expand_into(w.begin, w.end, true, deepest, out);
  return out;
}

bool ShellValues::assign(ShellWord w, const std::string& why) {
  std::size_t i = w.begin;
  while (i < w.end && is_name_letter(text_[i])) ++i;
  if (i == w.begin || !is_first(text_[w.begin])) return false;
  const std::string name = target(text_.substr(w.begin, i - w.begin));
  const bool more = i < w.end && text_[i] == '+';
  if (more) ++i;
  if (i >= w.end || text_[i] != '=') return false;
  ++i;
  if (!why.empty()) {
    set_unknown(name, why);
    return true;
  }
  Variable value;
  if (i < w.end && text_[i] == '(') {
    value.array = true;
    const std::size_t shut = text_[w.end - 1] == ')' ? w.end - 1 : w.end;
    for (const ShellWord& item :
         shell_words(text_, static_cast<std::uint32_t>(i + 1), static_cast<std::uint32_t>(shut)))
      for (ShellText& t : expand(item)) value.items.push_back(std::move(t));
  } else {
    std::vector<ShellText> items;
    expand_into(i, w.end, false, deepest, items);
    value.items.emplace_back();
    for (const ShellText& t : items) {
      if (!value.items.front().chars.empty()) value.items.front().add(' ', static_cast<std::uint32_t>(i));
      value.items.front().add(t);
    }
  }
  if (!more || !variables_.contains(name)) {
    variables_[name] = std::move(value);
    return true;
  }
  Variable& own = variables_[name];
  if (value.array) {
    own.array = true;
    own.items.insert(own.items.end(), value.items.begin(), value.items.end());
  } else {
    if (own.items.empty()) own.items.emplace_back();
    own.items.front().add(value.items.front());
  }
  for (const ShellText& t : own.items) size_ += t.chars.size();
  return true;
}

std::vector<ShellText> ShellValues::split(const ShellText& t) {
  std::vector<ShellText> out;
  ShellText word;
  char quote = '\0';
  for (std::size_t i = 0; i < t.chars.size(); ++i) {
    const char c = t.chars[i];
    if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && is_blank(c)) {
      if (!word.chars.empty()) out.push_back(std::move(word));
      word = {};
    } else {
      word.add(c, t.at[i]);
    }
  }
  if (!word.chars.empty()) out.push_back(std::move(word));
  return out;
}

}  // namespace orrery
