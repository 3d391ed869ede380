#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/critical_path.hpp"
#include "cli/drawing.hpp"
#include "cli/fabric.hpp"
#include "cli/interrupt.hpp"
#include "cli/lifecycle_file.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/simulate_jobs.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "core/program/op_count.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/report_file.hpp"
#include "planner/least_anywhere.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

/// A timeline with more ops than this is slow to open.
constexpr std::uint64_t most_ops = 200'000;

/// The viewers and `check` still take this much; more is refused without --large.
constexpr double most_bytes = 2e9;

/// Ops of one step on all ranks.
std::uint64_t step_ops(const Program& program) {
  std::uint64_t sum = 0;
  for (const RankClass& c : program.classes) sum += op_count(program, c.step);
  return sum * (program.mesh.size() / program.classes.size());
}

/// A kind of operation that takes longer where links are shared: means over ranks.
struct Delay {
  std::string name;
  Seconds shared, alone;
};

/// The kinds that sharing delays by a thousandth or more, most delayed first.
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

/// Tells the hooks the life of the one step that was simulated.
void tell_all(const Program& program, const Trace& trace, const std::string& path) {
  LifecycleFile log(path);
  log.hooks().init({trace.origin, program.mesh.size()});
  tell_step(log.hooks(), program, trace, {1, false, 0, {}});
  log.hooks().shutdown({1});
}

class SimulateVerb final : public Verb {
 public:
  const char* name() const override { return "simulate"; }
  const char* summary() const override { return "play a plan's step as discrete events, op by op"; }

  void declare(Command& c) override {
    c.positional("PLAN", plans_, "a plan file, or the name of an example plan; with --on, one for each job");
    c.option("--on", jobs_.cluster,
             "jobs side by side on this cluster, whose links they share: a name or a .toml file");
    c.option("--nodes", jobs_.placement.nodes,
             "with --on: nodes of each job, as 0-3/4,6; default: the jobs lie one after the other");
    c.option("--on-gpus", jobs_.placement.gpus, "with --on: GPUs of each job, as 0-3/4-7");
    c.flag("--interleave", jobs_.placement.interleave, "with --on: deal the nodes to the jobs in turn");
    c.option("--steps", jobs_.steps, "with --on: least number of steps of each job; the first does not count",
             {1, 10'000});
    c.option("--cluster", cluster_, "cluster in place of the plan's: a name, a .toml file, or as h200:8x4");
    c.option("--trace", trace_, "write the timeline here; opens in Perfetto (ui.perfetto.dev)");
    c.option("--log", log_, "write a log of events here, as orrery run --log does, for the ranks that --ranks names");
    c.choice("--ranks", ranks_, {"auto", "all", "classes"},
             "ranks in the trace; auto: all up to 200000 ops, then one rank of each stage");
    c.flag("--large", large_, "write a timeline of more than 2 GB");
    c.flag("--critical-path", critical_path_,
           "the ops that decide how long the step takes, and what faster ones would bring");
    c.option("--noise", noise_, "spread of random delays of ops, relative");
    c.option("--stragglers", stragglers_, "number of ranks, drawn by seed, that compute slower");
    c.option("--slowdown", slowdown_, "factor by which the compute of stragglers takes longer");
    c.option("--slow-gpus", slow_gpus_, "GPUs of the cluster that compute slower, and the factor, as 3,8-15=1.3");
    c.flag("--expand", expand_, "simulate every rank, not one of each class of ranks that behave alike");
    c.option("--fabric", fabric_, "let communications share the links of this fabric: a name or a .toml file");
    c.option("--draw", draw_,
             "draw the fabric here (.svg, .png, .pdf, .dot), its links coloured by load; with --fabric or --on");
    c.option(
        "--routes", routes_,
        "which of several ways a message takes through the fabric: by-destination (the default), hashed, rail-local");
    c.option("--fail", faults_.fail,
             "a link or switch of the fabric that has failed, as \"leaf 0 -- spine 1\"; may be given again");
    c.option("--degrade", faults_.degrade,
             "a link and the share of its bandwidth that is left, as \"leaf 0 -- spine 1=0.5\"");
    c.option("--seed", seed_, "seed of the random delays, the stragglers and hashed routes",
             {0, std::numeric_limits<std::uint64_t>::max()});
    declare_allocator(c, flags_);
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the report here, as JSON");
    c.examples(
        "  orrery simulate plan.toml --trace step.json\n"
        "  orrery simulate demo-2x2x2 --json\n"
        "  orrery simulate plan.toml --noise 0.05 --seed 7\n"
        "  orrery simulate plan.toml --critical-path\n"
        "  orrery simulate plan.toml --stragglers 2 --slowdown 1.3\n"
        "  orrery simulate plan.toml --fabric dgx-h100-superpod --routes hashed\n"
        "  orrery simulate plan.toml --fabric dgx-h100-superpod --fail \"leaf 0 -- spine 1\"\n"
        "  orrery simulate a.toml b.toml --on dgx-h100 --interleave --trace jobs.json");
  }

  int run() override {
    if (!(noise_ >= 0.0 && noise_ <= 10.0))
      refuse("cli.noise", fmt::format("--noise is {}; it must be from 0 to 10", noise_));
    if (!(slowdown_ >= 1.0 && slowdown_ <= 1000.0))
      refuse("cli.slowdown", fmt::format("--slowdown is {}; it must be from 1 to 1000", slowdown_));
    if (jobs_.cluster) return run_jobs();
    if (plans_.size() > 1) {
      refuse("cli.jobs", fmt::format("there are {} plans, but no cluster for them", plans_.size()),
             {"--on CLUSTER plays them side by side on it."});
    }
    if (jobs_.placement.nodes || jobs_.placement.gpus || jobs_.placement.interleave ||
        jobs_.steps != JobsRequest{}.steps) {
      refuse("cli.jobs", "--nodes, --on-gpus, --interleave and --steps go with --on only");
    }
    keep_apart(plan_path(plans_.front(), library_of(flags_)), {flags_.output, trace_, log_, draw_});
    const LoadedPlan loaded = load_plan(plans_.front(), flags_, cluster_);
    SimulateOptions options;
    options.expand = expand_;
    const bool all = ranks_ == "all" || (ranks_ == "auto" && step_ops(loaded.program) <= most_ops);
    options.trace = !trace_ && !log_ ? SimulateOptions::Ranks::none
                    : all            ? SimulateOptions::Ranks::all
                                     : SimulateOptions::Ranks::classes;
    options.critical_path = critical_path_;
    options.exposed = true;
    if (noise_ > 0.0) options.noise = Noise{seed_, noise_};
    if (stragglers_ > loaded.program.mesh.size()) {
      refuse("cli.stragglers",
             fmt::format("--stragglers asks for {} of {}", stragglers_, counted(loaded.program.mesh.size(), "rank")));
    }
    if (stragglers_ > 0) options.stragglers = Stragglers{seed_, stragglers_, slowdown_};
    const std::map<std::uint32_t, double> slow = slow_gpus_of(slow_gpus_);
    options.slow = slow_ranks_on(slow, loaded.program.mesh.size(), loaded.run.plan.placement);
    require_ranks_on(slow, {options.slow});
    const std::optional<Fabric> fabric = fabric_for(loaded);
    if (fabric) options.fabric = FabricRoutes{&*fabric, path_rule_of(routes_), seed_};
    if (trace_) require_trace(loaded.program, all);
    refuse_standard_output("--log", log_);
    if (log_) require_folder(*log_);
    if (draw_ && !fabric) refuse("cli.fabric", "--draw goes with --fabric only");
    if (draw_) require_drawing(*draw_, *fabric);
    require_output(flags_);
    Progress progress;
    options.progress.report = [&](std::uint64_t done, std::uint64_t total) { progress.show("simulate", done, total); };
    options.progress.cancelled = &interrupted();
    catch_interrupt();
    Simulation result;
    std::optional<Report> unshared;  // the same step, with its noise, where every link is unshared
    try {
      if (fabric) {
        SimulateOptions alone = options;
        alone.fabric.reset();
        alone.trace = SimulateOptions::Ranks::none;
        alone.critical_path = alone.exposed = false;
        unshared = simulate(loaded.run, loaded.program, cost_model(loaded), alone).report;
      }
      result = simulate(loaded.run, loaded.program, cost_model(loaded), options);
    } catch (const SimulationCancelled& stopped) {
      progress.clear();
      return partial(loaded, stopped);
    }
    // A lower bound on the step with its ranks on other devices. Noise may undercut it, and it says nothing where ranks
    // wait for cores.
    std::optional<Seconds> anywhere;
    if (critical_path_ && !options.noise && !cost_model(loaded).core_sharing())
      anywhere = least_anywhere(loaded.program, cost_model(loaded));
    Report& report = result.report;
    tell_prices(report, loaded.calibration);
    judge_memory(report, loaded.run, loaded.program, loaded.calibration.calibration, {{}, flags_.expandable_segments});
    sort_by_load(result.links);
    if (log_) tell_all(loaded.program, result.trace, *log_);
    const std::size_t written = trace_ ? write_trace(loaded, result.trace, progress) : 0;
    const bool stopped = trace_ && interrupted().load();
    progress.clear();
    if (draw_) write_drawing(*draw_, *fabric, result.links, report.step_time);
    write_output(flags_, write_report(report));
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      nlohmann::ordered_json json = to_json(report);
      json["events"] = result.events;
      json["history_hash"] = fmt::format("{:016x}", result.history_hash);
      json["rank_classes"] = result.rank_classes;
      json["exposed_operations"] = nlohmann::ordered_json::array();
      for (const ExposedOperation& e : result.exposed) {
        json["exposed_operations"].push_back({{"name", e.name}, {"time_s", e.time.base()}});
      }
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
      if (result.critical_path) json["critical_path"] = path_json(result, anywhere);
      json["complete"] = !stopped;
      if (trace_) json["trace_ranks"] = written;
      print_json(json);
    } else {
      std::string out =
          heading_text(loaded.run, loaded.calibration) + resolutions_text(loaded.resolved) + "\n" + report_text(report);
      Table exposed({"<exposed communication", "time", "of the step"});
      for (const ExposedOperation& e : result.exposed) {
        exposed.row({e.name, short_text(e.time), percent(e.time / report.step_time)});
      }
      if (!result.exposed.empty()) out += "\n" + exposed.str();
      if (fabric) {
        out += fmt::format("\n  {} with every link to itself; sharing them costs {}\n\n",
                           short_text(unshared->step_time), percent(report.step_time / unshared->step_time - 1.0));
        Table table({"<delayed by sharing", "time", "with links to itself"});
        for (const Delay& d : delays(report, *unshared)) table.row({d.name, short_text(d.shared), short_text(d.alone)});
        if (!delays(report, *unshared).empty()) out += table.str() + "\n";
        out += loads_text(*fabric, result.links, report.step_time, 8);
      }
      if (result.critical_path) out += "\n" + path_text(result, anywhere);
      out += fmt::format("\n  {} events, history {:016x}\n", result.events, result.history_hash);
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
      print_wrapped(out + unfit_text(loaded.run.plan.name, report));
    }
    return report.fits && !stopped ? status_fine : status_no;
  }

 private:
  /// Runs several jobs, or one, on a cluster that the command line chooses.
  int run_jobs() {
    if (critical_path_) refuse("cli.jobs", "--critical-path goes with one plan, without --on");
    if (log_) refuse("cli.jobs", "--log goes with one plan, without --on");
    if (cluster_) refuse("cli.jobs", "--on and --cluster contradict each other");
    if (ranks_ != "auto" || large_)
      refuse("cli.jobs", "the timeline of jobs has one rank of each class: no --ranks or --large");
    jobs_.plans = plans_;
    jobs_.fabric = fabric_;
    jobs_.faults = faults_;
    jobs_.rule = path_rule_of(routes_);
    jobs_.seed = seed_;
    jobs_.expand = expand_;
    if (noise_ > 0.0) jobs_.noise = Noise{seed_, noise_};
    if (stragglers_ > 0) jobs_.stragglers = Stragglers{seed_, stragglers_, slowdown_};
    jobs_.slow_gpus = slow_gpus_;
    jobs_.trace = trace_;
    jobs_.draw = draw_;
    return run_simulate_jobs(jobs_, flags_);
  }

  /// The fabric of --fabric; refused where it does not fit the cluster.
  std::optional<Fabric> fabric_for(const LoadedPlan& loaded) const {
    if (!fabric_ && routes_) refuse("cli.fabric", "--routes goes with --fabric only");
    if (!fabric_ && !(faults_.fail.empty() && faults_.degrade.empty())) {
      refuse("cli.fabric", "--fail and --degrade go with --fabric or --on only");
    }
    if (!fabric_) return std::nullopt;
    return with_faults(fabric_for_cluster(library_of(flags_), *fabric_, *loaded.run.cluster), faults_);
  }

  /// Refuses a timeline that no program could open, before the work that leads to it.
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
    details.push_back("--large writes it anyway.");
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

  /// Reports a step that was stopped. It has no step time, so this shows how far it came, and the estimate, which no
  /// simulation undercuts.
  int partial(const LoadedPlan& loaded, const SimulationCancelled& stopped) const {
    Report least = estimate(loaded.run, loaded.program, cost_model(loaded));
    judge_memory(least, loaded.run, loaded.program, loaded.calibration.calibration, {{}, flags_.expandable_segments});
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
      print_wrapped(heading_text(loaded.run, loaded.calibration) + resolutions_text(loaded.resolved) +
                    fmt::format("\nInterrupted after {} of {} operations, {} into the step.  Its estimate:\n\n",
                                with_commas(stopped.done), with_commas(stopped.total), short_text(clock)) +
                    report_text(least));
    }
    return status_no;
  }

  CommonFlags flags_;
  std::vector<std::string> plans_;
  JobsRequest jobs_;
  FaultFlags faults_;
  std::vector<std::string> slow_gpus_;
  std::optional<std::string> cluster_, trace_, log_, fabric_, draw_;
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
