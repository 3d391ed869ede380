#include "forecast/forecast.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "forecast/checkpoint_interval.hpp"
#include "forecast/spare_nodes.hpp"

namespace orrery {
namespace {

constexpr double day = 86400.0;
/// Runs for a mean that no closed form gives, where none were asked for.
constexpr std::uint64_t least_runs = 20;
/// Steps are counted in doubles.
constexpr double most_steps = 0x1p53;

/// Failures, saves and the time of a run, for one set of inputs.
struct Priced {
  SavePlan saves;
  std::optional<RunLedger> ledger;
};

/// Steps between two saves: the best number, of those with which a save is written before the next one begins.
std::uint64_t paced_steps(Seconds step, const SavePlan& saves, Seconds mean) {
  const double written = std::ceil((saves.until_it_counts - saves.blocking) / step);
  return std::max(best_steps(step, saves.blocking, mean),
                  static_cast<std::uint64_t>(std::clamp(written, 1.0, most_steps)));
}

Priced price(Seconds step, Seconds work, const RunHazards& h, SavePlan saves, std::optional<std::uint64_t> every) {
  const std::optional<Seconds> mean = h.mean();
  const std::uint64_t steps = every ? *every : mean ? paced_steps(step, saves, *mean) : 0;
  // Where nothing fails nothing is saved but the end, and the end is always saved.
  saves.interval = steps > 0 ? std::min(work, static_cast<double>(steps) * step) : work;
  if (!mean && !every) saves.blocking = Seconds();
  return {saves, expected_run(work, saves, h)};
}

/// Copies in memory: Young's interval for each level, in whole steps, storage a whole number of times. `saves` are
/// those to storage alone.
SavePlan two_levels(Seconds step, Seconds work, const RunHazards& h, const SavePlan& saves, Seconds memory_save) {
  const TwoLevelIntervals two = two_level_intervals(memory_save, saves.blocking, *h.mean(), h.needs_storage);
  SavePlan out = saves;
  out.interval = std::min(work, std::fmax(1.0, std::round(two.memory / step)) * step);
  const double written = std::ceil(saves.until_it_counts / (out.interval + memory_save));
  const double every = std::fmax(written, std::round(two.storage / out.interval));
  if (!(every > 1.0)) return saves;  // copies in memory as seldom as saves to storage spare nothing
  out.storage_every = static_cast<std::uint64_t>(std::fmin(every, most_steps));
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

void add_spares(Forecast& f) {
  const RunHazards& h = f.hazards;
  if (!h.repair) return;
  // A group event takes all of its nodes.
  const double nodes_lost = h.node_failures + h.group_failures * h.group_nodes;
  if (nodes_lost <= 0.0) return;
  f.mean_down = mean_nodes_down(1.0, nodes_lost, *h.repair);
  f.spares = spares_for(*f.mean_down, 0.99);
}

/// Simulates runs; their mean is the answer where no closed form holds.
void play(Forecast& f, const ForecastInputs& in, const WorkProgress& progress) {
  const RunHazards& h = f.hazards;
  const std::uint64_t asked = f.by_events && in.runs == 0 ? least_runs : in.runs;
  if (asked == 0 || (h.failures() == 0.0 && h.planned_stops == 0.0)) return;
  // A run that begins before the events are used up is played to its end, so that no long run is left out of the mean.
  RunSample sample =
      sample_runs(f.work, f.saves, h, in.fewer, asked, in.seed, progress, most_forecast_events, most_forecast_events);
  f.given_up = sample.unfinished;
  if (sample.walls.empty()) {
    if (f.by_events) {
      f.ledger.reset();
      f.never_ends = true;
    }
    return;
  }
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
    const auto every = static_cast<double>(paced_steps(step, saves, Seconds::of(mean)));
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
  add_spares(f);
  const std::optional<Seconds> mean = f.hazards.mean();
  // Saves every so many steps are those to storage.
  const bool memory = mean && in.checkpoint && f.hazards.needs_storage < 1.0 && !in.save_every;
  if (memory && !in.checkpoint->host_copy) f.unknown.emplace_back("host_link");
  if (!f.unknown.empty()) {
    bound(f, in);
    return f;
  }
  const bool both_levels = memory && f.hazards.needs_storage > 0.0;
  if (memory && !both_levels) {
    // No failure takes all copies: those in memory are all that count.
    f.saves.blocking = *in.checkpoint->host_copy;
    f.saves.until_it_counts = Seconds();
  }
  if (mean) {
    f.best = best_interval(f.saves.blocking, *mean);
    f.young = young_interval(f.saves.blocking, *mean);
    f.daly = daly_interval(f.saves.blocking, *mean);
  }
  Priced priced = price(in.step, f.work, f.hazards, f.saves, in.save_every);
  if (both_levels) {
    // A copy in the memory of another node is taken to stop the steps as long as one to the own host.
    priced.saves = two_levels(in.step, f.work, f.hazards, priced.saves, *in.checkpoint->host_copy);
  }
  f.saves = priced.saves;
  f.ledger = priced.ledger;
  if (mean || in.save_every) f.save_every = static_cast<std::uint64_t>(std::llround(f.saves.interval / in.step));
  f.saves_pile_up =
      in.save_every && f.saves.interval < f.work && f.saves.interval + f.saves.blocking < f.saves.until_it_counts;
  const bool missing = f.hazards.spares && f.hazards.repair;
  f.by_events = missing || f.saves.storage_every > 1 || f.hazards.shape != 1.0;
  // The closed form is of saves to storage alone.
  if (!f.ledger && f.saves.storage_every == 1) {
    f.never_ends = true;
    f.mean_needed = mean_for_half(in.step, f.saves, f.hazards);
    return f;
  }
  play(f, in, progress);
  if (f.never_ends) return f;
  bound(f, in);
  turn_knobs(f, in);
  return f;
}

}  // namespace orrery
