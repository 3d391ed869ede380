#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/critical_path.hpp"
#include "cli/drawing.hpp"
#include "cli/fabric.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/units_text.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/report_file.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/memory_report.hpp"

namespace orrery {
namespace {

/// A timeline with more ops than this is slow to open.
constexpr std::uint64_t most_ops = 200'000;

/// What the viewers and `check` still take; more is refused without --large.
constexpr double most_bytes = 2e9;

/// Ops of one step on all ranks.
std::uint64_t step_ops(const Program& program) {
  std::uint64_t sum = 0;
  for (const RankClass& c : program.classes) {
    for (const Slot& slot : c.step) sum += std::uint64_t{slot.repeat} * program[slot.block].ops.size();
  }
  return sum * (program.mesh.size() / program.classes.size());
}

/// A kind of operation that takes longer where links are shared: means over ranks.
struct Delay {
  std::string name;
  Seconds shared, alone;
};

/// Those that sharing delays by a thousandth or more, most delayed first.
std::vector<Delay> delays(const Report& shared, const Report& alone) {
  std::vector<Delay> out;
  for (const OperationTime& s : shared.operations) {
    for (const OperationTime& a : alone.operations) {
      if (a.name == s.name && s.time > 1.001 * a.time) out.push_back({s.name, s.time, a.time});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Delay& x, const Delay& y) { return x.shared - x.alone > y.shared - y.alone; });
  return out;
}

class SimulateVerb final : public Verb {
 public:
  const char* name() const override { return "simulate"; }
  const char* summary() const override { return "play a plan's step as discrete events, op by op"; }

  void declare(Command& c) override {
    c.positional("PLAN", plan_, "a plan file, or the name of an example plan");
    c.option("--cluster", cluster_, "in place of the plan's: a name or a .toml file");
    c.option("--trace", trace_, "write the timeline here; opens in Perfetto (ui.perfetto.dev)");
    c.choice("--ranks", ranks_, {"auto", "all", "classes"},
             "ranks in the trace; auto: all up to 200000 ops, then one rank of each stage");
    c.flag("--large", large_, "write a timeline of more than 2 GB");
    c.flag("--critical-path", critical_path_,
           "the ops that decide how long the step takes, and what faster ones would bring");
    c.option("--noise", noise_, "spread of random delays of ops, relative");
    c.option("--stragglers", stragglers_, "so many ranks, drawn by seed, compute slower");
    c.option("--slowdown", slowdown_, "the compute of stragglers takes so many times as long");
    c.flag("--expand", expand_, "simulate every rank, not one of each class of ranks that behave alike");
    c.option("--fabric", fabric_, "let communications share the links of this fabric: a name or a .toml file");
    c.option("--draw", draw_,
             "draw the fabric here (.svg, .png, .pdf, .dot), its links coloured by load; with --fabric");
    c.option("--routes", routes_,
             "of several ways through the fabric: by-destination (the default), hashed, rail-local");
    c.option("--seed", seed_, "of the random delays, the stragglers and hashed routes",
             {0, std::numeric_limits<std::uint64_t>::max()});
    declare_allocator(c, flags_);
    declare_machine(c, flags_);
    declare_output(c, flags_, "write the report here, as JSON");
    c.examples(
        "  orrery simulate plan.toml --trace step.json\n"
        "  orrery simulate demo-2x2x2 --json\n"
        "  orrery simulate plan.toml --noise 0.05 --seed 7\n"
        "  orrery simulate plan.toml --critical-path\n"
        "  orrery simulate plan.toml --stragglers 2 --slowdown 1.3\n"
        "  orrery simulate plan.toml --fabric dgx-h100-superpod --routes hashed");
  }

  int run() override {
    if (!(noise_ >= 0.0 && noise_ <= 10.0)) refuse("cli.noise", "--noise is from 0 to 10");
    if (!(slowdown_ >= 1.0 && slowdown_ <= 1000.0)) refuse("cli.slowdown", "--slowdown is from 1 to 1000");
    keep_apart(plan_path(plan_, library_of(flags_)), {flags_.output, trace_, draw_});
    const LoadedPlan loaded = load_plan(plan_, flags_, cluster_);
    SimulateOptions options;
    options.expand = expand_;
    const bool all = ranks_ == "all" || (ranks_ == "auto" && step_ops(loaded.program) <= most_ops);
    options.trace = !trace_ ? SimulateOptions::Ranks::none
                    : all   ? SimulateOptions::Ranks::all
                            : SimulateOptions::Ranks::classes;
    options.critical_path = critical_path_;
    if (noise_ > 0.0) options.noise = Noise{seed_, noise_};
    if (stragglers_ > loaded.program.mesh.size()) {
      refuse("cli.stragglers",
             fmt::format("--stragglers asks for {} of {}", stragglers_, counted(loaded.program.mesh.size(), "rank")));
    }
    if (stragglers_ > 0) options.stragglers = Stragglers{seed_, stragglers_, slowdown_};
    const std::optional<Fabric> fabric = fabric_for(loaded);
    if (fabric) options.fabric = FabricRoutes{&*fabric, path_rule(), seed_};
    if (trace_) require_trace(loaded.program, all);
    if (draw_) require_drawing(fabric);
    require_output(flags_);
    Progress progress;
    options.progress.report = [&](std::uint64_t done, std::uint64_t total) { progress.show("simulate", done, total); };
    options.progress.cancelled = &interrupted();
    catch_interrupt();
    Simulation result;
    std::optional<Report> unshared;  // the same step, its noise included, with every link to itself
    try {
      if (fabric) {
        SimulateOptions alone = options;
        alone.fabric.reset();
        alone.trace = SimulateOptions::Ranks::none;
        alone.critical_path = false;
        unshared = simulate(loaded.run, loaded.program, cost_model(loaded), alone).report;
      }
      result = simulate(loaded.run, loaded.program, cost_model(loaded), options);
    } catch (const SimulationCancelled& stopped) {
      progress.clear();
      return partial(loaded, stopped);
    }
    Report& report = result.report;
    tell_prices(report, loaded.calibration);
    add_process_memory(report, loaded.run, loaded.program, loaded.calibration.calibration.memory,
                       flags_.expandable_segments);
    sort_by_load(result.links);
    const std::size_t written = trace_ ? write_trace(loaded, result.trace, progress) : 0;
    const bool stopped = trace_ && interrupted().load();
    progress.clear();
    if (draw_) {
      const std::string format = format_of(*draw_);
      const std::string graph = dot_of(*fabric, shares_of_time(*fabric, result.links, report.step_time));
      write_file(*draw_, format == "dot" ? graph : draw(graph, format));
    }
    write_output(flags_, write_report(report));
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      nlohmann::ordered_json json = to_json(report);
      json["events"] = result.events;
      json["rank_classes"] = result.rank_classes;
      if (result.link_classes) {
        json["link_classes"] = *result.link_classes;
        json["flow_classes"] = *result.flow_classes;
      }
      if (fabric) {
        json["unshared_step_time_s"] = unshared->step_time.base();
        json["delayed_operations"] = nlohmann::ordered_json::array();
        for (const Delay& d : delays(report, *unshared)) {
          json["delayed_operations"].push_back(
              {{"name", d.name}, {"time_s", d.shared.base()}, {"unshared_time_s", d.alone.base()}});
        }
        json["links_used"] = result.links.size();
        json["links"] = loads_json(*fabric, result.links, report.step_time, 100);
      }
      if (result.critical_path) json["critical_path"] = path_json(result);
      json["complete"] = !stopped;
      if (trace_) json["trace_ranks"] = written;
      print_json(json);
    } else {
      std::string out = heading_text(loaded.run, loaded.calibration.origin, describe(loaded.calibration.software)) +
                        resolutions_text(loaded.resolved) + "\n" + report_text(report);
      if (fabric) {
        out += fmt::format("\n  {} with every link to itself; sharing them costs {}\n\n",
                           short_text(unshared->step_time), percent(report.step_time / unshared->step_time - 1.0));
        Table table({"<delayed by sharing", "time", "with links to itself"});
        for (const Delay& d : delays(report, *unshared)) table.row({d.name, short_text(d.shared), short_text(d.alone)});
        if (!delays(report, *unshared).empty()) out += table.str() + "\n";
        out += loads_text(*fabric, result.links, report.step_time, 8);
      }
      if (result.critical_path) out += "\n" + path_text(result);
      out += fmt::format("\n  {} events\n", result.events);
      const std::uint64_t ranks = loaded.program.mesh.size();
      if (result.rank_classes < ranks) {
        out += fmt::format("  {} in {} of ranks that behave alike", counted(ranks, "rank"),
                           counted(result.rank_classes, "class", "classes"));
        if (result.link_classes) {
          out += fmt::format("; {} of links, {} of flows", counted(*result.link_classes, "class", "classes"),
                             counted(*result.flow_classes, "class", "classes"));
        }
        out += "\n";
      }
      if (stopped) {
        out += fmt::format("  Interrupted while writing the timeline: {} of {} in {}\n", written,
                           counted(result.trace.ranks.size(), "rank"), *trace_);
      } else if (trace_) {
        out += fmt::format("  timeline of {} in {}\n", counted(written, "rank"), *trace_);
      }
      print(out);
    }
    return report.fits && !stopped ? status_fine : status_no;
  }

 private:
  /// What --routes says; refused without a fabric.
  PathRule path_rule() const {
    if (!routes_) return PathRule::by_destination;
    const std::optional<PathRule> rule = path_rule_named(*routes_);
    if (!rule) {
      refuse("cli.fabric", fmt::format("there are no routes \"{}\"", printable(*routes_)),
             {"Known: by-destination, hashed, rail-local."});
    }
    return *rule;
  }

  /// The fabric that was asked for; refused where it is not the cluster's.
  std::optional<Fabric> fabric_for(const LoadedPlan& loaded) const {
    if (!fabric_ && routes_) refuse("cli.fabric", "--routes goes with --fabric only");
    if (!fabric_) return std::nullopt;
    Diagnostics d;
    std::optional<Fabric> fabric = named_fabric(library_of(flags_), *fabric_, d);
    require_none(d);
    const ClusterSpec& cluster = *loaded.run.cluster;
    const FabricSpec& spec = fabric->spec();
    if (spec.gpus() < cluster.devices()) {
      refuse("cli.fabric",
             fmt::format("{} joins {} GPUs, and the plan's cluster has {}", printable(spec.name), spec.gpus(),
                         cluster.devices()),
             {fmt::format("{} nodes of {} would do.", (cluster.devices() + spec.node.gpus - 1) / spec.node.gpus,
                          spec.node.gpus)});
    }
    const bool unlike =
        cluster.nodes > 1 ? spec.node.gpus != cluster.devices_per_node : spec.node.gpus < cluster.devices_per_node;
    if (unlike) {
      refuse("cli.fabric",
             fmt::format("nodes of {} have {} GPUs, and those of the plan's cluster {}", printable(spec.name),
                         spec.node.gpus, cluster.devices_per_node),
             {"Both must be of the same boxes: prices come from the cluster, shares of links from the fabric."});
    }
    return fabric;
  }

  /// Refuses, before the work that leads to it, a drawing of nothing, of no known kind, or that nobody could look at.
  void require_drawing(const std::optional<Fabric>& fabric) const {
    refuse_standard_output("--draw", draw_);
    if (!fabric) refuse("cli.fabric", "--draw goes with --fabric only");
    require_folder(*draw_);
    if (format_of(*draw_).empty()) {
      refuse("cli.flags", fmt::format("{} says no kind of drawing", printable(*draw_)),
             {"A name that ends in .svg, .png or .pdf is drawn by Graphviz; .dot and .gv hold the graph as text."});
    }
    constexpr std::uint32_t most_drawn = 6000;
    if (format_of(*draw_) != "dot" && fabric->links() > most_drawn) {
      refuse("cli.flags",
             fmt::format("{} has {} links, too many for a picture", printable(fabric->spec().name), fabric->links()),
             {fmt::format("At most {} are drawn; a name that ends in .dot takes any number, as text.", most_drawn)});
    }
  }

  /// Refuses a timeline that nothing could open, before the work that leads to it.
  void require_trace(const Program& program, bool all) const {
    refuse_standard_output("--trace", trace_);
    require_folder(*trace_);
    const double size = chrome_trace_size(program, all);
    if (size <= most_bytes || large_) return;
    std::vector<std::string> details;
    if (all) {
      details.push_back(fmt::format("--ranks classes writes one rank of each pipeline stage: about {}.",
                                    short_text(Bytes::of(chrome_trace_size(program, false)))));
    }
    details.push_back("--large writes it all the same.");
    refuse(
        "cli.trace-size",
        fmt::format("the timeline of {} would take about {}",
                    counted(all ? program.mesh.size() : program.classes.size(), "rank"), short_text(Bytes::of(size))),
        std::move(details));
  }

  /// Returns the number of ranks written.
  std::size_t write_trace(const LoadedPlan& loaded, const Trace& trace, Progress& progress) const {
    FileWriter file(*trace_);
    const std::string size =
        short_text(Bytes::of(chrome_trace_size(loaded.program, trace.ranks.size() > loaded.program.classes.size())));
    double bytes = 0.0;
    ChromeTraceOptions chrome;
    chrome.plan = loaded.run.plan.name;
    ChromeTraceSink sink;
    sink.write = [&](std::string_view text) {
      file.write(text);
      bytes += static_cast<double>(text.size());
    };
    sink.progress = [&](std::uint64_t done, std::uint64_t total) {
      progress.show("write", done, total, {}, fmt::format("{} of about {}", short_text(Bytes::of(bytes)), size));
    };
    sink.cancelled = &interrupted();
    const std::size_t written = write_chrome_trace(trace, loaded.program, chrome, sink);
    file.close();
    return written;
  }

  /// A step that was stopped has no step time; what is known is how far it came,
  /// and the estimate, which no simulation undercuts.
  int partial(const LoadedPlan& loaded, const SimulationCancelled& stopped) const {
    Report least = estimate(loaded.run, loaded.program, cost_model(loaded));
    tell_prices(least, loaded.calibration);
    const Seconds clock = Seconds::of(static_cast<double>(stopped.clock) * 1e-12);
    if (flags_.json) {
      nlohmann::ordered_json json;
      json["complete"] = false;
      json["ops_done"] = stopped.done;
      json["ops"] = stopped.total;
      json["simulated_s"] = clock.base();
      json["estimate"] = to_json(least);
      print_json(json);
    } else {
      print(heading_text(loaded.run, loaded.calibration.origin, describe(loaded.calibration.software)) +
            resolutions_text(loaded.resolved) +
            fmt::format("\nInterrupted after {} of {} operations, {} into the step.  Its estimate:\n\n",
                        with_commas(stopped.done), with_commas(stopped.total), short_text(clock)) +
            report_text(least));
    }
    return status_no;
  }

  CommonFlags flags_;
  std::string plan_;
  std::optional<std::string> cluster_, trace_, fabric_, draw_;
  std::optional<std::string> routes_;
  std::string ranks_ = "auto";
  bool large_ = false;
  bool expand_ = false;
  bool critical_path_ = false;
  double noise_ = 0.0;
  std::uint32_t stragglers_ = 0;
  double slowdown_ = 1.5;
  std::uint64_t seed_ = 1;
};

}  // namespace

std::unique_ptr<Verb> simulate_verb() { return std::make_unique<SimulateVerb>(); }

}  // namespace orrery
