#include "framework/launch/launch_reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/plan/dimension.hpp"
#include "framework/launch/model_names.hpp"

namespace orrery {
namespace {

/// A value as a person reads it in a list.
std::string shown(const LaunchValue& v) {
  switch (v.kind) {
    case LaunchValue::Kind::none: return "null";
    case LaunchValue::Kind::table: return "{...}";
    case LaunchValue::Kind::list: {
      std::string out = "[";
      for (const LaunchValue& item : v.items) {
        if (out.size() > 40) return out + ", ...]";
        out += (out.size() > 1 ? ", " : "") + shown(item);
      }
      return out + "]";
    }
    case LaunchValue::Kind::text:
    case LaunchValue::Kind::number:
    case LaunchValue::Kind::flag: break;
  }
  return v.text.size() > 60 ? v.text.substr(0, 57) + "..." : v.text;
}

std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return text;
}

/// "TP", "args.tp": what --set can give.
bool is_dotted_name(std::string_view text) {
  return !text.empty() && !(text.front() >= '0' && text.front() <= '9') &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_name_letter(c) || c == '.'; });
}

}  // namespace

bool LaunchedRun::has(LaunchNote::Kind kind) const {
  return std::any_of(notes.begin(), notes.end(), [&](const LaunchNote& n) { return n.kind == kind; });
}

LaunchReading::LaunchReading(const LaunchFile& file, const LaunchInputs& options, const Library& library,
                             Diagnostics& d)
    : file_(file), options_(options), library_(library), diagnostics_(d), mistakes_before_(d.size()) {
  if (!options.model) return;
  model_ = library.model(*options.model, "", d);
  model_reference_ = library.portable_model(*options.model, "");
}

const LaunchValue* LaunchReading::value(std::string_view key) const {
  const LaunchValue* v = file_.find(key);
  return v == nullptr || v->kind == LaunchValue::Kind::none ? nullptr : v;
}

const LaunchValue* LaunchReading::known(std::string_view key) {
  // A key that the file lacks is known all the same: unknown ones may be meant for it.
  if (file_.find(key) == nullptr) spoken_of_.emplace_back(key);
  const LaunchValue* v = value(key);
  if (v == nullptr || v->unknown.empty()) return v;
  const bool argument = v->unknown.find_first_not_of("0123456789") == std::string::npos;  // of a script or a function
  const std::string open = (argument ? "$" : "") + v->unknown.substr(0, 60);
  error(key, fmt::format("{} depends on {}, which the file does not say", key, open),
        {is_dotted_name(v->unknown) ? fmt::format("Give it: --set {}=VALUE.", v->unknown)
                                    : std::string("Write its value into the file in its place.")});
  return nullptr;
}

std::optional<double> LaunchReading::real(std::string_view key) {
  const LaunchValue* v = known(key);
  if (v == nullptr) return std::nullopt;
  std::string digits = v->text;
  std::erase(digits, '_');
  double out = 0.0;
  const char* first = digits.data() + (digits.starts_with('+') ? 1 : 0);
  const auto [end, failure] = std::from_chars(first, digits.data() + digits.size(), out);
  if (v->items.empty() && !digits.empty() && failure == std::errc{} && end == digits.data() + digits.size() &&
      std::isfinite(out)) {
    return out;
  }
  error(key, fmt::format("{} is no number", key), {fmt::format("It is {}.", shown(*v))});
  return std::nullopt;
}

std::optional<std::int64_t> LaunchReading::integer(std::string_view key) {
  const std::optional<double> number = real(key);
  if (!number) return std::nullopt;
  if (std::abs(*number) <= 0x1p53 && std::floor(*number) == *number) return static_cast<std::int64_t>(*number);
  error(key, fmt::format("{} is no whole number", key), {fmt::format("It is {}.", *number)});
  return std::nullopt;
}

std::optional<std::uint64_t> LaunchReading::whole(std::string_view key, std::uint64_t least, std::uint64_t most) {
  const std::optional<std::int64_t> number = integer(key);
  if (!number) return std::nullopt;
  if (*number >= 0 && static_cast<std::uint64_t>(*number) >= least && static_cast<std::uint64_t>(*number) <= most) {
    return static_cast<std::uint64_t>(*number);
  }
  error(key, fmt::format("{} is out of range", key),
        {fmt::format("It is {}; from {} to {} is allowed.", *number, least, most)});
  return std::nullopt;
}

std::optional<bool> LaunchReading::toggle(std::string_view key) {
  const LaunchValue* v = known(key);
  if (v == nullptr) return std::nullopt;
  const std::string word = lowered(v->text);
  if (v->items.empty()) {
    if (word == "true" || word == "1" || word == "yes" || word == "on") return true;
    if (word == "false" || word == "0" || word == "no" || word == "off") return false;
  }
  error(key, fmt::format("{} is neither true nor false", key), {fmt::format("It is {}.", shown(*v))});
  return std::nullopt;
}

std::optional<std::string> LaunchReading::text(std::string_view key) {
  const LaunchValue* v = known(key);
  if (v == nullptr) return std::nullopt;
  if (v->kind != LaunchValue::Kind::list && v->kind != LaunchValue::Kind::table) return v->text;
  error(key, fmt::format("{} is a list or a table where a text belongs", key));
  return std::nullopt;
}

std::optional<std::string> LaunchReading::word(std::string_view key, std::initializer_list<std::string_view> words) {
  const std::optional<std::string> given = text(key);
  if (!given) return std::nullopt;
  std::string known;
  for (const std::string_view w : words) {
    if (lowered(*given) == lowered(std::string(w))) return std::string(w);
    known += (known.empty() ? "" : ", ") + std::string(w);
  }
  error(key, fmt::format("{} has no value \"{}\"", key, given->substr(0, 60)), {fmt::format("Known: {}.", known)});
  return std::nullopt;
}

void LaunchReading::note(LaunchNote::Kind kind, std::string_view from, std::string says) {
  const LaunchValue* v = file_.find(from);
  Position at = v == nullptr ? Position{} : v->position;
  // A table, or a call in Python, is where its first value is.
  for (const LaunchValue& within : file_.values) {
    if (at.line == 0 && within.key.starts_with(std::string(from) + ".")) at = within.position;
  }
  LaunchNote out{kind, at, std::string(from), v == nullptr ? "" : shown(*v), std::move(says)};
  spoken_of_.emplace_back(from);
  // A key is taken for several things at times; what is said twice is said once.
  for (LaunchNote& n : notes_) {
    if (n.key != out.key || n.kind != out.kind) continue;
    if (!out.says.empty() && n.says.find(out.says) == std::string::npos)
      n.says += (n.says.empty() ? "" : ", ") + out.says;
    return;
  }
  notes_.push_back(std::move(out));
}

void LaunchReading::set(std::string_view from, std::string_view plan_key, std::string_view toml) {
  const LaunchValue* v = file_.find(from);
  settings_[std::string(plan_key)] = {std::string(toml), v == nullptr ? Position{} : v->position};
  note(LaunchNote::Kind::taken, from, fmt::format("{} = {}", plan_key, toml));
}

void LaunchReading::take(std::string_view from, std::string says) {
  note(LaunchNote::Kind::taken, from, std::move(says));
}

void LaunchReading::without_effect(std::string_view from, std::string why) {
  note(LaunchNote::Kind::without_effect, from, std::move(why));
}

void LaunchReading::without_effect(std::initializer_list<std::string_view> keys, const char* why) {
  for (const std::string_view k : keys) {
    if (!k.ends_with('*') && file_.find(k) == nullptr) spoken_of_.emplace_back(k);
  }
  for (const LaunchValue& v : file_.values) {
    if (std::find(spoken_of_.begin(), spoken_of_.end(), v.key) != spoken_of_.end()) continue;
    const bool listed = std::any_of(keys.begin(), keys.end(), [&](std::string_view k) {
      return k.ends_with('*') ? v.key.starts_with(k.substr(0, k.size() - 1)) : v.key == k;
    });
    if (listed) without_effect(v.key, why);
  }
}

void LaunchReading::refuse(std::string_view from, std::string what, std::string nearest) {
  note(LaunchNote::Kind::not_expressible, from,
       nearest.empty() ? std::move(what) : fmt::format("{}; the nearest is {}", what, nearest));
}

void LaunchReading::assume(std::string_view plan_key, std::string_view toml, std::string why) {
  if (is_set(plan_key)) return;
  settings_[std::string(plan_key)] = {std::string(toml), {}};
  notes_.push_back({LaunchNote::Kind::assumed, {}, std::string(plan_key), std::string(toml), std::move(why)});
}

void LaunchReading::assume_of_model(std::string_view property, std::string value, std::string why) {
  notes_.push_back(
      {LaunchNote::Kind::assumed, {}, fmt::format("model.{}", property), std::move(value), std::move(why)});
}

void LaunchReading::error(std::string_view from, std::string message, std::vector<std::string> details) {
  const LaunchValue* v = file_.find(from);
  const Position at = v == nullptr ? Position{} : v->position;
  spoken_of_.emplace_back(from);
  // A value that is asked for twice is one mistake.
  for (const Diagnostic& m : diagnostics_.list()) {
    if (m.message == message && m.position.line == at.line && m.position.column == at.column) return;
  }
  diagnostics_.error_at(file_.origin, at, "launch.value", std::move(message), std::move(details));
}

bool LaunchReading::is_set(std::string_view plan_key) const { return settings_.contains(plan_key); }

std::uint64_t LaunchReading::plan_number(std::string_view plan_key, std::uint64_t otherwise) const {
  const auto at = settings_.find(plan_key);
  if (at == settings_.end()) return otherwise;
  const std::string& text = at->second.toml;
  std::uint64_t out = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failure == std::errc{} && end == text.data() + text.size() ? out : otherwise;
}

std::optional<std::uint64_t> LaunchReading::given(std::string_view plan_key) {
  const Dimension* d = dimension_named(plan_key);
  for (const auto& [name, text] : options_.set) {
    if (name != plan_key && (d == nullptr || !is_called(*d, name))) continue;
    used_set_.push_back(name);
    std::uint64_t out = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (failure == std::errc{} && end == text.data() + text.size()) return out;
    diagnostics_.error("launch.set", fmt::format("--set {}={} is no whole number", name, text));
  }
  return std::nullopt;
}

void LaunchReading::include(std::string_view from, LaunchReading& other) {
  other.report_unknown();
  const LaunchValue* v = file_.find(from);
  const Position at = v == nullptr ? Position{} : v->position;
  for (const auto& [key, setting] : other.settings_) {
    settings_.try_emplace(key, Setting{setting.toml, setting.position.line == 0 ? Position{} : at});
  }
  const bool another = other.file_.origin.file != file_.origin.file;
  for (LaunchNote n : other.notes_) {
    if (!another && n.kind == LaunchNote::Kind::taken) continue;
    if (another && n.kind != LaunchNote::Kind::assumed) {
      n.key = fmt::format("{}: {}", other.file_.origin.file, n.key);
      n.position = at;
    }
    notes_.push_back(std::move(n));
  }
  used_set_.insert(used_set_.end(), other.used_set_.begin(), other.used_set_.end());
}

void LaunchReading::model(ModelSpec spec) {
  if (model_) return;  // of --model
  model_ = std::move(spec);
  own_model_ = true;
}

void LaunchReading::model_named(std::string_view from, const std::string& name) {
  take(from, "the model");
  if (model_) return;
  const std::optional<std::string> known = shipped_model_of(name, library_);
  if (!known) {
    const LaunchValue* v = file_.find(from);
    diagnostics_.error_at(file_.origin, v == nullptr ? Position{} : v->position, "launch.model",
                          fmt::format("no shipped model is {}", name.substr(0, 80)),
                          {"Give its config.json with --model, or a name from `orrery show models`."});
    return;
  }
  model_ = library_.model(*known, "", diagnostics_);
  model_reference_ = *known;
}

}  // namespace orrery
