#include "sweep/points_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/counted.hpp"

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view mark = "{\"orrery_points\":";

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Values of one kind; false where the array holds something else.
bool read_texts(const nlohmann::json& json, std::vector<std::string>& into) {
  if (!json.is_array()) return false;
  for (const nlohmann::json& text : json) {
    if (!text.is_string()) return false;
    into.push_back(text.get<std::string>());
  }
  return true;
}

/// Throws what nlohmann's accessors throw where the line is not as written.
SweepHeader header_of(const nlohmann::json& json) {
  SweepHeader h;
  h.version = json.at("version").get<std::string>();
  h.name = json.at("name").get<std::string>();
  h.answers = json.at("answers").get<std::string>();
  h.settings = json.at("settings").get<std::string>();
  std::vector<std::string> keys;
  if (!read_texts(json.at("keys"), keys)) throw std::invalid_argument("keys");
  for (const std::string& word : keys) {
    std::optional<SweepKey> key = sweep_key_named(word);
    if (!key || key->word != word) throw std::invalid_argument("keys");
    h.points.keys.push_back(std::move(*key));
  }
  for (const nlohmann::json& row : json.at("points")) {
    std::vector<std::string> values;
    if (!read_texts(row, values) || values.size() != keys.size()) throw std::invalid_argument("points");
    h.points.rows.push_back(std::move(values));
  }
  return h;
}

SweptPoint::Figures figures_of(const nlohmann::json& json) {
  const auto optional = [&]<class T>(const char* key, std::optional<T>& into) {
    if (!json.at(key).is_null()) into = json.at(key).get<T>();
  };
  SweptPoint::Figures f;
  f.gpus = json.at("gpus").get<std::uint64_t>();
  f.step_s = json.at("step_s").get<double>();
  f.predicted_step_s = json.at("step_time_s").get<double>();
  optional("step_low_s", f.low_s);
  optional("step_high_s", f.high_s);
  f.tokens_per_s = json.at("tokens_per_s").get<double>();
  f.tokens_per_step = json.at("tokens_per_step").get<double>();
  f.mfu = json.at("mfu").get<double>();
  f.memory_bytes = json.at("memory_bytes").get<std::uint64_t>();
  optional("memory_capacity_bytes", f.memory_capacity_bytes);
  optional("cost_per_step", f.cost_per_step);
  f.currency = json.at("currency").get<std::string>();
  return f;
}

SweptPoint point_of(const nlohmann::json& json, const SweepPoints& points) {
  SweptPoint p;
  p.number = json.at("point").get<std::uint64_t>();
  p.digest = json.at("digest").get<std::string>();
  if (p.number >= points.size()) throw std::invalid_argument("point");
  p.values = points.rows[p.number];
  const std::string state = json.at("state").get<std::string>();
  using State = SweptPoint::State;
  bool known = false;
  for (const State s : {State::found, State::no_fit, State::refused, State::ruled_out}) {
    if (name_of(s) != state) continue;
    p.state = s;
    known = true;
  }
  if (!known) throw std::invalid_argument("state");
  for (std::size_t k = 0; k < points.keys.size(); ++k) {
    const auto at = json.at("inputs").find(points.keys[k].word);
    const std::string said = at == json.at("inputs").end() ? std::string() : at->get<std::string>();
    if (said != p.values[k]) throw std::invalid_argument("inputs");
  }
  p.reason = json.at("reason").get<std::string>();
  p.code = json.at("code").get<std::string>();
  if (!json.at("figures").is_null()) p.figures = figures_of(json.at("figures"));
  if ((p.state == State::found) != p.figures.has_value()) throw std::invalid_argument("figures");
  p.description = json.at("description").get<std::string>();
  p.plan_file = json.at("plan_file").get<std::string>();
  p.estimated = json.at("estimated").get<std::uint64_t>();
  return p;
}

void refuse_line(const std::string& file, std::uint32_t line, std::string message, Diagnostics& d) {
  Diagnostic m;
  m.file = file;
  m.position = {line, 1};
  m.code = "points.file";
  m.message = std::move(message);
  d.add(std::move(m));
}

/// "3, 17, 42 and 61 more".
std::string numbers_text(const std::vector<std::uint64_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(numbers.size(), 5); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ", ", numbers[i]);
  }
  return numbers.size() > 5 ? fmt::format("{} and {} more", out, numbers.size() - 5) : out;
}

}  // namespace

std::string header_line(const SweepHeader& h) {
  Json json;
  json["orrery_points"] = points_schema;
  json["version"] = h.version;
  json["name"] = h.name;
  json["answers"] = h.answers;
  json["settings"] = h.settings;
  json["keys"] = Json::array();
  for (const SweepKey& key : h.points.keys) json["keys"].push_back(key.word);
  json["points"] = h.points.rows;
  return line_of(json);
}

std::string point_line(const SweptPoint& p, const SweepPoints& points) {
  Json json;
  json["point"] = p.number;
  json["digest"] = p.digest;
  json["inputs"] = Json::object();
  for (std::size_t k = 0; k < points.keys.size(); ++k) {
    if (!p.values[k].empty()) json["inputs"][points.keys[k].word] = p.values[k];
  }
  json["state"] = name_of(p.state);
  json["reason"] = p.reason;
  json["code"] = p.code;
  json["figures"] = nullptr;
  if (p.figures) {
    const SweptPoint::Figures& f = *p.figures;
    json["figures"] = {{"gpus", f.gpus},
                       {"step_s", f.step_s},
                       {"step_time_s", f.predicted_step_s},
                       {"step_low_s", or_null(f.low_s)},
                       {"step_high_s", or_null(f.high_s)},
                       {"tokens_per_s", f.tokens_per_s},
                       {"tokens_per_step", f.tokens_per_step},
                       {"mfu", f.mfu},
                       {"memory_bytes", f.memory_bytes},
                       {"memory_capacity_bytes", or_null(f.memory_capacity_bytes)},
                       {"cost_per_step", or_null(f.cost_per_step)},
                       {"currency", f.currency}};
  }
  json["description"] = p.description;
  json["plan_file"] = p.plan_file;
  json["estimated"] = p.estimated;
  return line_of(json);
}

std::string write_points(const SweepHeader& header, std::vector<SweptPoint> points) {
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  std::string out = header_line(header);
  for (const SweptPoint& p : points) out += point_line(p, header.points);
  return out;
}

bool looks_like_points(std::string_view text) { return text.starts_with(mark); }

std::optional<SweepRecord> read_points(std::string_view text, const std::string& file, Diagnostics& d) {
  SweepRecord out;
  std::uint32_t line = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    ++line;
    if (end == std::string_view::npos) {
      if (line == 1) break;
      out.torn = true;
      return out;
    }
    const std::string_view words = text.substr(0, end);
    text.remove_prefix(end + 1);
    try {
      const nlohmann::json json = nlohmann::json::parse(words);
      if (line == 1) {
        const auto schema = json.at("orrery_points").get<std::uint64_t>();
        if (schema != points_schema) {
          refuse_line(file, 1, fmt::format("the file has schema {}, and this program knows {}", schema, points_schema),
                      d);
          return std::nullopt;
        }
        out.header = header_of(json);
      } else {
        out.points.push_back(point_of(json, out.header.points));
      }
    } catch (const std::exception&) {
      refuse_line(file, line,
                  line == 1 ? "the first line of a file of points says what the sweep is, and this does not"
                            : "the line is no point of the sweep that the first line describes",
                  d);
      return std::nullopt;
    }
  }
  if (line == 0 || out.header.points.keys.empty()) {
    refuse_line(file, 1, "the file has no line that says what the sweep is", d);
    return std::nullopt;
  }
  return out;
}

std::optional<SweepRecord> merged(const std::vector<std::pair<std::string, SweepRecord>>& files, Diagnostics& d) {
  std::map<std::uint64_t, std::pair<const SweptPoint*, const std::string*>> found;
  const SweepHeader& header = files.front().second.header;
  for (const auto& [name, record] : files) {
    if (record.header != header) {
      d.error("points.merge", fmt::format("{} and {} are of different sweeps", files.front().first, name),
              {"Their first lines differ: in the points, the settings or the program's version."});
      continue;
    }
    for (const SweptPoint& p : record.points) {
      const auto [at, is_new] = found.try_emplace(p.number, &p, &name);
      if (is_new || *at->second.first == p) continue;
      d.error("points.merge", fmt::format("point {} is not the same in {} and {}", p.number, *at->second.second, name),
              {"Its inputs have changed in between (a file, a calibration): compute one of them again."});
    }
  }
  std::vector<std::uint64_t> missing;
  for (std::uint64_t i = 0; i < header.points.size(); ++i) {
    if (!found.contains(i)) missing.push_back(i);
  }
  if (!missing.empty()) {
    d.error("points.merge",
            fmt::format("{} of {} are in no file", missing.size(), counted(header.points.size(), "point")),
            {fmt::format("Missing: {}. A shard that runs again computes only what its file lacks.",
                         numbers_text(missing))});
  }
  if (!d.empty()) return std::nullopt;
  SweepRecord out;
  out.header = header;
  for (const auto& [number, where] : found) out.points.push_back(*where.first);
  return out;
}

}  // namespace orrery
