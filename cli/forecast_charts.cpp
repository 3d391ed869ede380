#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/forecast_answer.hpp"
#include "cli/forecast_text.hpp"
#include "planner/study/chart_svg.hpp"

namespace orrery {
namespace {

constexpr double day = 86400.0;

/// Events that a picture shows at most.
constexpr std::uint64_t most_events = 10'000;

/// Kept work over wall time of the first simulated run: it rises between events and falls back at failures.
Chart timeline(const ForecastAnswer& a) {
  Chart chart{"One simulated run: work that stays", "days", "days of work", false, false, {}, {}};
  std::vector<WholeRunEvent> events;
  const SimulatedRun run = simulate_run(a.forecast.work, a.forecast.saves, a.forecast.hazards, a.inputs.fewer,
                                        a.inputs.seed, 0, &events, most_events);
  if (!run.finished) chart.title += ", at its beginning";
  Series kept{"kept", {{0.0, 0.0}}}, ideal{"without failures", {{0.0, 0.0}}}, failures{"failures", {}};
  const std::size_t step = std::max<std::size_t>(1, events.size() / 2000);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Series::Point at{events[i].at.base() / day, events[i].kept.base() / day};
    if (i % step == 0 || i + 1 == events.size()) kept.points.push_back(at);
    const bool failed = events[i].kind == WholeRunEventKind::node_failure ||
                        events[i].kind == WholeRunEventKind::group_failure ||
                        events[i].kind == WholeRunEventKind::job_failure;
    if (failed && i % step == 0) failures.points.push_back(at);
  }
  const Seconds end = run.finished ? a.forecast.work : std::min(a.forecast.work, events.back().at);
  ideal.points.push_back({end.base() / day, end.base() / day});
  chart.series = {kept, ideal};
  if (failures.points.size() > 1) chart.series.push_back(failures);
  return chart;
}

/// Share of simulated runs in each of 40 equal spans of days.
Chart distribution(const RunSample& sample) {
  Chart chart{"Simulated runs by their time", "days", "share of runs, %", false, false, {}, {}};
  constexpr std::size_t spans = 40;
  const double low = sample.walls.front().base() / day, high = sample.walls.back().base() / day;
  const double width = high > low ? (high - low) / spans : 1.0;
  std::vector<double> counts(spans, 0.0);
  for (const Seconds wall : sample.walls) {
    const auto at = static_cast<std::size_t>(std::fmax(0.0, (wall.base() / day - low) / width));
    counts[std::min(at, spans - 1)] += 100.0 / static_cast<double>(sample.walls.size());
  }
  Series shares{"runs", {}};
  for (std::size_t i = 0; i < spans; ++i) {
    shares.points.push_back({low + (static_cast<double>(i) + 0.5) * width, counts[i]});
  }
  chart.series = {shares};
  return chart;
}

Chart against_gpus(const std::vector<ForecastChoice>& choices, const std::string& currency, bool money) {
  Chart chart{money ? "Cost against GPUs" : "Days against GPUs", "GPUs", money ? currency : "days", true, true, {}, {}};
  Series line{money ? "cost" : "days", {}};
  for (const ForecastChoice& c : choices) {
    if (money && !c.money) continue;
    line.points.push_back({static_cast<double>(c.gpus), money ? *c.money : c.wall_s / day});
  }
  chart.series = {line};
  return chart;
}

}  // namespace

std::string forecast_svg(const ForecastAnswer& a, const std::vector<ForecastChoice>& tried) {
  // The line is that of the answer's cluster and batch.
  const PlannedRun& run = a.subject.run;
  std::vector<ForecastChoice> choices;
  std::copy_if(tried.begin(), tried.end(), std::back_inserter(choices), [&](const ForecastChoice& c) {
    return c.cluster == run.cluster->name && c.batch == run.workload.global_batch;
  });
  std::vector<Chart> charts;
  if (a.forecast.ledger) charts.push_back(timeline(a));
  if (a.forecast.sample) charts.push_back(distribution(*a.forecast.sample));
  if (choices.size() > 1) {
    charts.push_back(against_gpus(choices, a.subject.run.cluster->price_currency, false));
    if (a.money()) charts.push_back(against_gpus(choices, a.subject.run.cluster->price_currency, true));
  }
  return charts_svg("orrery forecast", a.subject.run.plan.name, charts);
}

}  // namespace orrery
