#include "framework/framework.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "framework/launch/launch_syntax.hpp"
#include "framework/rooms.hpp"

namespace orrery {

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> rooms{accelerate(),    axolotl(),       colossal_ai(), deepspeed(),
                                            llama_factory(), megatron_core(), nanotron(),    torchtitan()};
  return rooms;
}

const Framework* framework_named(std::string_view name) {
  const auto& all = frameworks();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Framework& f) { return f.name == name; });
  return at == all.end() ? nullptr : &*at;
}

namespace {

struct Recognised {
  const Framework* framework = nullptr;
  const LaunchFormat* format = nullptr;
};

std::optional<LaunchFile> parsed(LaunchSyntax syntax, const std::string& text, const std::string& file,
                                 const LaunchOptions& options, Diagnostics& d) {
  switch (syntax) {
    case LaunchSyntax::yaml: return parse_launch_yaml(text, file, d);
    case LaunchSyntax::toml: return parse_launch_toml(text, file, d);
    case LaunchSyntax::flags: return parse_launch_flags(text, file, options.set, d);
    case LaunchSyntax::python: return parse_launch_python(text, file, options.set, d);
  }
  return std::nullopt;
}

Recognised recognised(const LaunchFile& file, std::string_view format) {
  for (const Framework& framework : frameworks()) {
    for (const LaunchFormat& f : framework.formats) {
      if (f.syntax != file.syntax) continue;
      if (format == "auto" ? f.recognises(file) : f.name == format) return {&framework, &f};
    }
  }
  return {};
}

std::string format_names() {
  std::string out;
  for (const Framework& framework : frameworks()) {
    for (const LaunchFormat& f : framework.formats) out += fmt::format("{}{}", out.empty() ? "" : ", ", f.name);
  }
  return out;
}

}  // namespace

std::optional<LaunchedRun> read_launch(std::string text, const std::string& file, std::string_view format,
                                       const LaunchOptions& options, const Library& library, Diagnostics& d) {
  const std::optional<LaunchFile> launch = parsed(launch_syntax_of(text, file), text, file, options, d);
  if (!launch) return std::nullopt;
  const Recognised kind = recognised(*launch, format);
  if (kind.format == nullptr) {
    d.error_at(launch->origin, {}, "launch.kind", "no framework here writes such files",
               {fmt::format("Name the kind with --as: {}.", format_names())});
    return std::nullopt;
  }
  const std::size_t before = d.size();
  LaunchReading reading(*launch, options, library, d);
  if (d.size() != before) return std::nullopt;
  kind.format->read(reading);
  return reading.finish(std::string(kind.framework->name), std::string(kind.format->title));
}

std::string_view launch_title(const std::string& text, const std::string& file) {
  Diagnostics ignored;
  const std::optional<LaunchFile> launch = parsed(launch_syntax_of(text, file), text, file, {}, ignored);
  if (!launch) return {};
  const Recognised kind = recognised(*launch, "auto");
  return kind.format == nullptr ? std::string_view() : kind.format->title;
}

}  // namespace orrery
