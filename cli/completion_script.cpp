#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/verb_description.hpp"

namespace orrery {
namespace {

/// In single quotes of a shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> names_of(const VerbDescription& verb) {
  std::vector<std::string> out = {"--help"};
  for (const FlagDescription& flag : verb.flags) out.insert(out.end(), flag.names.begin(), flag.names.end());
  return out;
}

std::string bash(const std::vector<VerbDescription>& verbs) {
  std::vector<std::string> names;
  std::string cases, values;
  for (const VerbDescription& verb : verbs) {
    names.push_back(verb.name);
    cases += fmt::format("    {}) flags='{}' ;;\n", verb.name, fmt::join(names_of(verb), " "));
    for (const FlagDescription& flag : verb.flags) {
      if (flag.choices.empty()) continue;
      for (const std::string& name : flag.names) {
        values += fmt::format("    '{} {}') COMPREPLY=($(compgen -W '{}' -- \"$word\")); return ;;\n", verb.name, name,
                              fmt::join(flag.choices, " "));
      }
    }
  }
  return fmt::format(
      "# bash completion for orrery, made by orrery completion bash\n"
      "_orrery() {{\n"
      "  local word=\"${{COMP_WORDS[COMP_CWORD]}}\" before=\"${{COMP_WORDS[COMP_CWORD-1]}}\" "
      "verb=\"${{COMP_WORDS[1]}}\" flags=''\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '{} help --help --version' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case \"$verb $before\" in\n{}  esac\n"
      "  case \"$verb\" in\n{}  esac\n"
      "  if [[ \"$word\" == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _orrery orrery\n",
      fmt::join(names, " "), values, cases);
}

std::string zsh_text(std::string text) {
  for (std::size_t at = text.find_first_of("[]:\\"); at != std::string::npos;
       at = text.find_first_of("[]:\\", at + 2)) {
    text.insert(at, "\\");
  }
  return text;
}

std::string zsh(const std::vector<VerbDescription>& verbs) {
  std::string list, cases;
  for (const VerbDescription& verb : verbs) {
    list += fmt::format("    {}\n", shell_quoted(verb.name + ":" + zsh_text(verb.summary)));
    cases += fmt::format("    {})\n      _arguments '--help[explain the verb]' \\\n", verb.name);
    for (const FlagDescription& flag : verb.flags) {
      for (const std::string& name : flag.names) {
        std::string spec = fmt::format("*{}[{}]", name, zsh_text(flag.help));
        if (!flag.value.empty()) {
          spec += fmt::format(":{}:", flag.value);
          spec += flag.choices.empty() ? std::string("_files") : fmt::format("({})", fmt::join(flag.choices, " "));
        }
        cases += fmt::format("        {} \\\n", shell_quoted(spec));
      }
    }
    cases += "        '*:file:_files'\n      ;;\n";
  }
  return fmt::format(
      "#compdef orrery\n# zsh completion for orrery, made by orrery completion zsh\n"
      "_orrery() {{\n"
      "  local -a verbs\n  verbs=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\n  fi\n"
      "  local verb=$words[2]\n  shift words\n  (( CURRENT-- ))\n"
      "  case $verb in\n{}  esac\n"
      "}}\n_orrery \"$@\"\n",
      list, cases);
}

std::string fish(const std::vector<VerbDescription>& verbs) {
  std::string out = "# fish completion for orrery, made by orrery completion fish\n";
  for (const VerbDescription& verb : verbs) {
    out += fmt::format("complete -c orrery -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                       shell_quoted(verb.summary));
  }
  for (const VerbDescription& verb : verbs) {
    for (const FlagDescription& flag : verb.flags) {
      out += fmt::format("complete -c orrery -n '__fish_seen_subcommand_from {}'", verb.name);
      for (const std::string& name : flag.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!flag.value.empty()) out += " -r";
      if (!flag.choices.empty())
        out += fmt::format(" -f -a {}", shell_quoted(fmt::format("{}", fmt::join(flag.choices, " "))));
      out += fmt::format(" -d {}\n", shell_quoted(flag.help));
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const std::vector<VerbDescription>& verbs, const std::string& shell) {
  return shell == "bash" ? bash(verbs) : shell == "zsh" ? zsh(verbs) : fish(verbs);
}

}  // namespace orrery
