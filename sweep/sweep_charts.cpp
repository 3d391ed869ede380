#include "sweep/sweep_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace orrery {
namespace {

constexpr std::size_t most_charts = 24;

/// Whether a key has a number at every point.
bool is_numeric(const SweepPoints& points, std::size_t key) {
  return std::all_of(points.rows.begin(), points.rows.end(),
                     [&](const auto& row) { return number_of(points.keys[key], row[key]).has_value(); });
}

/// "sequence 8192, precision bf16" of some keys of a point.
std::string said(const SweepPoints& points, const SweptPoint& p, const std::vector<std::size_t>& keys) {
  std::string out;
  for (const std::size_t k : keys) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", points.keys[k].name(),
                       p.values[k].empty() ? "unset" : p.values[k]);
  }
  return out;
}

/// The charts and lines of a name, in the order of their first points.
template <class T>
T& named(std::vector<T>& list, const std::string& name, std::string T::*member) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const T& t) { return t.*member == name; });
  if (at != list.end()) return *at;
  list.emplace_back().*member = name;
  return list.back();
}

std::vector<Chart> scaling(const SweepPoints& points, const std::vector<SweptPoint>& swept) {
  std::vector<std::size_t> varied = points.varied();
  const std::size_t gpus = points.place("gpus");
  auto x = std::find(varied.begin(), varied.end(), gpus);
  if (x == varied.end()) {
    x = std::find_if(varied.begin(), varied.end(), [&](std::size_t k) { return is_numeric(points, k); });
  }
  if (x == varied.end()) return {};
  const std::size_t along = *x;
  varied.erase(x);
  std::vector<std::size_t> lines;
  if (!varied.empty()) {
    lines.push_back(varied.back());
    varied.pop_back();
  }
  const bool devices = along == gpus;
  std::vector<Chart> charts;
  for (const SweptPoint& p : swept) {
    const std::optional<double> at = number_of(points.keys[along], p.values[along]);
    if (!p.figures || !at) continue;
    const std::string other = said(points, p, varied);
    const std::string title =
        fmt::format("Scaling over {}{}{}", points.keys[along].name(), other.empty() ? "" : ": ", other);
    Chart& chart = named(charts, title, &Chart::title);
    chart.x_label = devices ? "GPUs" : std::string(points.keys[along].name());
    chart.y_label = devices ? "tokens/s" : "tokens/s per GPU";
    chart.log_x = true;
    chart.log_y = devices;
    const double y = p.figures->tokens_per_s / (devices ? 1.0 : static_cast<double>(p.figures->gpus));
    named(chart.series, lines.empty() ? "best plan" : said(points, p, lines), &Series::name).points.push_back({*at, y});
  }
  if (charts.size() > most_charts) charts.resize(most_charts);
  for (Chart& chart : charts) {
    for (Series& s : chart.series) {
      std::sort(s.points.begin(), s.points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
    }
  }
  return charts;
}

Chart front_chart(const std::vector<SweptPoint>& swept, const std::vector<const SweepMeasure*>& asked,
                  const WholeRun& run) {
  Chart chart;
  chart.title = fmt::format("Pareto front of {} and {}", asked[0]->name, asked[1]->name);
  chart.x_label = asked[0]->label;
  chart.y_label = asked[1]->label;
  const auto point_of = [&](const SweptPoint& p) -> std::optional<Series::Point> {
    if (!p.figures) return std::nullopt;
    const std::optional<double> x = asked[0]->get(*p.figures, run), y = asked[1]->get(*p.figures, run);
    if (!x || !y) return std::nullopt;
    return Series::Point{*x, *y};
  };
  Series front{"Pareto front", {}, true}, others{"other points", {}, false};
  const std::vector<std::size_t> best = pareto_front(swept, asked, run);
  for (std::size_t i = 0; i < swept.size(); ++i) {
    const std::optional<Series::Point> at = point_of(swept[i]);
    if (!at) continue;
    const bool is_best = std::find(best.begin(), best.end(), i) != best.end();
    (is_best ? front : others).points.push_back(*at);
  }
  std::sort(front.points.begin(), front.points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
  const auto spread = [&](auto member) {
    double low = 0.0, high = 0.0;
    for (const Series* s : {&front, &others}) {
      for (const Series::Point& p : s->points) {
        low = low == 0.0 ? p.*member : std::min(low, p.*member);
        high = std::max(high, p.*member);
      }
    }
    return low > 0.0 && high > 5.0 * low;
  };
  chart.log_x = spread(&Series::Point::x);
  chart.log_y = spread(&Series::Point::y);
  chart.series = {std::move(front)};
  if (!others.points.empty()) chart.series.push_back(std::move(others));
  return chart;
}

}  // namespace

std::vector<Chart> sweep_charts(const SweepPoints& points, const std::vector<SweptPoint>& swept,
                                const std::vector<const SweepMeasure*>& pareto, const WholeRun& run) {
  std::vector<Chart> charts = scaling(points, swept);
  if (pareto.size() == 2) charts.push_back(front_chart(swept, pareto, run));
  return charts;
}

}  // namespace orrery
