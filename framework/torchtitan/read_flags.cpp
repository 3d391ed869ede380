#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "framework/torchtitan/reading.hpp"

// torchtitan's command line. Source: pytorch/torchtitan@73a0e6979, torchtitan/config/manager.py, run_train.sh and
// docs/debugging.md: flags come before the TOML file, words may have dashes for underscores, and "no_" in front of a
// switch's word turns it off.

namespace orrery {
namespace {

constexpr std::string_view config_key = "job.config_file";

/// Flags of the configurations in Python that followed the TOML files.
constexpr std::array<std::string_view, 2> python_keys{"--module", "--config"};

/// What a script gives a variable that run_train.sh reads: the default of "${NAME:-default}", or the value.
std::string script_variable(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name + "="); at != std::string::npos; at = text.find(name + "=", at + 1)) {
    const bool begins = at == 0 || std::string_view(" \t\n;").find(text[at - 1]) != std::string_view::npos;
    if (!begins) continue;
    std::string value;
    for (std::size_t i = at + name.size() + 1; i < text.size(); ++i) {
      const char c = text[i];
      if (c == ' ' || c == '\t' || c == '\n' || c == ';') break;
      if (c != '"' && c != '\'' && c != '\r') value += c;
    }
    const std::size_t otherwise = value.find(":-");
    if (value.starts_with("${") && value.ends_with('}') && otherwise != std::string::npos) {
      value = value.substr(otherwise + 2, value.size() - otherwise - 3);
    }
    if (value.find('$') == std::string::npos) return value;
  }
  return {};
}

/// "--training.seq-len" is "training.seq_len"; "--compile.no-enable" and "--no-compile.enable" are "compile.enable",
/// which is off.
LaunchValue plain(LaunchValue v) {
  std::string key = v.key.substr(v.key.find_first_not_of('-'));
  std::replace(key.begin(), key.end(), '-', '_');
  const std::size_t word = key.rfind('.') == std::string::npos ? 0 : key.rfind('.') + 1;
  const bool off = v.kind == LaunchValue::Kind::flag && v.text == "true";
  for (const std::size_t at : {word, std::size_t{0}}) {
    if (!off || key.compare(at, 3, "no_") != 0) continue;
    key.erase(at, 3);
    v.text = "false";
    break;
  }
  v.key = key;
  return v;
}

std::optional<std::filesystem::path> found(const std::string& name, const std::string& script) {
  std::error_code failure;
  std::filesystem::path folder = std::filesystem::absolute(script, failure).parent_path();
  constexpr int levels = 8;
  for (int i = 0; i < levels; ++i) {
    const std::filesystem::path path = folder / name;
    if (std::filesystem::is_regular_file(path, failure)) return path;
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  return std::nullopt;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

bool is_torchtitan_flags(const LaunchFile& file) {
  for (const LaunchValue& v : file.values) {
    for (const char* table :
         {"--parallelism.", "--training.", "--job.", "--activation_checkpoint.", "--lr_scheduler."}) {
      if (v.key.starts_with(table)) return true;
    }
  }
  return file.origin.text.find("torchtitan") != std::string::npos &&
         !script_variable(file.origin.text, "CONFIG_FILE").empty();
}

void read_torchtitan_flags(LaunchReading& r) {
  std::vector<LaunchValue> own;
  for (const LaunchValue& v : r.file().values) {
    const bool launcher = !v.key.starts_with("-") || v.key == python_keys[0] || v.key == python_keys[1];
    own.push_back(launcher ? v : plain(v));
  }
  const auto named = std::find_if(own.begin(), own.end(), [](const LaunchValue& v) { return v.key == config_key; });
  std::string config = named == own.end() ? script_variable(r.file().origin.text, "CONFIG_FILE") : named->text;
  const bool unknown = named != own.end() && !named->unknown.empty();
  if (unknown) config = script_variable(r.file().origin.text, "CONFIG_FILE");
  if (named != own.end()) own.erase(named);
  std::vector<LaunchValue> all;
  if (!config.empty()) {
    const auto path = found(config, r.file().origin.file);
    if (!path) {
      r.diagnostics().error("file.open", fmt::format("cannot find torchtitan's configuration {}", config),
                            {"It is looked for in the script's folder and in those above it.",
                             "It has a part of what the command says; put it there."});
      return;
    }
    const auto toml = parse_launch_toml(text_of(*path), path->string(), r.diagnostics());
    if (!toml) return;
    all = toml->values;
    for (LaunchValue& v : all) v.position = {};  // of another file
  }
  all.insert(all.end(), own.begin(), own.end());
  const std::string gpus = script_variable(r.file().origin.text, "NGPU");  // of run_train.sh
  if (r.file().find("launcher.gpus") == nullptr && is_launch_number(gpus)) {
    LaunchValue ranks;
    ranks.key = "launcher.gpus";
    ranks.kind = LaunchValue::Kind::number;
    ranks.text = gpus;
    all.push_back(std::move(ranks));
  }
  r.put_values(std::move(all));
  for (const std::string_view key : python_keys) {
    if (r.value(key) == nullptr) continue;
    r.refuse(key, "a configuration in Python is not read", "torchtitan's defaults of v0.2.2 with the command's flags");
  }
  TitanReading(r).read();
}

}  // namespace orrery
