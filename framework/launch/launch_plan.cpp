#include <fmt/format.h>

#include <algorithm>

#include "core/base/nearest.hpp"
#include "core/base/toml_writer.hpp"
#include "core/plan/dimension.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/spec/spec_check.hpp"
#include "framework/launch/launch_reading.hpp"

// What was read becomes a plan: the text of a plan file, whose mistakes are those of the launch file's keys.

namespace orrery {
namespace {

constexpr std::string_view plan_text_name = "the plan that the file says";

/// Whether a name stands in a text by itself.
bool has_name(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool begins = at == 0 || !is_name_letter(text[at - 1]);
    const std::size_t end = at + name.size();
    if (begins && (end == text.size() || !is_name_letter(text[end]))) return true;
  }
  return false;
}

}  // namespace

void LaunchReading::report_unknown() {
  std::vector<std::string> known = spoken_of_;
  std::sort(known.begin(), known.end());
  // Each suggestion looks at all keys that the room knows.
  constexpr std::size_t most_suggestions = 20, most_known = 2000;
  std::size_t unknown = 0;
  for (const LaunchValue& v : file_.values) {
    if (std::binary_search(known.begin(), known.end(), v.key)) continue;
    if (v.kind == LaunchValue::Kind::none) {  // null is the default of the key, whichever it is
      without_effect(v.key, "it has no value");
      continue;
    }
    std::vector<std::string> details{"Nothing is known of its effect on a step."};
    if (unknown++ < most_suggestions && known.size() <= most_known) {
      const std::vector<std::string> near = nearest(v.key, known, 1);
      if (!near.empty()) details.push_back(fmt::format("Did you mean {}?", near.front()));
    }
    diagnostics_.error_at(file_.origin, v.position, "launch.unknown-key", fmt::format("unknown key {}", v.key),
                          std::move(details));
  }
}

LaunchReading::PlanText LaunchReading::plan_text() const {
  std::map<std::string, std::vector<std::string>, std::less<>> tables;  // keys by table; the file's own first
  for (const auto& [key, setting] : settings_) {
    const std::size_t dot = key.rfind('.');
    tables[dot == std::string::npos ? "" : key.substr(0, dot)].push_back(key);
  }
  PlanText out{"schema = 1\n", {""}};
  for (const auto& [table, keys] : tables) {
    if (!table.empty()) {
      out.text += fmt::format("[{}]\n", table);
      out.keys.emplace_back();
    }
    for (const std::string& key : keys) {
      const std::size_t word = table.empty() ? 0 : table.size() + 1;
      out.text += fmt::format("{} = {}\n", key.substr(word), settings_.at(key).toml);
      out.keys.push_back(key);
    }
  }
  return out;
}

Diagnostic LaunchReading::at_its_key(const Diagnostic& found, const PlanText& plan) const {
  const std::size_t line = found.position.line;
  if (found.file != plan_text_name || line == 0 || line > plan.keys.size()) return found;
  const auto at = settings_.find(plan.keys[line - 1]);
  const Position position = at == settings_.end() ? Position{} : at->second.position;
  Diagnostics here;
  here.error_at(file_.origin, position, found.code, found.message, found.details);
  return here.list().front();
}

std::optional<LaunchedRun> LaunchReading::finish(std::string framework, std::string format) {
  report_unknown();
  for (const auto& [name, ignored] : options_.set) {
    const bool plan_key =
        std::any_of(dimensions().begin(), dimensions().end(), [&](const Dimension& d) { return is_called(d, name); });
    if (std::find(used_set_.begin(), used_set_.end(), name) != used_set_.end()) continue;
    // A variable of a script, or a name in Python.
    const bool names = file_.syntax == LaunchSyntax::flags || file_.syntax == LaunchSyntax::python;
    if (names && !plan_key && has_name(file_.origin.text, name)) continue;
    diagnostics_.error("launch.set", fmt::format("nothing in the file is open for --set {}", name),
                       {"It gives variables of a script, and sequence, batch, mbs where a file does not."});
  }
  if (!model_ && diagnostics_.size() == mistakes_before_) {
    diagnostics_.error_at(file_.origin, {}, "launch.model", "the file does not say which model it trains",
                          {"Give a name or a config.json with --model."});
  }
  if (diagnostics_.size() != mistakes_before_) return std::nullopt;

  if (options_.cluster)
    settings_["cluster"] = {toml_quoted(*options_.cluster), {}};
  else
    settings_.erase("gpus");
  if (!own_model_) settings_["model"] = {toml_quoted(model_reference_), {}};
  Diagnostics found;
  const PlanText text = plan_text();
  std::optional<PlannedRun> run =
      read_unchecked_plan(text.text, std::string(plan_text_name), library_, std::nullopt, &*model_, found);
  if (run) {
    Origin origin{file_.origin.file, file_.origin.text, {}};
    for (const auto& [key, setting] : settings_) {
      if (setting.position.line == 0) continue;
      origin.positions[key] = setting.position;
      // A mistake of a whole table ("workload.adapters") is where the file first says something of it.
      const std::string table = key.substr(0, key.rfind('.'));
      if (table.find('.') == std::string::npos) continue;
      const auto [at, added] = origin.positions.try_emplace(table, setting.position);
      if (!added && setting.position.line < at->second.line) at->second = setting.position;
    }
    run->plan.origin = origin;
    run->workload.origin = origin;
    static_cast<void>(check_sizes(run->model, run->workload, found));
    check(run->plan, run->model, run->workload, run->cluster ? &*run->cluster : nullptr, found);
  }
  for (const Diagnostic& m : found.list()) diagnostics_.add(at_its_key(m, text));
  if (!run || !found.empty()) return std::nullopt;

  std::stable_sort(notes_.begin(), notes_.end(), [](const LaunchNote& a, const LaunchNote& b) {
    const auto place = [](const LaunchNote& n) {
      return std::pair(n.position.line == 0, std::pair(n.position.line, n.position.column));
    };
    return place(a) < place(b);
  });
  return LaunchedRun{std::move(framework), std::move(format), std::move(*run), own_model_, std::move(notes_)};
}

}  // namespace orrery
