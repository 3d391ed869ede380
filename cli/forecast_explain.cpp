#include <fmt/format.h>

#include <cmath>

#include "cli/amounts.hpp"
#include "cli/forecast_answer.hpp"
#include "cli/forecast_text.hpp"
#include "cli/table.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/reliability_file.hpp"

namespace orrery {
namespace {

/// A figure, and how it follows from others.
class Lines {
 public:
  void add(const std::string& name, const std::string& value, const std::string& how) {
    out_ += fmt::format("  {} = {}\n      {}\n", name, value, how);
  }
  template <class T>
  void sourced(const std::string& name, const SourcedFigure<T>& figure, const std::string& value) {
    add(name, value, fmt::format("{}: {}", name_of(figure.basis), escaped(figure.source)));
  }
  [[nodiscard]] const std::string& str() const { return out_; }

 private:
  std::string out_;
};

std::string s(Seconds t) { return fmt::format("{:.6g} s", t.base()); }

std::string figure_text(double v) { return fmt::format("{:g}", v); }
std::string figure_text(std::uint32_t v) { return fmt::format("{}", v); }
std::string figure_text(Seconds v) { return s(v); }
std::string figure_text(Bandwidth v) { return short_text(v); }

void step_lines(Lines& out, const ForecastAnswer& a) {
  const Report& r = a.subject.report;
  const Workload& w = a.subject.run.workload;
  const Forecast& f = a.forecast;
  out.add("tokens of a step", with_commas(w.global_batch * w.sequence_length),
          fmt::format("batch {} x sequence {}", w.global_batch, w.sequence_length));
  out.add("steps", with_commas(f.steps),
          fmt::format("{:.6g} tokens / {:.6g}, rounded up", a.inputs.tokens, a.inputs.tokens_per_step));
  out.add("step", s(a.inputs.step),
          r.software_assumed && r.interval
              ? fmt::format("middle of {} and {}, since no software is named; the estimate is {} (orrery estimate "
                            "--explain-op all)",
                            s(r.interval->low), s(r.interval->high), s(r.step_time))
              : std::string("the estimate (orrery estimate --explain-op all explains each operation)"));
  out.add("work", s(f.work), fmt::format("{} steps x {}", f.steps, s(a.inputs.step)));
}

void reliability_lines(Lines& out, const ForecastAnswer& a) {
  if (!a.inputs.reliability) return;
  const ReliabilitySpec& r = *a.inputs.reliability;
  for_each_figure(r, [&](const char* key, const auto& figure, const auto&) {
    if (figure) out.sourced(key, *figure, figure_text(figure->value));
  });
  for (const NodeGroup& g : r.groups) {
    const SourcedFigure<double>& events = g.events_per_1000_group_days;
    out.sourced(escaped(g.name), events,
                fmt::format("{:g} events in 1,000 days of a group of {} nodes", events.value, g.nodes));
  }
  const RunHazards& h = a.forecast.hazards;
  if (const std::optional<Seconds> mean = h.mean()) {
    const std::string size =
        r.gpus_per_node ? fmt::format(" x {} / {} GPUs", a.inputs.gpus_per_node, *r.gpus_per_node) : std::string();
    out.add(
        "time between failures", s(*mean),
        fmt::format("1 / (nodes {:.4g} + groups {:.4g} + job {:.4g} per s); nodes: {} nodes{} x rate / 86,400,000 s",
                    h.node_failures, h.group_failures, h.job_failures, a.inputs.nodes, size));
  }
}

void checkpoint_lines(Lines& out, const ForecastAnswer& a) {
  if (!a.inputs.checkpoint) return;
  const CheckpointSize& size = a.subject.checkpoint;
  const CheckpointTime& t = *a.inputs.checkpoint;
  const auto bytes = [](double b) { return short_text(Bytes::of(b), 4); };
  out.add("checkpoint", bytes(size.written), "weights, masters and moments of the Program, equal parts once");
  out.add("storage of a node", short_text(t.node_rate, 4),
          "the least of storage_rate_per_node, storage_rate_total / nodes, and the network of a node");
  if (a.way == SaveWay::blocking) {
    out.add("save", s(t.blocking),
            fmt::format("{} of the fullest node / {}", bytes(size.written_by_node), short_text(t.node_rate, 4)));
  } else {
    out.add("save", s(t.blocking),
            fmt::format("{} of a rank over the host link, and the network's share that the write takes",
                        bytes(size.written_by_rank)));
    out.add("until a save counts", s(t.until_it_counts),
            fmt::format("{} of the fullest node / {}", bytes(size.written_by_node), short_text(t.node_rate, 4)));
  }
  out.add("load", s(t.load),
          fmt::format("{} that the fullest node holds / {}", bytes(size.held_by_node), short_text(t.node_rate, 4)));
}

void time_lines(Lines& out, const ForecastAnswer& a) {
  const Forecast& f = a.forecast;
  if (f.best) {
    out.add("best interval", s(*f.best), "M (1 + W0(-e^(-1 - C / M))), docs/formulas/runs.md");
    out.add("Young, Daly", fmt::format("{}, {}", s(*f.young), s(*f.daly)), "first and higher order of the same");
  }
  if (f.save_every > 0) {
    out.add("save every", fmt::format("{} steps", f.save_every),
            f.save_every >= f.steps ? "the run has no more: it is saved at its end"
            : a.inputs.save_every   ? "as --save-every says"
                                  : "the better whole number of steps next to the best interval, or as many as a write "
                                    "beside the steps takes");
  }
  if (!f.ledger) return;
  for (std::size_t i = 0; i < lost_time_count; ++i) {
    if (f.ledger->lost[i].base() == 0.0) continue;
    out.add(std::string(name_of(static_cast<LostTime>(i))), s(f.ledger->lost[i]),
            f.by_events ? "mean of the simulated runs" : "expected_run, docs/formulas/runs.md");
  }
  out.add("time", s(f.wall()), "the sum of work and all that is lost");
  out.add("ETTR", fmt::format("{:.6g}", f.share()), "work / time");
  if (f.low) {
    out.add("eight in ten", fmt::format("{} to {}", s(*f.low), s(*f.high)),
            f.sample ? "of the step's and the simulated runs' tenth and ninetieth percentile; logarithms squared add"
                     : "of the step");
  }
}

void cost_lines(Lines& out, const ForecastAnswer& a) {
  const ClusterSpec& c = *a.subject.run.cluster;
  if (const std::optional<double> money = a.money()) {
    out.add("money", fmt::format("{:.6g} {}", *money, c.price_currency),
            fmt::format("{:.6g} GPU-hours x {:g} ({})", a.gpu_hours(), *c.price_per_gpu_hour,
                        c.price_source.empty() ? "no source" : escaped(c.price_source)));
  }
  if (!a.subject.energy) return;
  const StepEnergy& e = *a.subject.energy;
  out.add("energy of a step", fmt::format("{:.6g} J", a.step_joules()),
          "devices x (busy x computing + waiting x rest), and the network's bytes");
  for (const StepEnergy::Part& p : e.work) {
    if (p.joules > 0.0) out.add("  " + p.name, fmt::format("{:.4g} J", p.joules), percent(p.joules / e.joules));
  }
  for (const StepEnergy::Part& p : e.moves) {
    out.add("  data over " + p.name, fmt::format("{:.4g} J", p.joules),
            fmt::format("{}{}", percent(p.joules / e.joules),
                        p.name == "network" ? ", beside the devices" : ", a part of the devices' energy"));
  }
  for (const std::string& source : e.sources) out.add("power", source.substr(0, source.find(" (")), escaped(source));
  if (const std::optional<double> joules = a.joules()) {
    out.add("energy", fmt::format("{:.6g} J", *joules),
            fmt::format("steps, also those done again, x a step's; idle {:.4g} W in the rest; x PUE {:g}", e.idle_w,
                        a.electricity.pue));
  }
}

}  // namespace

std::string forecast_explained(const ForecastAnswer& a) {
  Lines out;
  step_lines(out, a);
  reliability_lines(out, a);
  checkpoint_lines(out, a);
  time_lines(out, a);
  cost_lines(out, a);
  return "\nEvery figure\n" + out.str();
}

}  // namespace orrery
