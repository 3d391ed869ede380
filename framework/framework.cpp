#include "framework/framework.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/launch/launch_syntax.hpp"
#include "framework/rooms.hpp"

namespace orrery {

const std::vector<Framework>& frameworks() {
  static const std::vector<Framework> rooms{accelerate(),    axolotl(),  colossal_ai(), deepspeed(),  llama_factory(),
                                            megatron_core(), nanotron(), orrery_cuda(), torchtitan(), torchtune()};
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
                                 const LaunchInputs& options, Diagnostics& d) {
  switch (syntax) {
    case LaunchSyntax::yaml: return parse_launch_yaml(text, file, d);
    case LaunchSyntax::toml: return parse_launch_toml(text, file, d);
    case LaunchSyntax::flags: return parse_launch_flags(text, file, options.set, d);
    case LaunchSyntax::python: return parse_launch_python(text, file, options.set, d);
  }
  return std::nullopt;
}

Recognised recognised(const LaunchFile& file) {
  for (const Framework& framework : frameworks()) {
    for (const LaunchFormat& f : framework.formats) {
      if (f.syntax == file.syntax && f.recognises(file)) return {&framework, &f};
    }
  }
  return {};
}

Recognised format_named(std::string_view name) {
  for (const Framework& framework : frameworks()) {
    for (const LaunchFormat& f : framework.formats) {
      if (f.name == name) return {&framework, &f};
    }
  }
  return {};
}

std::string_view words_of(LaunchSyntax syntax) {
  switch (syntax) {
    case LaunchSyntax::yaml: return "YAML or JSON";
    case LaunchSyntax::toml: return "TOML";
    case LaunchSyntax::flags: return "a shell script or a command line";
    case LaunchSyntax::python: return "Python";
  }
  return "";
}

}  // namespace

std::vector<std::string> launch_format_names() {
  std::vector<std::string> out;
  for (const Framework& framework : frameworks()) {
    for (const LaunchFormat& f : framework.formats) out.emplace_back(f.name);
  }
  return out;
}

bool is_launch_format(std::string_view name) {
  const std::vector<std::string> names = launch_format_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Framework* framework_writing(std::string_view name) {
  for (const Framework& framework : frameworks()) {
    for (const LaunchWriting& w : framework.writings) {
      if (w.name == name) return &framework;
    }
  }
  return nullptr;
}

std::vector<LaunchWriting> launch_writings() {
  std::vector<LaunchWriting> out;
  for (const Framework& framework : frameworks()) {
    out.insert(out.end(), framework.writings.begin(), framework.writings.end());
  }
  return out;
}

namespace {

/// Whether the plan leaves the dimension open.
bool is_open(const Dimension& d, const PlannedRun& run) {
  const std::uint64_t value = d.get(run);
  return is_named(d) && value < d.names.size() && d.names[value] == "auto";
}

/// The rule without what the plan leaves open; empty where that is a condition.
std::optional<LimitRule> of_what_is_said(LimitRule rule, const PlannedRun& run) {
  const auto open = [&](const auto& entry) { return is_open(dimension(entry.first), run); };
  const auto any_open = [&](const LimitedValues& asked) { return std::any_of(asked.begin(), asked.end(), open); };
  if (any_open(rule.when.one_of) || any_open(rule.when.none_of)) return std::nullopt;
  std::erase_if(rule.then.one_of, open);
  std::erase_if(rule.then.none_of, open);
  return rule;
}

void add_rules(SearchLimits& to, const std::vector<AbilityRule>& rules, Diagnostics& d) {
  for (const AbilityRule& rule : rules) {
    to.rules.push_back({condition_of(rule.when, d), condition_of(rule.then, d), std::string(rule.reason),
                        std::string(rule.key), rule.also});
  }
}

}  // namespace

void check_framework(const PlannedRun& run, Diagnostics& d) {
  if (run.framework.empty() || run.framework == "any") return;
  const Framework* framework = framework_named(run.framework);
  if (framework == nullptr) {
    std::string names = "any";
    for (const Framework& f : frameworks()) names += fmt::format(", {}", f.name);
    d.error(run.plan.origin, "for", "framework.name", fmt::format("no framework is named \"{}\"", run.framework),
            {fmt::format("Known: {}.", names)});
    return;
  }
  if (framework->check_model != nullptr) framework->check_model(run.model, run.workload, d);
  const SearchLimits can = abilities_of(*framework, run.model, run.workload);
  for (const Dimension& dimension : dimensions()) {
    if (can.allow_one(run, dimension) || is_open(dimension, run)) continue;
    d.error(run.plan.origin, std::string(dimension.key), "framework.cannot",
            fmt::format("{} does not launch {} = {}", framework->title, dimension.word(),
                        text_of(dimension, dimension.get(run))),
            {fmt::format("It launches {}.", values_text(dimension, can.only.at(std::string(dimension.key))))});
  }
  for (const LimitRule& rule : can.rules) {
    const std::optional<LimitRule> said = of_what_is_said(rule, run);
    if (!said || said->holds(run)) continue;
    d.error(run.plan.origin, rule.then.asks_nothing() ? rule.key : std::string(rule.then.first_key()),
            "framework.cannot", fmt::format("{} does not launch this combination", framework->title),
            {rule.reason + "."});
  }
}

void close_for_framework(PlannedRun& run) {
  const Framework* framework = framework_named(run.framework);
  if (framework == nullptr) return;
  const SearchLimits can = abilities_of(*framework, run.model, run.workload);
  const auto put_open = [&](const LimitedValues& values) {
    std::string reason;
    for (const auto& [key, allowed] : values) {
      const Dimension& d = dimension(key);
      if (is_open(d, run) && applies(d, run)) static_cast<void>(put(run, d, allowed.front(), reason));
    }
  };
  // Rules first: they leave less open than the lists.
  for (const LimitRule& rule : can.rules) {
    const std::optional<LimitRule> said = of_what_is_said(rule, run);
    if (said && !rule.holds(run)) put_open(rule.then.one_of);
  }
  put_open(can.only);
  if (can.close != nullptr) can.close(run);
}

SearchLimits abilities_of(const Framework& framework) {
  Diagnostics d;
  SearchLimits out = limits_of(framework.abilities, d);
  add_rules(out, framework.rules, d);
  out.close = framework.close;
  ORRERY_ASSERT(d.empty(), framework.name);
  return out;
}

SearchLimits abilities_of(const Framework& framework, const ModelSpec& model, const Workload& workload) {
  Diagnostics d;
  SearchLimits out = abilities_of(framework);
  if (framework.rules_for != nullptr) add_rules(out, framework.rules_for(model, workload), d);
  ORRERY_ASSERT(d.empty(), framework.name);
  return out;
}

std::optional<LaunchedRun> read_launch(std::string text, const std::string& file, std::string_view format,
                                       const LaunchInputs& options, const Library& library, Diagnostics& d) {
  Recognised kind = format_named(format);
  const LaunchSyntax syntax = launch_syntax_of(text, file);
  if (kind.format != nullptr && kind.format->syntax != syntax) {
    Diagnostic m;
    m.file = file;
    m.code = "launch.kind";
    m.message = fmt::format("{} is {}, and this file is {}", format, words_of(kind.format->syntax), words_of(syntax));
    d.add(std::move(m));
    return std::nullopt;
  }
  const std::optional<LaunchFile> launch = parsed(syntax, text, file, options, d);
  if (!launch) return std::nullopt;
  if (kind.format == nullptr) kind = recognised(*launch);
  if (kind.format == nullptr) {
    d.error_at(launch->origin, {}, "launch.kind", "no framework here writes such files",
               {fmt::format("Name the kind with --as: {}.", fmt::join(launch_format_names(), ", "))});
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
  const Recognised kind = recognised(*launch);
  return kind.format == nullptr ? std::string_view() : kind.format->title;
}

}  // namespace orrery
