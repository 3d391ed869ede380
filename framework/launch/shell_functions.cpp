#include "framework/launch/shell_follower.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace orrery {

ShellFollower::ShellFollower(const std::string& text, ShellValues& values) : text_(text), values_(values) {
  values_.print_by([this](std::size_t begin, std::size_t end) { return printed(begin, end); });
}

ShellFollower::~ShellFollower() { values_.print_by({}); }

ShellScript ShellFollower::all() {
  follow(shell_commands(text_));
  // What a command names may be started by it; where nothing launches, whoever reads the script starts the rest.
  follow_rest(true);
  if (!says_flags()) follow_rest(false);
  return std::move(out_);
}

void ShellFollower::follow(const Commands& commands) {
  for (std::size_t i = 0; i < commands.size() && !returned_ && !out_.is_cut && !values_.is_full(); ++i) {
    if (depth_ > 0 && ++steps_ > most_steps) out_.is_cut = true;
    if (commands[i].end == ShellCommand::End::function)
      i = define(commands, i);
    else
      one(commands[i]);
  }
}

void ShellFollower::note_set(const ShellWord& w) {
  const std::string_view t = raw(w);
  std::string name(t.substr(0, t.find_first_of("+=")));
  if (std::find(out_.set.begin(), out_.set.end(), name) == out_.set.end()) out_.set.push_back(std::move(name));
}

void ShellFollower::command(const std::vector<ShellWord>& words, const std::string& why) {
  std::size_t k = 0;
  while (k < words.size() && values_.assign(words[k], why)) note_set(words[k++]);
  if (k == words.size()) return;
  const std::string_view first = raw(words[k]);
  constexpr std::array<std::string_view, 5> declaring{"export", "declare", "local", "readonly", "typeset"};
  if (std::find(declaring.begin(), declaring.end(), first) != declaring.end())
    return declare(first, {words.begin() + static_cast<std::ptrdiff_t>(k) + 1, words.end()}, why);
  const bool silent = silent_;
  ShellValues::Arguments all = values_.arguments({words.begin() + static_cast<std::ptrdiff_t>(k), words.end()});
  if (all.words.empty()) return;
  const std::string name = all.words.front().chars;
  if (name == "shift") {
    const auto n = all.words.size() > 1 ? shell_arithmetic(all.words[1].chars) : 1;
    if (n && *n > 0) values_.shift(static_cast<std::size_t>(*n));
  } else if (name == "return" && depth_ > 0) {
    returned_ = why.empty();
  } else if (functions_.contains(name)) {
    all.words.erase(all.words.begin());
    call(name, std::move(all), false);
  } else if (printing_ == nullptr) {
    out_.calls.push_back({std::move(all.words)});
  } else if (name == "echo" || name == "printf") {
    all.words.erase(all.words.begin());
    if (!why.empty()) printing_->opaque = true;
    if (!silent) print(name, all.words);
  } else {
    printing_->opaque = true;
  }
}

/// `export`, `local` and the like; the last makes variables that end with the call.
void ShellFollower::declare(std::string_view how, const std::vector<ShellWord>& words, const std::string& why) {
  bool own = depth_ > 0 && (how == "local" || how == "declare" || how == "typeset");
  bool reference = false;
  for (const ShellWord& w : words) {
    const std::string_view word = raw(w);
    if (word.starts_with("-")) {
      if (word.find('g') != word.npos) own = false;
      if (word.find('n') != word.npos && how != "export") reference = true;
      continue;
    }
    const std::size_t equal = word.find('=');
    if (own && reference && equal != word.npos) {
      values_.refer(std::string(word.substr(0, equal)),
                    joined({w.begin + static_cast<std::uint32_t>(equal) + 1, w.end}).chars);
      continue;
    }
    if (own) values_.make_local(std::string(word.substr(0, equal)));
    if (values_.assign(w, why) && !own) note_set(w);
  }
}

/// How many more braces a command opens than it closes.
int ShellFollower::opened(const ShellCommand& c) const {
  if (c.end == ShellCommand::End::pattern) return 0;
  int n = 0;
  for (const ShellWord& w : c.words) {
    constexpr std::array<std::string_view, 7> before{"then", "else", "do", "!", "time", "if", "while"};
    const std::string_view r = raw(w);
    if (r == "{")
      ++n;
    else if (r == "}")
      --n;
    else if (std::find(before.begin(), before.end(), r) == before.end())
      break;
  }
  return n;
}

/// Keeps the body of a function; the last of its commands.
std::size_t ShellFollower::define(const Commands& commands, std::size_t at) {
  if (at + 1 >= commands.size() || commands[at + 1].words.empty() || raw(commands[at + 1].words.front()) != "{")
    return at;  // a body without braces is followed where it stands
  Commands body;
  int depth = 0;
  std::size_t i = at + 1;
  for (; i < commands.size(); ++i) {
    depth += opened(commands[i]);
    if (depth <= 0) break;
    body.push_back(commands[i]);
  }
  if (body.empty()) return i;
  body.front().words.erase(body.front().words.begin());
  if (body.front().words.empty()) body.erase(body.begin());
  if (taken() != ShellTruth::no) {
    steps_ += body.size();
    functions_[std::string(raw(commands[at].words.front()))] = {std::make_shared<const Commands>(std::move(body)),
                                                                false};
  }
  return i;
}

void ShellFollower::call(const std::string& name, ShellValues::Arguments arguments, bool keeps_variables) {
  if (depth_ >= deepest) {
    if (printing_ != nullptr) printing_->opaque = true;
    return;
  }
  Function& f = functions_.at(name);
  f.followed = true;
  const auto body = f.body;  // it may define itself anew
  const std::size_t blocks = blocks_.size();
  const ShellTruth guard = std::exchange(guard_, ShellTruth::yes);
  if (guard == ShellTruth::open) {
    Block b;
    b.taken = guard;
    b.line = line_;
    blocks_.push_back(b);
  }
  values_.enter(std::move(arguments), keeps_variables);
  ++depth_;
  follow(*body);
  --depth_;
  values_.leave();
  if (blocks_.size() > blocks) blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(blocks), blocks_.end());
  guard_ = guard;
  returned_ = false;
}

/// Follows functions that nothing called yet, in the order of the script; who calls them knows their arguments.
void ShellFollower::follow_rest(bool named) {
  std::set<std::string, std::less<>> words;
  for (const ShellScript::Call& c : out_.calls) {
    if (!named) break;
    for (const ShellText& w : c.words) {
      for (const ShellText& part : ShellValues::split(w)) words.insert(part.chars);
    }
  }
  std::vector<std::pair<std::size_t, std::string>> rest;
  for (const auto& [name, f] : functions_) {
    if (!f.followed && (!named || words.contains(name)) && !f.body->empty() && !f.body->front().words.empty())
      rest.emplace_back(f.body->front().words.front().begin, name);
  }
  std::sort(rest.begin(), rest.end());
  blocks_.clear();
  for (const auto& [place, name] : rest) call(name, {{}, true}, false);
}

bool ShellFollower::says_flags() const {
  return std::any_of(out_.calls.begin(), out_.calls.end(), [](const ShellScript::Call& c) {
    return std::any_of(c.words.begin(), c.words.end(), [](const ShellText& t) { return t.chars.starts_with("--"); });
  });
}

/// What the commands of $(...) print: those of one function, or `echo`.
std::optional<ShellText> ShellFollower::printed(std::size_t begin, std::size_t end) {
  const std::vector<ShellCommand> commands = shell_commands(text_, begin, end);
  if (commands.size() != 1 || commands[0].words.empty() || depth_ >= deepest) return std::nullopt;
  const std::string name(raw(commands[0].words.front()));
  if (name != "echo" && name != "printf" && !functions_.contains(name)) return std::nullopt;
  Printing own;
  Printing* const outer = std::exchange(printing_, &own);
  const bool returned = std::exchange(returned_, false);
  const std::vector<ShellWord> rest(commands[0].words.begin() + 1, commands[0].words.end());
  ShellValues::Arguments arguments = values_.arguments(rest);
  ++depth_;
  if (functions_.contains(name))
    call(name, std::move(arguments), true);
  else
    print(name, arguments.words);
  --depth_;
  returned_ = returned;
  printing_ = outer;
  if (own.opaque || commands[0].redirected) return std::nullopt;
  while (!own.text.chars.empty() && own.text.chars.back() == '\n') {
    own.text.chars.pop_back();
    own.text.at.pop_back();
  }
  return own.text;
}

/// Takes what `echo` and plain forms of `printf` print.
void ShellFollower::print(std::string_view name, const std::vector<ShellText>& words) {
  std::size_t first = 0;
  bool ends = true;
  if (name == "printf") {
    constexpr std::array<std::string_view, 3> plain{"%s", "%s\\n", "%s "};
    if (words.empty() || std::find(plain.begin(), plain.end(), words[0].chars) == plain.end()) {
      printing_->opaque = true;
      return;
    }
    ends = words[0].chars == plain[1];
    first = 1;
  } else if (!words.empty() && (words[0].chars == "-n" || words[0].chars == "-e")) {
    ends = words[0].chars != "-n";
    first = 1;
  }
  for (std::size_t i = first; i < words.size(); ++i) {
    if (i > first) printing_->text.add(' ', ShellText::nowhere);
    printing_->text.add(words[i]);
  }
  if (ends) printing_->text.add('\n', ShellText::nowhere);
}

}  // namespace orrery
