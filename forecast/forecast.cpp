#include "forecast/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "forecast/checkpoint_interval.hpp"
#include "forecast/spare_nodes.hpp"

namespace orrery {
namespace {

constexpr double day = 86400.0;
/// Failures that all runs together may have, so that an answer takes a second or two.
constexpr double most_events = 1e7;

/// Failures, saves and the time of a run, for one set of inputs.
struct Priced {
  SavePlan saves;
  std::optional<RunLedger> ledger;
};

Priced price(Seconds step, Seconds work, const RunHazards& h, SavePlan saves, std::optional<std::uint64_t> every) {
  const std::optional<Seconds> mean = h.mean();
  const std::uint64_t steps = every ? *every : mean ? best_steps(step, saves.blocking, *mean) : 0;
  // Where nothing fails nothing is saved but the end.
  saves.interval = steps > 0 ? static_cast<double>(steps) * step : work;
  if (!mean && !every) saves.blocking = Seconds();
  return {saves, expected_run(work, saves, h)};
}

/// Copies in memory: Young's interval for each level, in whole steps, storage a whole number of times.
SavePlan two_levels(Seconds step, const RunHazards& h, const SavePlan& saves, Seconds memory_save) {
  const TwoLevelIntervals two = two_level_intervals(memory_save, saves.blocking, *h.mean(), h.needs_storage);
  SavePlan out = saves;
  out.interval = std::fmax(1.0, std::round(two.memory / step)) * step;
  out.storage_every = static_cast<std::uint64_t>(std::fmax(1.0, std::round(two.storage / out.interval)));
  out.storage_blocking = saves.blocking;
  out.blocking = memory_save;
  return out;
}

void turn_knobs(Forecast& f, const ForecastInputs& in) {
  const RunHazards& h = f.hazards;
  struct Turn {
    const char* name;
    const char* unit;
    double value;
    std::function<void(RunHazards&, SavePlan&, Seconds&, double)> set;
  };
  const std::vector<Turn> turns{
      {"step time", "s", in.step.base(),
       [](RunHazards&, SavePlan&, Seconds& step, double v) { step = Seconds::of(v); }},
      {"failures of nodes", "per day", (h.node_failures + h.group_failures) * day,
       [&](RunHazards& to, SavePlan&, Seconds&, double v) {
         const double part = v / ((h.node_failures + h.group_failures) * day);
         to.node_failures = part * h.node_failures;
         to.group_failures = part * h.group_failures;
       }},
      {"failures of the job", "per day", h.job_failures * day,
       [](RunHazards& to, SavePlan&, Seconds&, double v) { to.job_failures = v / day; }},
      {"detection", "s", h.detect.base(),
       [](RunHazards& to, SavePlan&, Seconds&, double v) { to.detect = Seconds::of(v); }},
      {"queue", "s", h.queue.base(), [](RunHazards& to, SavePlan&, Seconds&, double v) { to.queue = Seconds::of(v); }},
      {"restart", "s", h.restart.base(),
       [](RunHazards& to, SavePlan&, Seconds&, double v) { to.restart = Seconds::of(v); }},
      {"load", "s", h.load.base(), [](RunHazards& to, SavePlan&, Seconds&, double v) { to.load = Seconds::of(v); }},
      {"save", "s", f.saves.blocking.base(),
       [](RunHazards&, SavePlan& to, Seconds&, double v) { to.blocking = Seconds::of(v); }},
      {"write of a save", "s", f.saves.until_it_counts.base(),
       [](RunHazards&, SavePlan& to, Seconds&, double v) { to.until_it_counts = Seconds::of(v); }},
      {"planned stops", "per day", h.planned_stops * day,
       [](RunHazards& to, SavePlan&, Seconds&, double v) { to.planned_stops = v / day; }}};
  for (const Turn& t : turns) {
    if (!(t.value > 0.0)) continue;
    const auto days_at = [&](double value) {
      RunHazards hazards = f.hazards;
      SavePlan saves = f.saves;
      Seconds step = in.step;
      t.set(hazards, saves, step, value);
      const std::optional<RunLedger> l =
          price(step, static_cast<double>(f.steps) * step, hazards, saves, in.save_every).ledger;
      return l ? l->wall().base() / day : std::nan("");
    };
    const double slight = 1e-3 * t.value;
    Knob k{t.name, t.value, t.unit, (days_at(t.value + slight) - days_at(t.value - slight)) / (2.0 * slight),
           days_at(t.value) - days_at(0.9 * t.value)};
    if (std::isfinite(k.days_each) && std::isfinite(k.tenth_days)) f.knobs.push_back(std::move(k));
  }
  std::stable_sort(f.knobs.begin(), f.knobs.end(),
                   [](const Knob& a, const Knob& b) { return a.tenth_days > b.tenth_days; });
}

void add_spares(Forecast& f, const ForecastInputs& in) {
  const RunHazards& h = f.hazards;
  if (!h.repair) return;
  // A group event takes all of its nodes.
  const double nodes_lost = h.node_failures + h.group_failures * h.group_nodes;
  if (nodes_lost <= 0.0) return;
  f.mean_down = mean_nodes_down(1.0, nodes_lost, *h.repair);
  f.spares = spares_for(*f.mean_down, 0.99);
  static_cast<void>(in);
}

/// Simulates runs; their mean is the answer where no closed form holds.
void play(Forecast& f, const ForecastInputs& in, const WorkProgress& progress) {
  const double failures = f.hazards.failures() * f.wall().base();
  if (in.runs == 0 || (failures == 0.0 && f.hazards.planned_stops == 0.0)) return;
  const double all = std::fmin(static_cast<double>(in.runs), most_events / (failures + 1.0));
  const auto runs = static_cast<std::uint64_t>(std::fmax(1.0, all));
  RunSample sample = sample_runs(f.work, f.saves, f.hazards, in.fewer, runs, in.seed, progress,
                                 static_cast<std::uint64_t>(1e6 + 100.0 * failures));
  if (sample.walls.empty()) return;
  if (f.by_events) f.ledger = sample.mean;
  f.sample = std::move(sample);
}

/// Eight in ten.
void bound(Forecast& f, const ForecastInputs& in) {
  double low = 0.0, high = 0.0;
  const auto add = [](double& sum, double ratio) { sum += std::log(ratio) * std::log(ratio); };
  if (in.step_interval) {
    add(low, in.step_interval->low / in.step);
    add(high, in.step_interval->high / in.step);
  }
  if (f.sample && f.sample->walls.size() >= 10) {
    const Seconds middle = f.sample->quantile(0.5);
    add(low, f.sample->quantile(0.1) / middle);
    add(high, f.sample->quantile(0.9) / middle);
  }
  if (low == 0.0 && high == 0.0) return;
  f.low = std::exp(-std::sqrt(low)) * f.wall();
  f.high = std::exp(std::sqrt(high)) * f.wall();
}

}  // namespace

Seconds mean_for_half(Seconds step, const SavePlan& saves, const RunHazards& h) {
  double low = -10.0, high = 20.0;  // decimal logarithms of seconds
  for (int i = 0; i < 60; ++i) {
    const double mean = std::pow(10.0, 0.5 * (low + high));
    const auto every = static_cast<double>(best_steps(step, saves.blocking, Seconds::of(mean)));
    const double half = saved_efficiency(every * step, saves.blocking, saves.until_it_counts, Seconds::of(mean),
                                         std::exp(-h.recovery().base() / mean));
    (half < 0.5 ? low : high) = std::log10(mean);
  }
  return Seconds::of(std::pow(10.0, high));
}

Forecast forecast_run(const ForecastInputs& in, const WorkProgress& progress) {
  Forecast f;
  f.steps = static_cast<std::uint64_t>(std::ceil(in.tokens / in.tokens_per_step));
  f.work = static_cast<double>(f.steps) * in.step;
  if (in.reliability) {
    f.hazards = hazards_of(*in.reliability, in.nodes, in.gpus_per_node, f.unknown);
    if (f.hazards.failures() > 0.0) f.unknown.insert(f.unknown.end(), in.unknown.begin(), in.unknown.end());
  }
  if (in.checkpoint) {
    f.hazards.load = in.checkpoint->load;
    f.saves.blocking = in.checkpoint->blocking;
    f.saves.until_it_counts = in.checkpoint->until_it_counts;
  }
  add_spares(f, in);
  if (!f.unknown.empty()) {
    bound(f, in);
    return f;
  }
  const std::optional<Seconds> mean = f.hazards.mean();
  if (mean) {
    f.best = best_interval(f.saves.blocking, *mean);
    f.young = young_interval(f.saves.blocking, *mean);
    f.daly = daly_interval(f.saves.blocking, *mean);
  }
  Priced priced = price(in.step, f.work, f.hazards, f.saves, in.save_every);
  const bool memory = mean && f.hazards.needs_storage > 0.0 && f.hazards.needs_storage < 1.0;
  if (memory && !in.save_every) {
    // A copy in the memory of another node is taken to stop the steps as long as one to the own host.
    priced.saves = two_levels(in.step, f.hazards, f.saves, std::min(f.saves.blocking, in.checkpoint->load));
  }
  f.saves = priced.saves;
  f.ledger = priced.ledger;
  if (mean || in.save_every) f.save_every = static_cast<std::uint64_t>(std::llround(f.saves.interval / in.step));
  const bool missing = f.hazards.spares && f.hazards.repair;
  f.by_events = missing || memory || f.hazards.shape != 1.0;
  if (!f.ledger) {
    f.never_ends = true;
    f.mean_needed = mean_for_half(in.step, f.saves, f.hazards);
    return f;
  }
  play(f, in, progress);
  bound(f, in);
  turn_knobs(f, in);
  return f;
}

}  // namespace orrery
