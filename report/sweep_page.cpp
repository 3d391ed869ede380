#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "planner/study/chart_svg.hpp"
#include "report/sections.hpp"
#include "sweep/sweep_charts.hpp"

namespace orrery {
namespace {

using State = SweptPoint::State;

std::vector<std::string> headers_of(const SweepPoints& points, const std::vector<std::size_t>& keys) {
  std::vector<std::string> out = {"point"};
  for (const std::size_t k : keys) {
    const Dimension* d = points.keys[k].dimension;
    out.push_back((d == nullptr || is_named(*d) ? "<" : "") + std::string(points.keys[k].name()));
  }
  return out;
}

std::vector<std::string> cells_of(const SweptPoint& p, const std::vector<std::size_t>& keys) {
  std::vector<std::string> out = {fmt::format("{}", p.number)};
  for (const std::size_t k : keys) out.push_back(p.values[k].empty() ? "-" : p.values[k]);
  return out;
}

std::string points_table(const SweepRecord& sweep, const std::vector<std::size_t>& keys) {
  constexpr std::size_t most = 5000;
  std::vector<std::string> headers = headers_of(sweep.header.points, keys);
  for (const char* h : {"step", "tokens/s", "MFU", "memory", "cost", "<plan, or why there is none"}) {
    headers.emplace_back(h);
  }
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < std::min(most, sweep.points.size()); ++i) {
    const SweptPoint& p = sweep.points[i];
    std::vector<std::string> row = cells_of(p, keys);
    if (p.figures) {
      const SweptPoint::Figures& f = *p.figures;
      row.insert(row.end(),
                 {short_text(Seconds::of(f.step_s), 4), short_count(f.tokens_per_s, 4),
                  f.mfu > 0.0 ? fmt::format("{:.1f} %", 100.0 * f.mfu) : "-",
                  short_text(Bytes::of(static_cast<double>(f.memory_bytes))),
                  f.cost_per_step ? fmt::format("{:.4g} {}", *f.cost_per_step, f.currency) : "-", p.description});
    } else {
      row.insert(row.end(), {std::string(name_of(p.state)), "", "", "", "", p.reason});
    }
    rows.push_back(std::move(row));
  }
  std::string out = html_table(headers, rows);
  if (sweep.points.size() > most) out += paragraph(fmt::format("and {} more", sweep.points.size() - most), "soft");
  return out;
}

std::string front_table(const SweepRecord& sweep, const std::vector<std::size_t>& keys,
                        const std::vector<const SweepMeasure*>& pareto, const WholeRun& run) {
  std::vector<std::string> headers = headers_of(sweep.header.points, keys);
  for (const SweepMeasure* m : pareto) headers.emplace_back(m->label);
  std::vector<std::vector<std::string>> rows;
  for (const std::size_t i : pareto_front(sweep.points, pareto, run)) {
    std::vector<std::string> row = cells_of(sweep.points[i], keys);
    for (const SweepMeasure* m : pareto) row.push_back(measure_text(*m->get(*sweep.points[i].figures, run)));
    rows.push_back(std::move(row));
  }
  return html_table(headers, rows);
}

/// The drawing without the first line of a file of its own.
std::string inline_svg(const std::string& svg) { return svg.substr(svg.find("<svg")); }

}  // namespace

std::string sweep_page(const SweepRecord& sweep, const std::vector<const SweepMeasure*>& pareto, const WholeRun& run,
                       const std::vector<std::pair<std::string, std::string>>& provenance) {
  const std::vector<std::size_t> varied = sweep.header.points.varied();
  const std::string title = sweep.header.name.empty() ? "sweep" : sweep.header.name;
  const auto count = [&](State s) {
    return std::count_if(sweep.points.begin(), sweep.points.end(), [&](const auto& p) { return p.state == s; });
  };
  std::string fixed;
  for (std::size_t k = 0; k < sweep.header.points.keys.size(); ++k) {
    if (std::find(varied.begin(), varied.end(), k) != varied.end() || sweep.points.empty()) continue;
    fixed += fmt::format("{}{} {}", fixed.empty() ? "" : ", ", sweep.header.points.keys[k].name(),
                         sweep.points[0].values[k]);
  }
  std::string verdict = paragraph(fmt::format("{}: {} with a plan, {} without one that fits, {} refused, {} ruled out",
                                              counted(sweep.points.size(), "point"), count(State::found),
                                              count(State::no_fit), count(State::refused), count(State::ruled_out)));
  verdict += paragraph(fixed) + paragraph(sweep.header.settings, "soft");
  std::vector<PageSection> sections = {{"verdict", "Verdict", verdict}};
  const std::vector<Chart> charts = sweep_charts(sweep.header.points, sweep.points, pareto, run);
  if (!charts.empty()) {
    sections.push_back(
        {"curves", "Curves",
         "<div class=\"paper\">" + inline_svg(charts_svg(title, sweep.header.settings, charts)) + "</div>\n"});
  }
  if (!pareto.empty()) sections.push_back({"front", "Pareto front", front_table(sweep, varied, pareto, run)});
  sections.push_back({"points", "Points", points_table(sweep, varied)});
  std::string plans;
  for (const SweptPoint& p : sweep.points) {
    if (p.plan_file.empty() || plans.size() > 1'000'000) continue;
    plans += folded(fmt::format("point {}: {}", p.number, p.description), listing(p.plan_file));
  }
  if (!plans.empty()) sections.push_back({"plans", "Plan files", plans});
  std::vector<std::vector<std::string>> rows;
  for (const auto& [what, whence] : provenance) rows.push_back({what, whence});
  sections.push_back({"provenance", "Where the numbers come from", html_table({"what", "<from"}, rows)});
  return html_page(title, sections);
}

}  // namespace orrery
