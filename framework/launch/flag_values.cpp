#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "framework/launch/launch_value.hpp"
#include "framework/launch/launcher.hpp"
#include "framework/launch/shell_script.hpp"

// The flags of a script's launch.

namespace orrery {
namespace {

using Words = std::vector<ShellText>;

bool is_flag(const ShellText& t) {
  const std::string& s = t.chars;
  if (s.size() < 2 || s[0] != '-') return false;
  const char first = s[1] == '-' && s.size() > 2 ? s[2] : s[1];
  return std::isalpha(static_cast<unsigned char>(first)) != 0;
}

/// "a.b=c", with the signs that Hydra has in front: the length of its key; 0 where it is none.
std::size_t override_key(const std::string& s) {
  std::size_t i = 0;
  while (i < s.size() && (s[i] == '+' || s[i] == '~')) ++i;
  bool dotted = false;
  const std::size_t begin = i;
  for (; i < s.size() && s[i] != '='; ++i) {
    if (s[i] == '.')
      dotted = true;
    else if (!is_name_letter(s[i]))
      return 0;
  }
  return dotted && i < s.size() && i > begin ? i : 0;
}

/// "mixed_precision=c": the length of its key where it is in small letters, as those of variables are not.
std::size_t plain_key(const std::string& s) {
  std::size_t i = 0;
  while (i < s.size() && ((s[i] >= 'a' && s[i] <= 'z') || s[i] == '_')) ++i;
  return i < s.size() && s[i] == '=' ? i : 0;
}

std::string_view base(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_said(const ShellText& t) { return is_flag(t) || override_key(t.chars) > 0; }

/// The texts that `eval`, `bash -c` and srun's command lines run are commands too.
Words opened(const Words& words) {
  Words out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool shell = i + 1 < words.size() && (words[i].chars == "-c" || words[i].chars == "-lc") && i > 0 &&
                       (base(words[i - 1].chars) == "bash" || base(words[i - 1].chars) == "sh");
    if (words[i].chars == "eval") {
      for (++i; i < words.size(); ++i)
        for (ShellText& t : ShellValues::split(words[i])) out.push_back(std::move(t));
    } else if (shell) {
      for (ShellText& t : ShellValues::split(words[++i])) out.push_back(std::move(t));
    } else if (words[i].chars.find_first_of(" \n") != std::string::npos && words[i].chars.starts_with("torchrun")) {
      for (ShellText& t : ShellValues::split(words[i])) out.push_back(std::move(t));
    } else {
      out.push_back(words[i]);
    }
  }
  return out;
}

/// Commands that only show or keep what they are told.
bool is_silent(std::string_view name) {
  static constexpr std::array<std::string_view, 12> silent{"echo", "printf", "mkdir",  "ls",  "pip", "apt-get",
                                                           "rm",   "cp",     "docker", "cat", "set", "sbatch"};
  return std::find(silent.begin(), silent.end(), name) != silent.end();
}

class Flags {
 public:
  Flags(LaunchFile& file, const std::map<std::string, std::string, std::less<>>& variables, Diagnostics& d)
      : file_(file), values_(file.origin.text, variables), d_(d) {
    lines_.push_back(0);
    const std::string& text = file.origin.text;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') lines_.push_back(static_cast<std::uint32_t>(i + 1));
    }
  }

  bool read() {
    const ShellScript script = follow_script(file_.origin.text, values_);
    if (script.is_cut || values_.is_full()) return refuse("the values of the script are too long");
    Words words = launch(script);
    if (words.empty()) words = of_variables(script);
    Launcher launcher(file_.origin.text, values_);
    const std::size_t program = launcher.read(words);
    const LauncherSays says = launcher.says();
    if (says.gpus) add("launcher.gpus", {*says.gpus}, *says.gpus);
    for (const auto& [name, value] : says.others) add("launcher." + name, {value}, value);
    flags(words, program);
    if (file_.values.size() > launch_value_limit) return refuse("the file has too many values");
    return true;
  }

 private:
  bool refuse(const char* message) {
    d_.error_at(file_.origin, {1, 1}, "launch.size", message);
    return false;
  }

  /// The command with the most flags; lines of flags alone make one.
  static Words launch(const ShellScript& script) {
    Words best, bare;
    std::ptrdiff_t most = 0;
    for (const ShellScript::Call& call : script.calls) {
      const Words words = opened(call.words);
      if (words.empty() || is_silent(base(words.front().chars))) continue;
      if (is_said(words.front())) {
        bare.insert(bare.end(), words.begin(), words.end());
        continue;
      }
      const std::ptrdiff_t n = std::count_if(words.begin(), words.end(), is_said);
      if (n > 0 && n >= most) best = words, most = n;
    }
    return std::count_if(bare.begin(), bare.end(), is_said) > most ? bare : best;
  }

  /// The flags in the variables of a script that launches nothing itself.
  Words of_variables(const ShellScript& script) {
    Words out;
    for (const std::string& name : script.set) {
      const Words words = values_.words(name);
      if (!words.empty() && is_flag(words.front())) out.insert(out.end(), words.begin(), words.end());
    }
    return out;
  }

  [[nodiscard]] Position place(const ShellText& t) const {
    for (std::size_t i = 0; i < t.chars.size(); ++i) {
      if (t.chars[i] == ShellText::unknown || t.at[i] == ShellText::nowhere) continue;
      const auto line = std::upper_bound(lines_.begin(), lines_.end(), t.at[i]);
      return {static_cast<std::uint32_t>(line - lines_.begin()), t.at[i] - *(line - 1) + 1};
    }
    return {};
  }

  [[nodiscard]] LaunchValue value_of(const ShellText& t) const {
    LaunchValue v;
    v.text = t.chars;
    v.position = place(t);
    if (!t.is_known()) {
      v.unknown = values_.unknown_in(t);
      std::replace(v.text.begin(), v.text.end(), ShellText::unknown, '?');
    }
    std::string& s = v.text;
    if (s.size() >= 2 && (s.front() == '"' || s.front() == '\'') && s.back() == s.front())
      s = s.substr(1, s.size() - 2);
    std::string lower = s;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    v.kind = lower == "true" || lower == "false" ? LaunchValue::Kind::flag
             : is_launch_number(s)               ? LaunchValue::Kind::number
                                                 : LaunchValue::Kind::text;
    if (v.kind == LaunchValue::Kind::flag) v.text = lower;
    return v;
  }

  void add(std::string key, const Words& values, const ShellText& at) {
    LaunchValue v;
    if (values.empty()) {
      v.kind = LaunchValue::Kind::flag;
      v.text = "true";
    } else {
      v = value_of(values.front());
    }
    if (values.size() > 1) {
      LaunchValue list;
      list.kind = LaunchValue::Kind::list;
      for (const ShellText& t : values) {
        list.items.push_back(value_of(t));
        list.text += (list.text.empty() ? "" : " ") + list.items.back().text;
        if (list.unknown.empty()) list.unknown = list.items.back().unknown;
      }
      list.position = v.position;
      v = std::move(list);
    }
    if (v.position.line == 0) v.position = place(at);
    v.key = std::move(key);
    file_.values.push_back(std::move(v));
  }

  static ShellText part(const ShellText& t, std::size_t from, std::size_t to) {
    ShellText out;
    for (std::size_t i = from; i < to; ++i) out.add(t.chars[i], t.at[i]);
    return out;
  }

  /// A flag and its value in one pair of quotes are two words, as their writer means it.
  static Words parted(const Words& words) {
    Words out;
    for (const ShellText& w : words) {
      const std::size_t blank = w.chars.find(' ');
      if (is_flag(w) && blank < w.chars.find('=')) {
        for (ShellText& t : ShellValues::split(w)) out.push_back(std::move(t));
      } else {
        out.push_back(w);
      }
    }
    return out;
  }

  void flags(const Words& written, std::size_t from) {
    const Words words =
        parted({written.begin() + static_cast<std::ptrdiff_t>(std::min(from, written.size())), written.end()});
    from = 0;
    for (std::size_t i = from; i < words.size();) {
      const ShellText& word = words[i++];
      const std::size_t equal = word.chars.find('=');
      if (is_flag(word)) {
        if (equal != std::string::npos) {
          add(word.chars.substr(0, equal), {part(word, equal + 1, word.chars.size())}, word);
          continue;
        }
        Words values;
        for (; i < words.size() && !is_said(words[i]); ++i) {
          const std::string& s = words[i].chars;
          if (s == "\\") continue;
          if (!values.empty() && plain_key(s) > 0) break;
          if (!values.empty() && !words[i].is_known()) continue;  // perhaps further flags, and perhaps nothing
          values.push_back(words[i]);
        }
        add(word.chars, values, word);
      } else if (const std::size_t key = std::max(override_key(word.chars), plain_key(word.chars)); key > 0) {
        const std::size_t begin = word.chars.find_first_not_of("+~");
        add(word.chars.substr(begin, key - begin), {part(word, key + 1, word.chars.size())}, word);
      }
    }
  }

  LaunchFile& file_;
  ShellValues values_;
  Diagnostics& d_;
  std::vector<std::uint32_t> lines_;  ///< where they begin
};

}  // namespace

std::optional<LaunchFile> parse_launch_flags(std::string text, std::string file,
                                             const std::map<std::string, std::string, std::less<>>& variables,
                                             Diagnostics& d) {
  std::replace(text.begin(), text.end(), ShellText::unknown, ' ');
  LaunchFile out{LaunchSyntax::flags, {std::move(file), std::move(text), {}}, {}};
  constexpr std::size_t longest = std::size_t{1} << 22;
  if (out.origin.text.size() > longest) {
    d.error_at(out.origin, {1, 1}, "launch.size", "the file is too long for a script",
               {fmt::format("It has {} bytes; at most {} are read.", out.origin.text.size(), longest)});
    return std::nullopt;
  }
  if (!Flags(out, variables, d).read()) return std::nullopt;
  return out;
}

}  // namespace orrery
