#include "cli/forecast_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cli/amounts.hpp"
#include "cli/forecast_answer.hpp"
#include "cli/report_text.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/reliability_file.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/describe.hpp"

namespace orrery {
namespace {

std::string line(std::string_view label, const std::string& value, const std::string& note = "") {
  return fmt::format("  {:<22}{:>13}{}{}\n", label, value, note.empty() ? "" : "  ", note);
}

std::string heading(const ForecastAnswer& a) {
  const PlannedRun& run = a.subject.run;
  const Workload& w = run.workload;
  std::string out =
      fmt::format("{} on {} x {} ({}), {} tokens\n", escaped(run.model.name), run.cluster->devices(),
                  escaped(run.cluster->device.name), escaped(run.cluster->name), short_count(a.inputs.tokens));
  out += fmt::format("plan: {}\n", describe(run.plan));
  out += fmt::format("batch: {} x {} tokens, {}\n", w.global_batch, w.sequence_length, name_of(w.precision));
  for (const std::string& what : a.subject.assumed) out += fmt::format("assumed: {}\n", what);
  for (const std::string& what : run.cluster->assumed) out += fmt::format("assumed: {}\n", escaped(what));
  out += fmt::format("reliability: {}\n", escaped(a.reliability_note));
  return out + "\n";
}

std::string figures(const ForecastAnswer& a) {
  const Forecast& f = a.forecast;
  const ForecastSubject& s = a.subject;
  std::string out;
  const bool open = !f.unknown.empty();
  out +=
      line("steps", with_commas(f.steps),
           fmt::format("of {} tokens, {} each", short_count(a.inputs.tokens_per_step), short_text(a.inputs.step, 4)));
  std::string range;
  if (f.low) range = fmt::format("{} to {} in eight of ten cases", days_text(f.low->base()), days_text(f.high->base()));
  out += line("time", (open ? "above " : "") + days_text(a.wall_s()), range);
  const double ratio_low = f.low ? *f.low / f.wall() : 1.0, ratio_high = f.high ? *f.high / f.wall() : 1.0;
  if (const std::optional<double> money = a.money()) {
    const std::string& currency = s.run.cluster->price_currency;
    out += line("money", money_text(*money, currency),
                fmt::format("{} to {}, at {:g} a GPU-hour", short_count(*money * ratio_low),
                            short_count(*money * ratio_high), *s.run.cluster->price_per_gpu_hour));
  } else {
    out += line("money", "unknown", "the cluster has no price; --price 2.50 gives one");
  }
  if (const std::optional<double> joules = a.joules()) {
    const Electricity& e = a.electricity;
    std::string note = fmt::format("{:.0f} W a device at most",
                                   a.step_joules() / a.inputs.step.base() / static_cast<double>(a.inputs.gpus));
    for (const std::string& what : s.energy->unknown) note += fmt::format("; {} is unknown", what);
    if (e.pue != 1.0) note += fmt::format("; times {:g} for the building", e.pue);
    out += line("energy", energy_text(*joules), note);
    if (const std::optional<double> cost = a.electricity_cost()) {
      out += line("  electricity", money_text(*cost, e.currency), fmt::format("at {:g} a kWh", *e.price_per_kwh));
    }
    if (const std::optional<double> kg = a.co2_kg()) {
      out += line("  CO2", fmt::format("{:.3g} t", *kg / 1000.0), fmt::format("at {:g} g a kWh", *e.grams_per_kwh));
    }
  } else {
    out += line("energy", "unknown", fmt::format("no power of {} is known (--power)", s.run.cluster->device.name));
  }
  const double mfu = a.mfu();
  if (f.ledger && a.inputs.reliability) {
    out += line("effective time (ETTR)", percent(f.share()), "of wall time is steps that stay");
  } else if (open) {
    out += line("effective time (ETTR)", "unknown");
  }
  if (mfu > 0.0) {
    out +=
        line("MFU", percent(mfu), f.ledger ? fmt::format("of the step; effective {}", percent(mfu * f.share())) : "");
  }
  return out;
}

std::string losses(const ForecastAnswer& a) {
  const Forecast& f = a.forecast;
  if (!f.ledger || f.share() > 1.0 - 1e-12) return "";
  Table table({"where the time goes", "days", "share"});
  const auto row = [&](std::string_view name, Seconds t) {
    table.row({std::string(name), fmt::format("{:.3g}", t.base() / 86400.0), percent(t / f.wall(), 2)});
  };
  row("steps that stay", f.ledger->productive);
  for (std::size_t i = 0; i < lost_time_count; ++i) {
    if (f.ledger->lost[i].base() > 0.0) row(name_of(static_cast<LostTime>(i)), f.ledger->lost[i]);
  }
  return "\n" + table.str();
}

std::string failures(const ForecastAnswer& a) {
  const Forecast& f = a.forecast;
  if (!a.inputs.reliability) return "";
  std::string out = "\n";
  if (const std::optional<Seconds> mean = f.hazards.mean()) {
    out += line("a failure every", days_text(mean->base()),
                fmt::format("{} in all", short_count(a.wall_s() / mean->base())));
  }
  if (f.save_every > 0) {
    std::string note = fmt::format("{}, each {}", days_text(f.saves.interval.base()), short_text(f.saves.blocking));
    if (f.saves.until_it_counts.base() > 0.0)
      note += fmt::format(" and {} beside", short_text(f.saves.until_it_counts));
    if (f.save_every >= f.steps) note += ", at the end";
    out += line("save every", counted(f.save_every, "step"), note);
    if (f.best)
      out += line("  exact best, Young", days_text(f.best->base()),
                  fmt::format("{}; Daly {}", days_text(f.young->base()), days_text(f.daly->base())));
  }
  if (a.inputs.checkpoint) {
    out += line("checkpoint", short_text(Bytes::of(a.subject.checkpoint.written)),
                fmt::format("{} a node at {}; load {}", short_text(Bytes::of(a.subject.checkpoint.written_by_node)),
                            short_text(a.inputs.checkpoint->node_rate), short_text(a.inputs.checkpoint->load)));
  }
  if (f.spares) {
    out += line("spares for 99 %", counted(*f.spares, "node"),
                fmt::format("{:.3g} of {} are under repair in the mean", *f.mean_down, a.inputs.nodes));
  }
  if (f.sample) {
    out += line("simulated", counted(f.sample->walls.size(), "run"),
                fmt::format("seed {}, history {:016x}", a.inputs.seed, f.sample->history));
  }
  if (f.given_up > 0) {
    out += line("given up", counted(f.given_up, "run"),
                fmt::format("had not ended after {} events; {}", short_count(static_cast<double>(most_forecast_events)),
                            f.by_events ? "the time is too short" : "the time is the closed form's"));
  }
  return out;
}

std::string knobs(const ForecastAnswer& a) {
  if (a.forecast.knobs.empty()) return "";
  Table table({"a tenth less of", "now", "saves", "<each unit costs"});
  for (const Knob& k : a.forecast.knobs) {
    if (k.tenth_days < 1e-6 * a.forecast.knobs.front().tenth_days) continue;
    table.row({k.name, fmt::format("{:.4g} {}", k.value, k.unit), days_text(86400.0 * k.tenth_days),
               days_text(86400.0 * k.days_each)});
  }
  return "\n" + table.str();
}

/// The figures of a file that are guessed or unverified, by name.
std::string not_sure(const ReliabilitySpec& r) {
  std::vector<std::string> guessed, unverified;
  const auto look = [&](const std::string& name, FigureBasis basis) {
    if (basis != FigureBasis::assumed && basis != FigureBasis::unverified) return;
    std::vector<std::string>& into = basis == FigureBasis::assumed ? guessed : unverified;
    if (std::find(into.begin(), into.end(), name) == into.end()) into.push_back(name);
  };
  for_each_figure(r, [&](std::string_view key, const auto& figure, const auto&) {
    if (!figure) return;
    std::string name(key.substr(0, key.find("_per_")));
    std::replace(name.begin(), name.end(), '_', ' ');
    look(name, figure->basis);
  });
  for (const NodeGroup& g : r.groups) look(escaped(g.name), g.events_per_1000_group_days.basis);
  std::string out;
  if (!unverified.empty()) out += fmt::format("\nUnverified in {}: {}.", escaped(r.name), fmt::join(unverified, ", "));
  if (!guessed.empty()) {
    out += fmt::format("\nGuessed in {}: {}. A file of your own replaces them.", escaped(r.name),
                       fmt::join(guessed, ", "));
  }
  return out.empty() ? out : out + "\n";
}

std::string not_known(const ForecastAnswer& a) {
  const Forecast& f = a.forecast;
  std::string out;
  if (!f.unknown.empty()) {
    out += fmt::format("\nUnknown: {}. Without it the time lost to failures is open; the time above counts none.\n",
                       fmt::join(f.unknown, ", "));
  }
  if (f.never_ends && f.given_up > 0) {
    const RunHazards& h = f.hazards;
    out += fmt::format("\nA simulated run had not ended after {} events, so no time is known.",
                       short_count(static_cast<double>(most_forecast_events)));
    if (h.spares && h.repair) {
      out += fmt::format(
          " With {} the job waits for repairs of {} each. More spares (--spares {}), fewer replicas "
          "(--fewer-replicas) or a shorter repair would help.",
          counted(*h.spares, "spare"), days_text(h.repair->base()),
          f.spares ? std::max(*f.spares, *h.spares + 1) : *h.spares + 1);
    }
    out += "\n";
  } else if (f.never_ends) {
    out += fmt::format(
        "\nThis run never ends: a failure comes every {}, and {} of work and {} of save must fit between two. Half of "
        "the time would be work with a failure every {}.\n",
        days_text(f.hazards.mean()->base()), days_text(f.saves.interval.base()), days_text(f.saves.blocking.base()),
        days_text(f.mean_needed->base()));
  }
  if (f.saves_pile_up) {
    out += fmt::format(
        "\nSaves pile up: one is written in {}, and the next begins {} after it (--save-every). The time counts them "
        "as "
        "if storage kept up, which takes at least {} between two.\n",
        days_text(f.saves.until_it_counts.base()), days_text((f.saves.interval + f.saves.blocking).base()),
        counted(static_cast<std::uint64_t>(std::ceil((f.saves.until_it_counts - f.saves.blocking) / a.inputs.step)),
                "step"));
  }
  if (!a.fewer_note.empty()) out += fmt::format("\n--fewer-replicas changes nothing: {}.\n", a.fewer_note);
  if (a.inputs.reliability) out += not_sure(*a.inputs.reliability);
  if (!a.subject.report.fits) out += "\n" + unfit_text(a.subject.run.plan.name, a.subject.report);
  return out;
}

}  // namespace

std::string forecast_text(const ForecastAnswer& a) {
  if (a.forecast.never_ends) return heading(a) + not_known(a).substr(1);
  return heading(a) + figures(a) + losses(a) + failures(a) + knobs(a) + not_known(a);
}

namespace {

struct Differ {
  bool clusters = false, batches = false;
};
Differ differ(const std::vector<ForecastChoice>& choices) {
  Differ out;
  for (const ForecastChoice& c : choices) {
    out.clusters = out.clusters || c.cluster != choices.front().cluster;
    out.batches = out.batches || c.batch != choices.front().batch;
  }
  return out;
}

}  // namespace

std::string chosen_text(const ForecastAnswer& a, const std::vector<ForecastChoice>& choices, std::string_view verb) {
  const auto [clusters, batches] = differ(choices);
  std::string out = counted(a.inputs.gpus, "GPU");
  if (clusters) out += " of " + escaped(a.subject.run.cluster->name);
  if (batches) out += fmt::format(" with batches of {}", a.subject.run.workload.global_batch);
  return fmt::format("{} {}{}", out, verb, a.inputs.gpus == 1 ? "s" : "");
}

std::string choices_text(const ForecastAnswer& a, const std::vector<ForecastChoice>& choices) {
  if (choices.empty()) return "";
  const auto [clusters, batches] = differ(choices);
  std::vector<std::string> heads{"GPUs", "time", "money", "energy"};
  if (batches) heads.insert(heads.begin(), "batch");
  if (clusters) heads.insert(heads.begin(), "cluster");
  Table table(heads);
  for (const ForecastChoice& c : choices) {
    std::vector<std::string> row{fmt::format("{}", c.gpus), days_text(c.wall_s),
                                 c.money ? money_text(*c.money, a.subject.run.cluster->price_currency) : "unknown",
                                 c.joules ? energy_text(*c.joules) : "unknown"};
    if (batches) row.insert(row.begin(), fmt::format("{}", c.batch));
    if (clusters) row.insert(row.begin(), escaped(c.cluster));
    table.row(row);
  }
  return "\n" + table.str();
}

std::string forecasts_text(const std::vector<ForecastAnswer>& answers) {
  Table table(
      {fmt::format("{} tokens", short_count(answers.front().inputs.tokens)), "time", "money", "energy", "ETTR"});
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const ForecastAnswer& a = answers[i];
    const std::optional<double> money = a.money(), joules = a.joules();
    const bool open = !a.forecast.ledger;
    table.row({fmt::format("#{}", i + 1), open ? "unknown" : days_text(a.wall_s()),
               open || !money ? "unknown" : money_text(*money, a.subject.run.cluster->price_currency),
               open || !joules ? "unknown" : energy_text(*joules), open ? "unknown" : percent(a.forecast.share())});
  }
  return table.str() +
         fmt::format("  reliability: {}; orrery forecast says more\n", escaped(answers.front().reliability_note));
}

}  // namespace orrery
