#include "framework/launch/launch_syntax.hpp"

#include <cctype>
#include <filesystem>
#include <string_view>

namespace orrery {

LaunchSyntax launch_syntax_of(const std::string& text, const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension().string();
  if (ending == ".yaml" || ending == ".yml" || ending == ".json") return LaunchSyntax::yaml;
  if (ending == ".toml") return LaunchSyntax::toml;
  if (ending == ".sh" || ending == ".bash" || ending == ".slurm" || ending == ".sbatch") return LaunchSyntax::flags;
  if (ending == ".py") return LaunchSyntax::python;
  if (text.starts_with("#!")) return LaunchSyntax::flags;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    line.remove_prefix(first);
    if (line.front() == '{') return LaunchSyntax::yaml;
    if (line.starts_with("--") || line.starts_with("export ") || line.starts_with("torchrun ") ||
        line.starts_with("python") || line.starts_with("srun ")) {
      return LaunchSyntax::flags;
    }
    // NAME=value, or a.b=value, without blanks: a variable, or an override.
    std::size_t key = 0;
    while (key < line.size() &&
           (std::isalnum(static_cast<unsigned char>(line[key])) != 0 || line[key] == '_' || line[key] == '.')) {
      ++key;
    }
    if (key > 0 && key + 1 < line.size() && line[key] == '=' && line[key + 1] != ' ') return LaunchSyntax::flags;
    if (line.front() == '[' || line.find(" = ") != std::string_view::npos) return LaunchSyntax::toml;
    break;
  }
  return LaunchSyntax::yaml;
}

}  // namespace orrery
