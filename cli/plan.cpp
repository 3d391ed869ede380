#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/amounts.hpp"
#include "cli/common.hpp"
#include "cli/fabric.hpp"
#include "cli/forecast_answer.hpp"
#include "cli/forecast_text.hpp"
#include "cli/found_plans_text.hpp"
#include "cli/interrupt.hpp"
#include "cli/nearest_fit.hpp"
#include "cli/other_programs.hpp"
#include "cli/placement_text.hpp"
#include "cli/plan_source.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/search_question.hpp"
#include "cli/smallest_machine.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_names.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/report_file.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/framework.hpp"
#include "planner/describe.hpp"
#include "planner/levels.hpp"
#include "planner/placement.hpp"
#include "planner/search.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

nlohmann::ordered_json levels_json(const Levels& levels) {
  nlohmann::ordered_json json;
  json["shapes"] = levels.shapes;
  for (const auto& [name, list] : {std::pair{"coarse", &levels.coarse}, {"changed", &levels.changed}}) {
    json[name] = nlohmann::ordered_json::object();
    for (const Level& level : *list) json[name][level.key] = level.values;
  }
  return json;
}

class PlanVerb final : public Verb {
 public:
  const char* name() const override { return "plan"; }
  const char* summary() const override { return "find the best plans for a model on a cluster"; }

  void declare(Command& c) override {
    SearchQuestion& q = question_;
    c.required("--model", q.model, "a name, a .toml file, or a Hugging Face config.json");
    c.required("--cluster", q.cluster, "a name, a .toml file, or device:devices per box x boxes: h200:8x4, l40s:8");
    c.required("--batch", q.batch, "sequences per optimizer step", {1, max_batch});
    c.required("--seq", q.sequence, "tokens per sequence: 8192, or 8k", {1, max_sequence});
    c.choice("--precision", q.precision, {precision_names().begin(), precision_names().end()},
             "precision of weights and activations");
    declare_search(c, q);
    c.option("--top", top_, "plans to find; as many are shown as fit side by side", {1, 10'000});
    c.flag("--wide", wide_, "show all of them side by side, however wide, with every decision and figure");
    c.flag("--verbose", verbose_, "every decision and figure, and what memory consists of");
    c.option("--threads", threads_, "number of threads; 0: all cores", {0, 4096});
    c.option("--for", q.framework,
             "the program that is to launch the plan: all that it can launch is searched, and its costs are priced "
             "(orrery show frameworks); any: every dimension; without it the usual one on the device is assumed");
    c.option("--export", q.writer,
             "print the best plan as a launch of another program (orrery export --help lists them); without --for only "
             "what that program can launch is searched");
    c.option("--tokens", tokens_, "then forecast the plans' whole runs of so many tokens (orrery forecast): 1T, 300B");
    c.flag("--no-simulate", no_simulate_, "leave the found plans unsimulated with --json, --verbose and --wide, too");
    c.option("--fabric", fabric_,
             "then place the best plan's ranks on these wires, links shared (orrery place): a name or a .toml file");
    c.option(
        "--routes", routes_,
        "which of several ways a message takes through the fabric: by-destination (the default), hashed, rail-local");
    c.flag(
        "--smallest", smallest_,
        "first try 1, 2, 4 ... devices of the cluster's kind, up to --gpus or 1024, and plan for the first that fits");
    c.flag("--space", show_space_, "describe the space that would be searched, and stop");
    declare_machine(c, q.flags);
    declare_output(c, q.flags, "write the best plan here; with --space, the space");
    c.examples(
        "  orrery plan --model llama-3-70b --cluster dgx-h100 --gpus 64 --batch 128 --seq 8192 -o best.toml\n"
        "  orrery plan --model gpt3-175b --cluster dgx-a100 --gpus 128 --batch 256 --seq 2048 --export megatron\n"
        "  orrery plan --model llama-3-70b --cluster dgx-h100 --gpus 64 --batch 128 --seq 8192 --fabric "
        "dgx-h100-superpod\n"
        "  orrery plan --model llama-3-70b --cluster dgx-h100 --batch 8 --seq 4096 --adapters 16 --smallest\n"
        "  orrery plan --model path/to/config.json --cluster dgx-a100 --gpus 16 --batch 64 --seq 2048 --top 3\n"
        "  orrery plan --model tiny-gpt --cluster local-cpu --gpus 4 --batch 16 --seq 128 --precision fp32 --json");
  }

  int run() override;

 private:
  void read();
  /// Takes the smallest machine that fits.
  void find_smallest(const SearchOptions&);
  PlannedRun planned(const Plan& plan, const std::string& name) const;
  PlannedRun planned(const FoundPlan& found, std::size_t place) const;
  /// The best placement on --fabric for the ranks of the best plan; empty where no plan was found or the search was
  /// interrupted.
  std::optional<PlacementSearch> place(const SearchResult&, const FabricRoutes&, Progress&) const;
  std::string heading() const;
  std::string headline(const SearchResult&) const;
  /// The step of the best plan as other programs run it.
  std::vector<ProgramStep> other_programs(const SearchResult& result) const {
    return other_program_steps(planned(result.plans[0], 0), task_.calibration, task_.question.flags);
  }
  std::string rejected_text(const SearchResult&) const;
  std::string text(const SearchResult&) const;
  std::string launch_hint(const SearchResult&) const;
  /// The whole runs of --tokens.
  void forecast(const SearchResult&);
  /// Whether the simulated times are shown. Without a fabric they equal the estimates, and take longer.
  [[nodiscard]] bool simulates() const { return !no_simulate_ && (task_.question.flags.json || verbose_ || wide_); }
  /// Number of plans whose simulation was asked for and interrupted.
  std::size_t unsimulated(const SearchResult&) const;
  nlohmann::ordered_json nearest_json() const;
  void write_json(const SearchResult&, const std::optional<std::string>& exported, const Diagnostics& refused,
                  std::optional<nlohmann::ordered_json> placement) const;
  std::optional<std::string> exported(const SearchResult&, Diagnostics& refused) const;

  SearchQuestion question_;  ///< as asked, until it is read
  SearchTask task_;
  std::uint32_t top_ = 3, threads_ = 0;
  std::optional<std::string> fabric_, routes_, tokens_;
  std::vector<ForecastAnswer> forecasts_;   ///< of the plans found, where --tokens is given
  std::optional<SmallestMachine> machine_;  ///< of --smallest
  bool smallest_ = false;
  bool no_simulate_ = false, show_space_ = false, wide_ = false, verbose_ = false;
};

void PlanVerb::read() {
  Diagnostics d;
  if (top_ < 1 || top_ > 10'000) {
    d.error("cli.top", "--top is out of range", {fmt::format("It is {}; from 1 to 10000 is allowed.", top_)});
  }
  if (tokens_) static_cast<void>(count_of(*tokens_, "--tokens"));
  if (threads_ > 4096) {
    d.error("cli.threads", "--threads is out of range",
            {fmt::format("It is {}; from 0 to 4096 is allowed.", threads_)});
  }
  if (smallest_) {
    require_none(d);
    return;  // the machine is found first
  }
  task_ = search_task(std::move(question_), std::move(d));
}

void PlanVerb::find_smallest(const SearchOptions& options) {
  machine_ = smallest_machine(question_, options, question_.flags.gpus.value_or(1024));
  task_ = std::move(*machine_->task);
}

PlannedRun PlanVerb::planned(const Plan& plan, const std::string& name) const { return planned_run(task_, plan, name); }

PlannedRun PlanVerb::planned(const FoundPlan& found, std::size_t place) const {
  return planned(found.plan, plan_name(task_, place));
}

nlohmann::ordered_json PlanVerb::nearest_json() const {
  const NearestFit fit = nearest_fit(task_.model, task_.workload, task_.cluster, task_.calibration.calibration,
                                     task_.headroom, task_.space.limits);
  const auto entry = [&](const std::optional<PlanMemory>& found, const ClusterSpec& cluster) {
    if (!found) return nlohmann::ordered_json(nullptr);
    PlannedRun run = planned(found->plan, "");
    run.cluster = cluster;
    return nlohmann::ordered_json{{"gpus", cluster.devices()},
                                  {"peak_memory_bytes", found->memory.live},
                                  {"memory", text_of(found->memory)},
                                  {"description", describe(found->plan)},
                                  {"plan_file", write_plan(run)}};
  };
  nlohmann::ordered_json json;
  json["least_memory"] = entry(fit.here, task_.cluster);
  json["would_fit"] = entry(fit.fits, fit.on.value_or(task_.cluster));
  json["complete"] = !fit.interrupted_at;
  return json;
}

std::size_t PlanVerb::unsimulated(const SearchResult& result) const {
  if (!simulates()) return 0;
  return static_cast<std::size_t>(
      std::count_if(result.plans.begin(), result.plans.end(), [](const FoundPlan& p) { return !p.simulated; }));
}

/// Who launches what is found.
std::string launcher_text(const SearchSpace& space) {
  if (!space.not_usual.empty()) {
    return fmt::format("launched by: no program in particular, since the usual one cannot ({})",
                       escaped(space.not_usual));
  }
  if (space.framework == nullptr) return "";
  return fmt::format("launched by: {}{}", space.framework->title,
                     space.assumed ? ", the usual one on this device (--for names another, or any)" : "");
}

/// Says what is planned, and how it is priced.
std::string PlanVerb::heading() const {
  std::string out =
      fmt::format("{}, {} parameters, on {} ({}); batch {} x {} tokens, {}, {}{}\n", escaped(task_.model.name),
                  short_count(static_cast<double>(parameter_count(task_.model))), escaped(task_.cluster.name),
                  escaped(devices_text(task_.cluster)), task_.workload.global_batch, task_.workload.sequence_length,
                  task_.question.precision, task_.question.optimizer, adapters_text(task_.model, task_.workload));
  if (const std::string unread = unread_text(task_.model); !unread.empty()) out += unread + "\n";
  out += fmt::format("software: {}\n", escaped(verbose_ ? describe(task_.calibration.software)
                                                        : describe_briefly(task_.calibration.software)));
  if (const std::string launcher = launcher_text(task_.space); !launcher.empty()) out += launcher + "\n";
  for (const DeviceBasis& device : task_.calibration.devices) out += fmt::format("device: {}\n", escaped(device.text));
  for (const std::string& what : task_.cluster.assumed) out += fmt::format("assumed: {}\n", escaped(what));
  if (verbose_) out += fmt::format("calibration: {}\n", escaped(task_.calibration.origin));
  return out + "\n";
}

/// The answer in some lines.
std::string PlanVerb::headline(const SearchResult& result) const {
  const Report& best = result.plans[0].report;
  std::string out = fmt::format("The best plan takes {} a step", headline_text(best));
  if (best.interval) out += fmt::format(" ({} in eight of ten measured cases)", step_range(best));
  out += fmt::format(".  It {}.\n", verdict_text(best));
  if (best.software_assumed && best.interval) {
    out += other_programs_text(other_programs(result));
    out += "Name your software (--software) for a closer answer.\n";
  }
  return out + "\n";
}

void PlanVerb::forecast(const SearchResult& result) {
  const double tokens = count_of(*tokens_, "--tokens");
  Diagnostics d;
  const std::optional<PowerTable> power = power_table(library_of(task_.question.flags), std::nullopt, d);
  require_none(d);
  ForecastWishes wishes;
  wishes.runs = 0;
  for (std::size_t i = 0; i < result.plans.size() && !interrupted().load(); ++i) {
    const LoadedPlan loaded = resolved_and_lowered({planned(result.plans[i], i), task_.calibration});
    forecasts_.push_back(forecast_answer(forecast_subject(loaded, *power), tokens, wishes, task_.question.flags));
  }
}

/// The plan that would have been better if it had fitted.
std::string PlanVerb::rejected_text(const SearchResult& result) const {
  if (!result.rejected) return "";
  const Report& report = result.rejected->report;
  return fmt::format("Rejected: {}: it would take {}, but needs {}.\n", describe(result.rejected->plan),
                     headline_text(report), text_of(memory_verdict(report, task_.headroom)));
}

std::string PlanVerb::text(const SearchResult& result) const {
  const auto& plans = result.plans;
  std::string out = machine_ ? smallest_text(*machine_) + heading() : heading();
  if (plans.empty() && result.complete) {
    const NearestFit fit = nearest_fit(task_.model, task_.workload, task_.cluster, task_.calibration.calibration,
                                       task_.headroom, task_.space.limits);
    out += result.shapes == 0 ? "No plan is valid.\n" : "No plan fits.\n";
    return out + result.claim + "\n" + rejected_text(result) + nearest_text(fit);
  }
  if (plans.empty()) return out + "Interrupted before a plan was found.\n" + result.claim + "\n";
  TableSize size{output_columns(), top_, verbose_ || wide_};
  if (wide_) size.columns = std::max<std::size_t>(size.columns, 20 + 26 * plans.size());
  out += headline(result) + found_plans_text(plans, task_.workload, size);
  if (!forecasts_.empty()) out += "\n" + forecasts_text(forecasts_);
  if (!result.complete) {
    out += "\nInterrupted: the best of the plans estimated so far.\n";
  } else if (unsimulated(result) > 0) {
    out += fmt::format("\nInterrupted: {} of the {} were not simulated; all plans were estimated.\n",
                       unsimulated(result), counted(plans.size(), "best plan"));
  }
  out += "\n" + rejected_text(result) + result.claim + "\n";
  if (task_.headroom > Bytes()) {
    out += fmt::format("{} of every device stay free, for the measured error of memory (--memory-margin).\n",
                       short_text(task_.headroom));
  }
  return out;
}

/// The command that launches what was found.
std::string PlanVerb::launch_hint(const SearchResult& result) const {
  const Framework* framework = task_.space.framework;
  if (framework == nullptr || framework->writings.empty()) return "";
  Diagnostics refused;
  static_cast<void>(framework->writings.front().write(planned(result.plans[0], 0), refused));
  if (!refused.empty()) {
    return fmt::format("No launch of it can be written: {} [{}].\n", refused.list().front().message,
                       refused.list().front().code);
  }
  const std::string_view writing = framework->writings.front().name;
  const std::optional<std::string>& kept = task_.question.flags.output;
  if (!kept) return fmt::format("Launch it: --export {} prints how; -o FILE keeps the plan.\n", writing);
  return fmt::format("Launch it: orrery export {} --to {}\n", escaped(*kept), writing);
}

/// The launch of the best plan, where asked for.
std::optional<std::string> PlanVerb::exported(const SearchResult& result, Diagnostics& refused) const {
  if (!task_.question.writer || result.plans.empty()) return std::nullopt;
  const PlannedRun best = planned(result.plans[0], 0);
  for (const LaunchWriting& w : launch_writings()) {
    if (w.name == *task_.question.writer) return w.write(best, refused);
  }
  return std::nullopt;
}

void PlanVerb::write_json(const SearchResult& result, const std::optional<std::string>& exported,
                          const Diagnostics& refused, std::optional<nlohmann::ordered_json> placement) const {
  nlohmann::ordered_json json;
  json["plans"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const FoundPlan& found = result.plans[i];
    nlohmann::ordered_json entry = to_json(found.report);
    entry["plan"] = planned(found, i).plan.name;
    entry["description"] = describe(found.plan);
    entry["plan_file"] = write_plan(planned(found, i));
    if (i < forecasts_.size()) entry["forecast"] = forecast_json(forecasts_[i]);
    entry["simulated"] = found.simulated ? to_json(*found.simulated) : nlohmann::ordered_json(nullptr);
    json["plans"].push_back(std::move(entry));
  }
  if (machine_) json["smallest"] = smallest_json(*machine_);
  json["framework"] = nullptr;
  if (const SearchSpace& space = task_.space; space.framework != nullptr) {
    json["framework"] = {{"name", space.framework->name}, {"assumed", space.assumed}};
  }
  json["memory_margin_bytes"] = static_cast<std::uint64_t>(task_.headroom.base());
  json["coarse_plans"] = result.shapes;
  json["looked_at"] = result.looked_at;
  json["estimated"] = result.estimated;
  json["changes"] = result.changes;
  json["wall_s"] = result.wall_s;
  const bool unplaced = placement && placement->is_null() && !result.plans.empty();
  json["complete"] = result.complete && unsimulated(result) == 0 && !unplaced;
  json["claim"] = result.claim;
  json["other_programs"] = nlohmann::ordered_json::array();
  if (!result.plans.empty()) {
    for (const ProgramStep& s : other_programs(result)) {
      json["other_programs"].push_back({{"name", s.program}, {"step_time_s", s.step.base()}, {"runs", s.runs}});
    }
  }
  if (result.rejected) {
    json["rejected"] = {{"description", describe(result.rejected->plan)},
                        {"step_time_s", result.rejected->report.step_time.base()},
                        {"memory", text_of(memory_verdict(result.rejected->report, task_.headroom))}};
  } else {
    json["rejected"] = nullptr;
  }
  if (result.plans.empty() && result.complete) json["nearest"] = nearest_json();
  if (placement) json["placement"] = std::move(*placement);
  if (exported) json["export"] = *exported;
  if (!refused.empty()) json["errors"] = errors_json(refused);
  print_json(json);
}

std::optional<PlacementSearch> PlanVerb::place(const SearchResult& result, const FabricRoutes& routes,
                                               Progress& progress) const {
  if (result.plans.empty() || interrupted().load()) return std::nullopt;
  const PlannedRun best = planned(result.plans[0], 0);
  PlacementOptions options;
  options.cancelled = &interrupted();
  options.report = [&](std::uint64_t done, std::uint64_t total, Seconds shortest) {
    progress.show("place", done, total, {}, "best " + short_text(shortest));
  };
  try {
    return search_placement(best, lower(best.model, best.workload, best.plan), task_.calibration.calibration, routes,
                            options);
  } catch (const SimulationCancelled&) {
    return std::nullopt;
  }
}

int PlanVerb::run() {
  read();
  SearchOptions options;
  options.top = top_;
  options.threads = threads_;
  options.cancel = &interrupted();
  catch_interrupt();
  Progress progress;
  options.progress = [&](const SearchProgress& p) {
    progress.settled(p.phase, p.done, p.total, p.best ? "best so far " + short_text(*p.best, 3) : "");
  };
  if (smallest_) find_smallest(options);
  std::optional<Fabric> fabric;
  FabricRoutes routes;
  if (fabric_) {
    fabric = fabric_for_cluster(library_of(task_.question.flags), *fabric_, task_.cluster);
    routes = {&*fabric, path_rule_of(routes_), 0};
  } else if (routes_) {
    refuse("cli.fabric", "--routes needs --fabric", {"A cluster's levels leave no choice of ways."});
  }
  if (show_space_) {
    const Levels levels = levels_of(task_.model, task_.workload, task_.cluster, task_.space.limits);
    const std::string shown = task_.question.flags.json ? json_text(levels_json(levels)) : describe(levels);
    task_.question.flags.output ? write_output(task_.question.flags, shown) : print(shown);
    return status_fine;
  }
  require_output(task_.question.flags);
  options.simulate = simulates();
  const SearchResult result = search(task_, options);
  progress.clear();
  if (tokens_) forecast(result);
  std::optional<PlacementSearch> placed;
  if (fabric) placed = place(result, routes, progress);
  progress.clear();
  if (!result.plans.empty()) {
    PlannedRun best = planned(result.plans[0], 0);
    if (placed) best.plan = placed->found.plan;
    write_output(task_.question.flags, write_plan(best));
  }
  Diagnostics refused;
  const std::optional<std::string> flags = exported(result, refused);
  if (prints_output(task_.question.flags) && !result.plans.empty()) {
    // It has been printed.
  } else if (task_.question.flags.json) {
    std::optional<nlohmann::ordered_json> placement;
    if (placed) {
      placement = placement_json(routes, planned(result.plans[0], 0), *placed);
    } else if (fabric) {
      placement = nullptr;
    }
    write_json(result, flags, refused, std::move(placement));
  } else {
    wide_ ? print(text(result)) : print_wrapped(text(result));
    if (placed) {
      print(fmt::format("\nThe best plan on {}, links shared\n\n", escaped(fabric->spec().name)) +
            placement_text(routes, task_.cluster.devices(), *placed));
    } else if (fabric && !result.plans.empty()) {
      print("\nInterrupted before its ranks were placed: they are in the order of its axes.\n");
    }
    if (flags) print("\n" + *flags);
    if (task_.question.flags.output && !result.plans.empty())
      print(fmt::format("The best plan is in {}.\n", *task_.question.flags.output));
    if (!result.plans.empty() && !task_.question.writer) print_wrapped(launch_hint(result));
  }
  // This comes after the result, which stands whatever the other program can express.
  if (!refused.empty()) throw InputError(refused, task_.question.flags.json);
  return result.plans.empty() || !result.complete || unsimulated(result) > 0 || (fabric && !placed) ? status_no
                                                                                                    : status_fine;
}

}  // namespace

std::unique_ptr<Verb> plan_verb() { return std::make_unique<PlanVerb>(); }

}  // namespace orrery
