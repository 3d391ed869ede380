#include <algorithm>
#include <cctype>

#include "framework/launch/launch_value.hpp"
#include "framework/launch/shell_values.hpp"

// Arguments and local variables of a script's functions.

namespace orrery {
namespace {

/// Whether a word is all that its function, or the script, was called with, or the end of it.
bool passes_all(std::string_view word) {
  return word.find("$@") != word.npos || word.find("$*") != word.npos || word.find("${@") != word.npos ||
         word.find("${*") != word.npos;
}

}  // namespace

bool ShellValues::has(std::string_view name) const {
  if (given_.contains(name)) return true;
  if (calls_.empty()) return variables_.contains(name);
  const bool number = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) != 0;
  if (!number) return variables_.contains(target(std::string(name)));
  const auto place = shell_arithmetic(name);
  return place && *place > 0 && static_cast<std::size_t>(*place) <= calls_.back().arguments.words.size();
}

std::optional<ShellValues::Part> ShellValues::argument(std::string_view name) const {
  if (calls_.empty() || name.empty()) return std::nullopt;
  const Arguments& own = calls_.back().arguments;
  if (name == "#" && !own.open) {
    Part out;
    for (const char c : std::to_string(own.words.size())) out.text.add(c, ShellText::nowhere);
    return out;
  }
  if (std::isdigit(static_cast<unsigned char>(name.front())) == 0) return std::nullopt;
  const auto place = shell_arithmetic(name);
  if (!place || *place < 1) return std::nullopt;
  if (static_cast<std::size_t>(*place) <= own.words.size())
    return Part{own.words[static_cast<std::size_t>(*place) - 1], {}, false};
  return own.open ? std::nullopt : std::optional(Part{});
}

ShellValues::Part ShellValues::arguments_from(std::size_t first) const {
  Part out;
  out.array = true;
  if (calls_.empty()) return out;
  const std::vector<ShellText>& words = calls_.back().arguments.words;
  for (std::size_t i = std::max<std::size_t>(first, 1) - 1; i < words.size(); ++i) out.items.push_back(words[i]);
  return out;
}

std::string ShellValues::target(const std::string& name) const {
  if (calls_.empty()) return name;
  const auto at = calls_.back().references.find(name);
  return at == calls_.back().references.end() ? name : at->second;
}

ShellValues::Arguments ShellValues::arguments(const std::vector<ShellWord>& words) {
  Arguments out;
  const bool open = calls_.empty() || calls_.back().arguments.open;
  for (const ShellWord& w : words) {
    out.open = out.open || (open && passes_all(std::string_view(text_).substr(w.begin, w.end - w.begin)));
    for (ShellText& t : expand(w)) out.words.push_back(std::move(t));
  }
  return out;
}

void ShellValues::enter(Arguments arguments, bool keeps_variables) {
  Call call;
  call.arguments = std::move(arguments);
  if (keeps_variables) {
    call.all_before = variables_;
    for (const auto& [name, v] : variables_) {
      size_ += name.size();
      for (const ShellText& t : v.items) size_ += t.chars.size();
    }
  }
  calls_.push_back(std::move(call));
}

void ShellValues::leave() {
  Call call = std::move(calls_.back());
  calls_.pop_back();
  if (call.all_before) {
    variables_ = std::move(*call.all_before);
    return;
  }
  for (auto& [name, value] : call.before) {
    if (value)
      variables_[name] = std::move(*value);
    else
      variables_.erase(name);
  }
}

void ShellValues::shift(std::size_t n) {
  if (calls_.empty()) return;
  std::vector<ShellText>& words = calls_.back().arguments.words;
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(std::min(n, words.size())));
}

void ShellValues::make_local(const std::string& name) {
  if (calls_.empty()) return;
  Call& call = calls_.back();
  const bool done = std::any_of(call.before.begin(), call.before.end(), [&](const auto& b) { return b.first == name; });
  if (done) return;
  const auto at = variables_.find(name);
  call.before.emplace_back(name, at == variables_.end() ? std::nullopt : std::optional(at->second));
}

void ShellValues::refer(const std::string& name, const std::string& other) {
  if (!calls_.empty() && name != other) calls_.back().references[name] = other;
}

}  // namespace orrery
