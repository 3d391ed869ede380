#include "core/plan/limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

std::vector<std::string_view> parts(std::string_view text, char between) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    const std::size_t end = text.find(between);
    if (end != 0) list.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return list;
}

/// By its own word or an alias; "offload" and "disks" mean all dimensions of a kind.
bool is_meant(const Dimension& d, std::string_view word) {
  if (!is_searched(d)) return false;
  if (word == "offload") return d.kind == DimensionKind::share;
  if (word == "disks") return d.key.ends_with("_tier");
  return is_called(d, word);
}

/// Plans that a search looks at have no value "auto".
bool is_searched_value(const Dimension& d, std::uint64_t value) {
  if (is_named(d)) return value < d.names.size() && d.names[value] != "auto";
  return value == d.usual || (d.least <= value && value <= d.most);
}

/// What "off" says of a dimension that has no such value.
std::uint64_t off_of(const Dimension& d) {
  if (is_named(d)) return d.names.front() == "auto" ? 1 : 0;
  return d.kind == DimensionKind::axis ? 1 : 0;
}

/// The values that the text names; empty where the dimension does not have one of them.
std::vector<std::uint64_t> values_named(const Dimension& d, const std::vector<std::string_view>& names) {
  std::vector<std::uint64_t> out;
  for (const std::string_view name : names) {
    std::string why;
    std::optional<std::uint64_t> value = value_named(d, std::string(name), why);
    if (!value && name == "off") value = off_of(d);
    if (!value || !is_searched_value(d, *value)) return {};
    out.push_back(*value);
  }
  return out;
}

}  // namespace

std::string values_text(const Dimension& d, const std::vector<std::uint64_t>& values) {
  std::string out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::size_t last = i;
    while (!is_named(d) && last + 1 < values.size() && values[last + 1] == values[last] + 1) ++last;
    out += (out.empty() ? "" : ", ") + text_of(d, values[i]);
    if (last < i + 2) continue;  // two values are no range
    out += " to " + text_of(d, values[last]);
    i = last;
  }
  return out;
}

bool is_searched(const Dimension& d) { return d.label != nullptr && (d.table() == "mesh" || d.table() == "plan"); }

bool SearchLimits::allow(std::string_view key, std::uint64_t value) const {
  const auto at = only.find(key);
  return at == only.end() || std::find(at->second.begin(), at->second.end(), value) != at->second.end();
}

bool SearchLimits::allow_one(const PlannedRun& run, const Dimension& d) const {
  if (!only.contains(d.key) || !is_searched(d) || !applies(d, run)) return true;
  // What is left to Orrery is decided later.
  if (is_named(d) && d.get(run) < d.names.size() && d.names[d.get(run)] == "auto") return true;
  // Without counts of their own layers are all recomputed, or none, whatever is said of counts.
  if (d.key == "plan.recompute_layers" && !run.plan.recompute_layers) return true;
  return allow(d.key, d.get(run));
}

bool SearchLimits::allow(const PlannedRun& run, Dimensions table) const {
  for (const Dimension& d : table) {
    if (!allow_one(run, d)) return false;
  }
  return std::all_of(rules.begin(), rules.end(), [&](const LimitRule& rule) { return rule.holds(run); });
}

bool Condition::holds(const PlannedRun& run, bool idle_too) const {
  const auto all = [&](const LimitedValues& asked, bool wanted) {
    return std::all_of(asked.begin(), asked.end(), [&](const LimitedValues::value_type& entry) {
      const Dimension& d = dimension(entry.first);
      const bool idle = !applies(d, run);
      if (idle && idle_too) return true;
      const std::uint64_t value = idle ? d.usual : d.get(run);
      const bool named = std::find(entry.second.begin(), entry.second.end(), value) != entry.second.end();
      return named == wanted;
    });
  };
  return all(one_of, true) && all(none_of, false);
}

std::string_view Condition::first_key() const {
  const LimitedValues& some = one_of.empty() ? none_of : one_of;
  return some.empty() ? std::string_view() : std::string_view(some.begin()->first);
}

Condition condition_of(std::string_view text, Diagnostics& out) {
  std::string asked, refused;
  for (const std::string_view setting : parts(text, ' ')) {
    const std::size_t mark = setting.find("=!");
    std::string& into = mark == std::string_view::npos ? asked : refused;
    into += into.empty() ? "" : " ";
    into += mark == std::string_view::npos ? std::string(setting)
                                           : fmt::format("{}={}", setting.substr(0, mark), setting.substr(mark + 2));
  }
  return {limits_of(asked, out).only, limits_of(refused, out).only};
}

SearchLimits both(SearchLimits a, const SearchLimits& b) {
  for (const auto& [key, values] : b.only) {
    const auto at = a.only.find(key);
    if (at == a.only.end()) {
      a.only.emplace(key, values);
    } else {
      std::erase_if(at->second, [&](std::uint64_t v) { return !b.allow(key, v); });
    }
  }
  a.rules.insert(a.rules.end(), b.rules.begin(), b.rules.end());
  if (a.close == nullptr) a.close = b.close;
  return a;
}

SearchLimits plainest_limits() {
  const auto number = [](auto choice) { return static_cast<std::uint64_t>(choice); };
  return {{{"mesh.replica", {1}},
           {"mesh.context", {1}},
           {"plan.tensor", {number(TensorAlgorithm::one_d)}},
           {"plan.schedule", {number(ScheduleName::gpipe), number(ScheduleName::one_f_one_b)}},
           {"plan.zero_stage", {0, 1}},
           {"plan.recompute_layers", {0}},
           {"plan.loss_chunks", {1}},
           {"plan.expert_folding", {0}},
           {"plan.expert_dispatch", {0}},
           {"plan.offload_states", {0}},
           {"plan.offload_parameters", {0}},
           {"plan.offload_activations", {0}}}};
}

SearchLimits limits_of(std::string_view text, Diagnostics& out, Dimensions table) {
  SearchLimits limits;
  for (const std::string_view setting : parts(text, ' ')) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string_view word = setting.substr(0, equals);
    const std::vector<std::string_view> names =
        parts(equals < setting.size() ? setting.substr(equals + 1) : std::string_view{}, ',');
    bool good = false;
    for (const Dimension& d : table) {
      // Where two dimensions have one word, as "tensor", the one that has such values is meant.
      if (!is_meant(d, word) || names.empty()) continue;
      std::vector<std::uint64_t> values = values_named(d, names);
      if (values.empty() || limits.only.contains(d.key)) continue;
      limits.only.emplace(d.key, std::move(values));
      good = true;
    }
    if (good) continue;
    std::vector<std::string_view> words{"offload", "disks"};
    for (const Dimension& d : table) {
      if (!is_searched(d)) continue;
      words.push_back(d.word());
      words.insert(words.end(), d.aliases.begin(), d.aliases.end());
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    out.error(
        "cli.only", fmt::format("--only does not know \"{}\"", setting),
        {fmt::format("It takes KEY=VALUE,VALUE for: {}.", fmt::join(words, ", ")),
         "Values are written as in plan files: tensor=8 pp=2 tensor=1d,2d zero=0,1 schedule=1f1b,zb-v context=off.",
         "Separate settings by spaces."});
  }
  return limits;
}

}  // namespace orrery
