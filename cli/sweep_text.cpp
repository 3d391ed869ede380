#include "cli/sweep_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/csv.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

using State = SweptPoint::State;

/// The mesh of a plan's description, "pipeline 2 x data 4 x tensor 8, microbatch 1, ...", as "pp2 dp4 tp8".
std::string short_mesh(const std::string& description) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"pipeline ", "pp"}, {"data ", "dp"}, {"tensor ", "tp"}, {"context ", "cp"}, {"expert ", "ep"}, {" x ", " "}};
  std::string out = description.substr(0, description.find(','));
  for (const auto& [from, to] : words) {
    for (std::size_t at = out.find(from); at != std::string::npos; at = out.find(from, at + to.size())) {
      out.replace(at, from.size(), to);
    }
  }
  return out;
}

std::string header_of(const SweepKey& key) {
  if (!key.dimension) return "<" + key.word;
  return (is_named(*key.dimension) ? "<" : "") + std::string(key.name());
}

/// The currency of all costs; empty where there are none, or several.
std::string currency_of(const SweepRecord& sweep) {
  std::string out;
  for (const SweptPoint& p : sweep.points) {
    if (!p.figures || !p.figures->cost_per_step) continue;
    if (!out.empty() && out != p.figures->currency) return "";
    out = p.figures->currency;
  }
  return out;
}

std::string cost_text(const SweptPoint::Figures& f, const std::string& currency) {
  if (!f.cost_per_step) return "-";
  return fmt::format("{:.4g}{}", *f.cost_per_step, currency.empty() ? " " + f.currency : "");
}

std::vector<std::string> said(const SweptPoint& p, const std::vector<std::size_t>& keys) {
  std::vector<std::string> out;
  for (const std::size_t k : keys) out.push_back(p.values[k].empty() ? "-" : p.values[k]);
  return out;
}

/// "gpus 8, sequence 32768, batch 64".
std::string named_values(const SweepPoints& points, const SweptPoint& p, const std::vector<std::size_t>& keys) {
  std::string out;
  for (const std::size_t k : keys) {
    if (p.values[k].empty()) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", points.keys[k].name(), p.values[k]);
  }
  return out.empty() ? "the point" : out;
}

std::string points_table(const SweepRecord& sweep, std::size_t most_rows) {
  const std::vector<std::size_t> varied = sweep.header.points.varied();
  const std::string currency = currency_of(sweep);
  std::vector<std::string> headers = {"#"};
  for (const std::size_t k : varied) headers.push_back(header_of(sweep.header.points.keys[k]));
  const std::string cost = currency.empty() ? "cost" : currency;
  for (const char* h : {"step", "tokens/s", "MFU %", "GiB", cost.c_str(), "<mesh"}) headers.emplace_back(h);
  Table table(headers);
  for (std::size_t i = 0; i < std::min(most_rows, sweep.points.size()); ++i) {
    const SweptPoint& p = sweep.points[i];
    std::vector<std::string> cells = {fmt::format("{}", p.number)};
    for (std::string& value : said(p, varied)) cells.push_back(std::move(value));
    if (p.figures) {
      const SweptPoint::Figures& f = *p.figures;
      cells.insert(cells.end(), {short_text(Seconds::of(f.step_s)), short_count(f.tokens_per_s),
                                 f.mfu > 0.0 ? fmt::format("{:.1f}", 100.0 * f.mfu) : "-",
                                 fmt::format("{:.3g}", Bytes::of(static_cast<double>(f.memory_bytes)).in(gibibyte)),
                                 cost_text(f, currency), short_mesh(p.description)});
    } else {
      cells.insert(cells.end(), {std::string(name_of(p.state)), "", "", "", "", ""});
    }
    table.row(std::move(cells));
  }
  std::string out = table.str();
  if (sweep.points.size() > most_rows) {
    out += fmt::format("  and {} more (-o FILE and --csv FILE have all)\n", sweep.points.size() - most_rows);
  }
  out += fmt::format("  (#: number of the point; GiB: of the fullest device; {}: of a step)\n", cost);
  return out;
}

/// Points without a plan, by reason.
std::string reasons_text(const SweepRecord& sweep) {
  const std::vector<std::size_t> varied = sweep.header.points.varied();
  constexpr std::size_t most = 12;
  std::string out;
  for (const State state : {State::no_fit, State::refused, State::ruled_out}) {
    std::size_t count = 0;
    std::string lines;
    for (const SweptPoint& p : sweep.points) {
      if (p.state != state) continue;
      if (++count <= most) {
        lines += fmt::format("  {}: {}\n", named_values(sweep.header.points, p, varied), escaped(p.reason));
      }
    }
    if (count == 0) continue;
    if (count > most) lines += fmt::format("  and {} more\n", count - most);
    const char* title = state == State::no_fit    ? "No plan fits"
                        : state == State::refused ? "Refused"
                                                  : "Not below the bound, and not computed";
    out += fmt::format("\n{}\n{}", title, lines);
  }
  return out;
}

std::string front_text(const SweepRecord& sweep, const SweepView& view) {
  if (view.pareto.empty()) return "";
  const std::vector<std::size_t> varied = sweep.header.points.varied();
  std::vector<std::string> headers = {"#"};
  for (const std::size_t k : varied) headers.push_back(header_of(sweep.header.points.keys[k]));
  for (const SweepMeasure* m : view.pareto) headers.emplace_back(m->name);
  Table table(headers);
  const std::vector<std::size_t> front = pareto_front(sweep.points, view.pareto, view.run);
  for (const std::size_t i : front) {
    const SweptPoint& p = sweep.points[i];
    std::vector<std::string> cells = {fmt::format("{}", p.number)};
    for (std::string& value : said(p, varied)) cells.push_back(std::move(value));
    for (const SweepMeasure* m : view.pareto) cells.push_back(measure_text(*m->get(*p.figures, view.run)));
    table.row(std::move(cells));
  }
  std::string names, units;
  for (const SweepMeasure* m : view.pareto) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", m->name);
    units += fmt::format("{}{}: {}", units.empty() ? "" : "; ", m->name, m->label);
  }
  if (front.empty()) return fmt::format("\nNo point has figures for a Pareto front of {}.\n", names);
  return fmt::format("\nPareto front of {}: no other point is as good in all of them\n{}  ({})\n", names, table.str(),
                     units);
}

}  // namespace

std::vector<const SweepMeasure*> sweep_measures_of(std::string_view list, const WholeRun& run) {
  std::vector<const SweepMeasure*> out;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string word(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    const SweepMeasure* measure = sweep_measure_named(word);
    if (measure == nullptr) {
      std::string known;
      for (const SweepMeasure& m : sweep_measures()) known += fmt::format("{}{}", known.empty() ? "" : ", ", m.name);
      refuse("sweep.value", fmt::format("--pareto: there is no measure \"{}\"", word),
             {fmt::format("Known: {}.", known)});
    }
    if (measure->needs_tokens && !run.tokens) {
      refuse("sweep.value", fmt::format("--pareto: {} needs --tokens", word),
             {"It is a figure of a whole run: --tokens 15T."});
    }
    out.push_back(measure);
  }
  if (out.size() < 2) refuse("sweep.value", "--pareto needs two measures", {"--pareto step-time,cost"});
  return out;
}

std::string sweep_text(const SweepRecord& sweep, const SweepView& view, std::size_t most_rows) {
  const SweepHeader& h = sweep.header;
  const auto count = [&](State s) {
    return std::count_if(sweep.points.begin(), sweep.points.end(), [&](const auto& p) { return p.state == s; });
  };
  std::string fixed;
  const std::vector<std::size_t> varied = h.points.varied();
  for (std::size_t k = 0; k < h.points.keys.size() && !h.points.rows.empty(); ++k) {
    if (std::find(varied.begin(), varied.end(), k) != varied.end() || h.points.rows[0][k].empty()) continue;
    fixed += fmt::format("{}{} {}", fixed.empty() ? "" : ", ", h.points.keys[k].name(), h.points.rows[0][k]);
  }
  std::string out = fmt::format("{}{} of {}: {} found", h.name.empty() ? "" : escaped(h.name) + ": ",
                                counted(sweep.points.size(), "point"), h.points.size(), count(State::found));
  const std::pair<State, const char*> others[] = {
      {State::no_fit, "without a plan that fits"}, {State::refused, "refused"}, {State::ruled_out, "ruled out"}};
  for (const auto& [state, words] : others) {
    if (count(state) > 0) out += fmt::format(", {} {}", count(state), words);
  }
  out += fmt::format("\n{}{}\n\n", fixed.empty() ? "" : "all with " + escaped(fixed) + "\n", escaped(h.settings)) +
         points_table(sweep, most_rows);
  return out + reasons_text(sweep) + front_text(sweep, view);
}

std::string sweep_csv(const SweepRecord& sweep, const SweepView& view) {
  const std::vector<std::size_t> front = pareto_front(sweep.points, view.pareto, view.run);
  std::string out = "point";
  for (const SweepKey& key : sweep.header.points.keys) out += fmt::format(",{}", key.name());
  out +=
      ",state,reason,devices,step_s,step_low_s,step_high_s,tokens_per_s,tokens_per_s_per_gpu,mfu,memory_bytes,"
      "memory_capacity_bytes,cost_per_step,currency,on_front,plan\n";
  const auto optional = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string(); };
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const SweptPoint& p = sweep.points[i];
    out += fmt::format("{}", p.number);
    for (const std::string& value : p.values) out += "," + csv_cell(value);
    out += fmt::format(",{},{}", name_of(p.state), csv_cell(p.reason));
    if (p.figures) {
      const SweptPoint::Figures& f = *p.figures;
      out += fmt::format(",{},{},{},{},{},{},{},{},{},{},{}", f.gpus, f.step_s, optional(f.low_s), optional(f.high_s),
                         f.tokens_per_s, f.tokens_per_s / static_cast<double>(f.gpus),
                         f.mfu > 0.0 ? fmt::format("{}", f.mfu) : "", f.memory_bytes, optional(f.memory_capacity_bytes),
                         optional(f.cost_per_step), csv_cell(f.currency));
    } else {
      out += ",,,,,,,,,,,";
    }
    const bool on_front = std::find(front.begin(), front.end(), i) != front.end();
    out += fmt::format(",{},{}\n", view.pareto.empty() ? "" : on_front ? "1" : "0", csv_cell(p.description));
  }
  return out;
}

nlohmann::ordered_json sweep_json(const SweepRecord& sweep, const SweepView& view) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(header_line(sweep.header));
  json.erase("orrery_points");
  json.erase("points");
  json["points_in_all"] = sweep.header.points.size();
  json["complete"] = sweep.points.size() == sweep.header.points.size();
  json["points"] = nlohmann::ordered_json::array();
  for (const SweptPoint& p : sweep.points) {
    json["points"].push_back(nlohmann::ordered_json::parse(point_line(p, sweep.header.points)));
  }
  json["pareto"] = nullptr;
  if (!view.pareto.empty()) {
    nlohmann::ordered_json front = nlohmann::ordered_json::array();
    for (const std::size_t i : pareto_front(sweep.points, view.pareto, view.run)) {
      nlohmann::ordered_json entry{{"point", sweep.points[i].number}};
      for (const SweepMeasure* m : view.pareto) entry[m->name] = *m->get(*sweep.points[i].figures, view.run);
      front.push_back(std::move(entry));
    }
    json["pareto"] = std::move(front);
  }
  return json;
}

}  // namespace orrery
