#include "tests/perf/thresholds.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/diagnostics.hpp"

namespace orrery::perf {

namespace {

Threshold read_one(const toml::table& t, const std::string& file) {
  const auto fail = [&](std::string_view what) {
    throw Error(fmt::format("{}:{}: {}", file, t.source().begin.line, what));
  };
  for (const auto& [key, value] : t) {
    constexpr std::string_view known[] = {"name", "benchmark", "figure",    "least",
                                          "most", "ratio",     "yardstick", "source"};
    if (std::find(std::begin(known), std::end(known), key.str()) == std::end(known)) {
      fail(fmt::format("unknown key {}", key.str()));
    }
  }
  const auto text = [&](std::string_view key) {
    const auto value = t[key].value<std::string>();
    if (!value || value->empty()) fail(fmt::format("needs the text {}", key));
    return *value;
  };
  Threshold r{text("name"), text("benchmark"), text("figure")};
  r.source = text("source");
  const auto least = t["least"].value<double>();
  const auto most = t["most"].value<double>();
  if (least.has_value() == most.has_value()) fail("needs one of least and most");
  r.side = least ? Threshold::Side::least : Threshold::Side::most;
  r.value = least ? *least : *most;
  r.ratio = t["ratio"].value_or(1.0);
  r.by_yardstick = t["yardstick"].value_or(false);
  if (!(r.value > 0) || !(r.ratio > 0)) fail("values must be positive");
  return r;
}

/// Best value of a figure over the repetitions in one output; times in seconds.
std::optional<double> best(const nlohmann::json& output, const std::string& benchmark, const std::string& figure,
                           Threshold::Side side) {
  std::optional<double> found;
  for (const auto& run : output.at("benchmarks")) {
    if (run.value("run_type", "iteration") != "iteration") continue;
    // The name carries options: "whole_search/0/real_time".
    const auto name = run.at("name").get<std::string>();
    if (name != benchmark && name.rfind(benchmark + "/", 0) != 0) continue;
    if (!run.contains(figure)) continue;
    double value = run.at(figure).get<double>();
    if (figure == "real_time" || figure == "cpu_time") {
      const auto unit = run.value("time_unit", "ns");
      value *= unit == "ns" ? 1e-9 : unit == "us" ? 1e-6 : unit == "ms" ? 1e-3 : 1.0;
    }
    if (!found || (side == Threshold::Side::least ? value > *found : value < *found)) found = value;
  }
  return found;
}

}  // namespace

std::vector<Threshold> read_thresholds(const std::string& file) {
  std::vector<Threshold> thresholds;
  try {
    const toml::table top = toml::parse_file(file);
    const toml::array* list = top["threshold"].as_array();
    if (list == nullptr || top.size() != 1) throw Error(file + ": holds [[threshold]] tables and nothing else");
    for (const toml::node& node : *list) {
      if (!node.is_table()) throw Error(file + ": threshold is a list of tables");
      thresholds.push_back(read_one(*node.as_table(), file));
    }
  } catch (const toml::parse_error& e) {
    throw Error(fmt::format("{}:{}: {}", file, e.source().begin.line, e.description()));
  }
  return thresholds;
}

std::vector<Verdict> judge(const std::vector<Threshold>& thresholds, const std::vector<std::string>& outputs) {
  std::vector<nlohmann::json> parsed;
  try {
    for (const std::string& text : outputs) parsed.push_back(nlohmann::json::parse(text));
    std::vector<Verdict> verdicts;
    for (const Threshold& t : thresholds) {
      Verdict v{&t, {}, 0.0, false};
      for (const nlohmann::json& output : parsed) {
        auto value = best(output, t.benchmark, t.figure, t.side);
        if (value && t.by_yardstick) {
          const auto unit = best(output, "yardstick", "cpu_time", Threshold::Side::most);
          // The figure is a rate times seconds, or seconds over seconds; both are pure numbers.
          if (!unit) value.reset();
          if (unit) *value = t.side == Threshold::Side::least ? *value * *unit : *value / *unit;
        }
        if (value) v.measured = value;
      }
      if (v.measured) v.ratio = t.side == Threshold::Side::least ? *v.measured / t.value : t.value / *v.measured;
      v.passed = v.measured && v.ratio >= t.ratio;
      verdicts.push_back(v);
    }
    return verdicts;
  } catch (const nlohmann::json::exception& e) {
    throw Error(std::string("benchmark output: ") + e.what());
  }
}

std::string table(const std::vector<Verdict>& verdicts) {
  std::string text = fmt::format("{:<58} {:>11} {:>11} {:>7} {:>6}\n", "", "measured", "held to", "ratio", "least");
  for (const Verdict& v : verdicts) {
    const Threshold& t = *v.threshold;
    text += fmt::format("{:<58} {:>11} {:>11.4g} {:>7.2f} {:>6.2f}  {}\n", t.name,
                        v.measured ? fmt::format("{:.4g}", *v.measured) : "missing", t.value, v.ratio, t.ratio,
                        v.passed ? "ok" : "FAILED");
    if (!v.passed) text += "    " + t.source + "\n";
  }
  return text;
}

}  // namespace orrery::perf
