#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/fabric.hpp"
#include "cli/found_plans_text.hpp"
#include "cli/memory_margin.hpp"
#include "cli/nearest_fit.hpp"
#include "cli/placement_text.hpp"
#include "cli/progress.hpp"
#include "cli/space_json.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_names.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/report_file.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/export/megatron.hpp"
#include "planner/placement.hpp"
#include "planner/search.hpp"
#include "planner/space.hpp"
#include "sim/bound/bound.hpp"
#include "sim/memory/memory_report.hpp"

namespace orrery {
namespace {

std::vector<std::string> strings(const std::vector<std::string_view>& names) { return {names.begin(), names.end()}; }

/// Built-in names stay; paths become absolute, so that the written plan works
/// from any folder.
std::string portable(const std::string& reference) {
  return is_path(reference) ? std::filesystem::absolute(reference).lexically_normal().string() : reference;
}

class PlanVerb final : public Verb {
 public:
  const char* name() const override { return "plan"; }
  const char* summary() const override { return "find the best plans for a model on a cluster"; }

  void declare(Command& c) override {
    c.required("--model", model_, "a name, a .toml file, or a Hugging Face config.json");
    c.required("--cluster", cluster_, "a name or a .toml file");
    c.required("--batch", workload_.global_batch, "sequences per optimizer step", {1, max_batch});
    c.required("--seq", workload_.sequence_length, "tokens per sequence", {1, max_sequence});
    c.choice("--precision", precision_, strings(precision_names()), "of weights and activations");
    c.choice("--optimizer", optimizer_, strings(optimizer_names()), "");
    c.option("--dropout", dropout_, "rate of all dropout");
    c.option("--clip-norm", clip_norm_, "global gradient norm to clip at; 0: none");
    c.choice("--objective", objective_, {"step-time", "memory", "cost"}, "what to minimize");
    c.option("--top", top_, "plans to show", {1, 10'000});
    c.option("--threads", threads_, "0: all cores", {0, 4096});
    c.option("--export", export_, "print the best plan as another program's launch flags: megatron");
    c.flag("--no-simulate", no_simulate_, "leave the found plans unsimulated");
    c.flag("--all", all_,
           "search every dimension: replica, context and grids of tensor axes, ZeRO 0 to 3, all schedules, counts of "
           "recomputed layers, host memory, disks");
    c.option("--only", only_,
             "every dimension within limits: \"tensor=1d zero=0,3 schedule=1f1b,zb-v chunks=2 context=off\"");
    c.option("--memory-margin", margin_,
             "of every device's memory, what tensors do not get: context, communicators, fragments; \"4 GiB\"");
    c.option("--fabric", fabric_,
             "then place the best plan's ranks on these wires, links shared (orrery place): a name or a .toml file");
    c.option("--routes", routes_,
             "of several ways through the fabric: by-destination (the default), hashed, rail-local");
    c.flag("--space", show_space_, "describe the space that would be searched, and stop");
    declare_machine(c, flags_);
    declare_output(c, flags_, "write the best plan here; with --space, the space");
    c.examples(
        "  orrery plan --model llama-3-70b --cluster dgx-h100 --gpus 64 --batch 128 --seq 8192 -o best.toml\n"
        "  orrery plan --model gpt3-175b --cluster dgx-a100 --gpus 128 --batch 256 --seq 2048 --export megatron\n"
        "  orrery plan --model llama-3-70b --cluster dgx-h100 --gpus 64 --batch 128 --seq 8192 --fabric "
        "dgx-h100-superpod\n"
        "  orrery plan --model path/to/config.json --cluster dgx-a100 --gpus 16 --batch 64 --seq 2048 --top 3\n"
        "  orrery plan --model tiny-gpt --cluster local-cpu --gpus 4 --batch 16 --seq 128 --precision fp32 --json");
  }

  int run() override;

 private:
  void read();
  PlannedRun planned(const Plan& plan, const std::string& name) const;
  PlannedRun planned(const FoundPlan& found, std::size_t place) const;
  /// Judges the plans that are shown by the memory of their processes on the whole device.
  void add_processes(std::vector<FoundPlan>& plans) const;
  /// Where the ranks of the best plan sit best on --fabric; nothing where no plan was found or the search was
  /// interrupted.
  std::optional<PlacementSearch> place(const SearchResult&, const FabricRoutes&, Progress&) const;
  std::string text(const SearchResult&) const;
  /// Plans whose simulation was asked for and interrupted.
  std::size_t unsimulated(const SearchResult&) const;
  nlohmann::ordered_json nearest_json() const;
  void write_json(const SearchResult&, const std::optional<std::string>& exported, const Diagnostics& refused,
                  std::optional<nlohmann::ordered_json> placement) const;
  std::optional<std::string> exported(const SearchResult&, Diagnostics& refused) const;

  CommonFlags flags_;
  std::string model_, cluster_;
  std::string precision_ = "bf16", optimizer_ = "adam", objective_ = "step-time", margin_ = "auto";
  double dropout_ = 0.0, clip_norm_ = 1.0;
  std::uint32_t top_ = 5, threads_ = 0;
  std::optional<std::string> export_, only_, fabric_, routes_;
  SpaceLimits limits_;
  bool no_simulate_ = false, show_space_ = false, all_ = false;
  Workload workload_;
  ModelSpec spec_;
  ClusterSpec machine_;
  ClusterSpec searched_;  ///< the same with the margin taken off its devices' memory
  CalibrationChoice calibration_;
};

void PlanVerb::read() {
  Diagnostics d;
  const auto index_in = [](const std::vector<std::string_view>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  workload_.precision = static_cast<Precision>(index_in(precision_names(), precision_));
  workload_.optimizer.kind = static_cast<OptimizerKind>(index_in(optimizer_names(), optimizer_));
  workload_.hidden_dropout = dropout_;
  workload_.attention_dropout = dropout_;
  if (clip_norm_ != 0.0) workload_.clip_norm = clip_norm_;
  if (!(clip_norm_ >= 0.0 && clip_norm_ <= 1e9)) {
    d.error("cli.clip-norm", "--clip-norm is out of range",
            {fmt::format("It is {}; above 0 and at most 1e9, or 0 for no clipping, is allowed.", clip_norm_)});
    workload_.clip_norm.reset();
  }
  static_cast<void>(check_workload(workload_, d));  // the mistakes are in d
  if (top_ < 1 || top_ > 10'000) {
    d.error("cli.top", "--top is out of range", {fmt::format("It is {}; from 1 to 10000 is allowed.", top_)});
  }
  if (export_ && *export_ != "megatron") {
    d.error("cli.export", fmt::format("there is no export to \"{}\"", *export_), {"Known: megatron."});
  }
  limits_ = only_ ? limits_of(*only_, d) : all_ ? SpaceLimits{} : basic_limits();
  if (threads_ > 4096) {
    d.error("cli.threads", "--threads is out of range",
            {fmt::format("It is {}; from 0 to 4096 is allowed.", threads_)});
  }
  const Library library = library_of(flags_);
  std::optional<ModelSpec> model = named_model(library, model_, d);
  std::optional<ClusterSpec> cluster = named_cluster(library, cluster_, flags_.gpus, d);
  require_none(d);
  spec_ = std::move(*model);
  machine_ = std::move(*cluster);
  adapt_to_this_machine(machine_);
  if (spec_.positions == PositionEncoding::learned && workload_.sequence_length > spec_.max_positions) {
    d.error("workload.sequence", fmt::format("{} has {} positions", spec_.name, spec_.max_positions),
            {fmt::format("--seq is {}.", workload_.sequence_length)});
  }
  for (std::uint32_t kind = 0; kind < node_kinds(machine_); ++kind) {
    const DeviceSpec& device = device_of(machine_, kind);
    if (device.peak.contains(workload_.precision)) continue;
    std::string known;
    for (const auto& [p, rate] : device.peak) known += (known.empty() ? "" : ", ") + std::string(name_of(p));
    d.error("plan.precision", fmt::format("{} does not compute in {}", device.name, precision_),
            {fmt::format("It computes in {}.", known)});
  }
  static_cast<void>(check_sizes(spec_, workload_, d));
  if (d.empty()) {
    // What no plan at all could do.
    Plan plainest;
    plainest.stage_layers = std::vector<std::uint32_t>{static_cast<std::uint32_t>(spec_.layers)};
    check(plainest, spec_, workload_, nullptr, d);
  }
  if (objective_ == "cost" && !machine_.price_per_gpu_hour) {
    d.error("cli.objective", fmt::format("{} has no price", machine_.name),
            {"Write price_per_gpu_hour into a cluster file of your own, or minimize step-time."});
  }
  require_none(d);
  calibration_ = calibration_of(flags_, library, machine_, workload_.precision);
  searched_ = machine_;
  DeviceSpec smallest = machine_.device;
  smallest.memory = least_memory(machine_);
  const Bytes margin = margin_of(margin_, smallest, calibration_.calibration.memory, d);
  searched_.device.memory = machine_.device.memory - margin;
  for (OtherNodes& other : searched_.other_nodes) other.device.memory = other.device.memory - margin;
  require_none(d);
}

PlannedRun PlanVerb::planned(const Plan& plan, const std::string& name) const {
  PlannedRun run;
  run.model = spec_;
  run.workload = workload_;
  run.cluster = machine_;
  run.plan = plan;
  run.plan.name = name;
  run.model_reference = portable(model_);
  run.cluster_reference = portable(cluster_);
  return run;
}

PlannedRun PlanVerb::planned(const FoundPlan& found, std::size_t place) const {
  return planned(found.plan, fmt::format("{}-{}-{}-{}", spec_.name, machine_.devices(), machine_.name, place + 1));
}

nlohmann::ordered_json PlanVerb::nearest_json() const {
  const NearestFit fit = nearest_fit(spec_, workload_, searched_, calibration_.calibration);
  const auto entry = [&](const std::optional<Leanest>& found, const ClusterSpec& cluster) {
    if (!found) return nlohmann::ordered_json(nullptr);
    PlannedRun run = planned(found->plan, "");
    run.cluster = cluster;
    return nlohmann::ordered_json{{"gpus", cluster.devices()},
                                  {"peak_memory_bytes", found->peak},
                                  {"description", describe(found->plan)},
                                  {"plan_file", write_plan(run)}};
  };
  nlohmann::ordered_json json;
  json["least_memory"] = entry(fit.here, searched_);
  json["would_fit"] = entry(fit.fits, fit.on.value_or(searched_));
  json["complete"] = !fit.interrupted_at;
  return json;
}

std::size_t PlanVerb::unsimulated(const SearchResult& result) const {
  if (no_simulate_) return 0;
  return static_cast<std::size_t>(
      std::count_if(result.plans.begin(), result.plans.end(), [](const FoundPlan& p) { return !p.simulated; }));
}

void PlanVerb::add_processes(std::vector<FoundPlan>& plans) const {
  constexpr std::size_t most = 16;
  for (std::size_t i = 0; i < std::min(plans.size(), most); ++i) {
    const PlannedRun run = planned(plans[i], i);
    const ProcessFigures process =
        process_figures(run, lower(run.model, run.workload, run.plan), calibration_.calibration.memory);
    for (Report* report : {&plans[i].report, plans[i].simulated ? &*plans[i].simulated : nullptr}) {
      if (report == nullptr) continue;
      if (report->memory_capacity_bytes) {
        report->memory_capacity_bytes = static_cast<std::uint64_t>(least_memory(machine_).base());
      }
      add_process_memory(*report, process);
    }
  }
}

std::string PlanVerb::text(const SearchResult& result) const {
  const auto& plans = result.plans;
  std::string out = fmt::format(
      "{}, {} parameters, on {} ({}); batch {} x {} tokens, {}, {}\ncalibration: {}\nsoftware: {}\n\n",
      printable(spec_.name), short_count(static_cast<double>(parameter_count(spec_))), printable(machine_.name),
      printable(devices_text(machine_)), workload_.global_batch, workload_.sequence_length, precision_, optimizer_,
      printable(calibration_.origin), printable(describe(calibration_.software)));
  if (searched_.device.memory < machine_.device.memory) {
    out.insert(out.size() - 1, fmt::format("tensors get {} of the {} of a device (--memory-margin)\n",
                                           short_text(least_memory(searched_)), short_text(least_memory(machine_))));
  }
  if (plans.empty() && result.complete) {
    const NearestFit fit = nearest_fit(spec_, workload_, searched_, calibration_.calibration);
    return out + "No plan fits.\n" + result.certificate + "\n" + nearest_text(fit, all_ || only_);
  }
  if (plans.empty()) return out + "Interrupted before a plan was found.\n" + result.certificate + "\n";
  out += found_plans_text(plans, workload_, machine_.price_per_gpu_hour.has_value());
  if (const Report& best = plans[0].report; !best.fits && best.peak_memory_process_bytes) {
    out += "\nThe best plan's tensors fit, and its process does not: a larger --memory-margin leaves it room.\n";
  }
  if (!result.complete) {
    out += "\nInterrupted: the best of the plans estimated so far.\n";
  } else if (unsimulated(result) > 0) {
    out += fmt::format("\nInterrupted: {} of the {} were not simulated; all plans were estimated.\n",
                       unsimulated(result), counted(plans.size(), "best plan"));
  }
  return out + "\n" + result.certificate + "\n";
}

/// The launch flags of the best plan, where asked for.
std::optional<std::string> PlanVerb::exported(const SearchResult& result, Diagnostics& refused) const {
  if (!export_ || result.plans.empty()) return std::nullopt;
  const PlannedRun best = planned(result.plans[0], 0);
  const auto flags = megatron_flags(best, refused);
  if (!flags) return std::nullopt;
  return megatron_text(best, *flags);
}

void PlanVerb::write_json(const SearchResult& result, const std::optional<std::string>& exported,
                          const Diagnostics& refused, std::optional<nlohmann::ordered_json> placement) const {
  nlohmann::ordered_json json;
  json["plans"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    const FoundPlan& found = result.plans[i];
    nlohmann::ordered_json entry = to_json(found.report);
    entry["plan"] = planned(found, i).plan.name;
    entry["number"] = found.number;
    entry["description"] = describe(found.plan);
    entry["plan_file"] = write_plan(planned(found, i));
    entry["simulated"] = found.simulated ? to_json(*found.simulated) : nlohmann::ordered_json(nullptr);
    json["plans"].push_back(std::move(entry));
  }
  std::uint64_t pruned = 0;
  nlohmann::ordered_json reasons = nlohmann::ordered_json::object();
  for (const PruneCount& p : result.pruned) {
    reasons[p.reason] = p.count;
    if (p.reason != "memory") pruned += p.count;
  }
  json["memory_margin_bytes"] = static_cast<std::uint64_t>((machine_.device.memory - searched_.device.memory).base());
  json["evaluated"] = result.evaluated;
  json["pruned"] = pruned;
  json["pruned_by_reason"] = std::move(reasons);
  json["infeasible"] = result.infeasible;
  json["space"] = result.space;
  json["wall_s"] = result.wall_s;
  const bool unplaced = placement && placement->is_null() && !result.plans.empty();
  json["complete"] = result.complete && unsimulated(result) == 0 && !unplaced;
  json["certified"] = result.certified;
  json["simulated_certified"] = result.simulated_certified;
  json["certificate"] = result.certificate;
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
    return search_placement(best, lower(best.model, best.workload, best.plan), calibration_.calibration, routes,
                            options);
  } catch (const SimulationCancelled&) {
    return std::nullopt;
  }
}

int PlanVerb::run() {
  read();
  std::optional<Fabric> fabric;
  FabricRoutes routes;
  if (fabric_) {
    fabric = fabric_for_cluster(library_of(flags_), *fabric_, machine_);
    routes = {&*fabric, path_rule_of(routes_), 0};
  } else if (routes_) {
    refuse("cli.fabric", "--routes needs --fabric", {"A cluster's levels leave no choice of ways."});
  }
  if (show_space_) {
    const Space space = make_space(spec_, workload_, searched_, limits_);
    const std::string shown = flags_.json ? json_text(space_json(space)) : describe(space) + "\n";
    flags_.output ? write_output(flags_, shown) : print(shown);
    return status_fine;
  }
  require_output(flags_);
  SearchOptions options;
  options.objective = objective_ == "memory" ? Objective::memory
                      : objective_ == "cost" ? Objective::cost
                                             : Objective::step_time;
  options.top = top_;
  options.threads = threads_;
  options.simulate = !no_simulate_;
  options.cancel = &interrupted();
  catch_interrupt();
  Progress progress;
  options.progress = [&](const SearchProgress& p) {
    progress.show(p.phase, p.done, p.total, p.eta_s, p.best ? "best " + short_text(*p.best) : "");
  };
  SearchResult result = search(make_space(spec_, workload_, searched_, limits_), spec_, workload_, searched_,
                               calibration_.calibration, options);
  add_processes(result.plans);
  progress.clear();
  for (FoundPlan& found : result.plans) {
    tell_prices(found.report, calibration_);
    if (found.simulated) tell_prices(*found.simulated, calibration_);
  }
  std::optional<PlacementSearch> placed;
  if (fabric) placed = place(result, routes, progress);
  progress.clear();
  if (!result.plans.empty()) {
    PlannedRun best = planned(result.plans[0], 0);
    if (placed) best.plan = placed->found.plan;
    write_output(flags_, write_plan(best));
  }
  Diagnostics refused;
  const std::optional<std::string> flags = exported(result, refused);
  if (prints_output(flags_) && !result.plans.empty()) {
    // It has been printed.
  } else if (flags_.json) {
    std::optional<nlohmann::ordered_json> placement;
    if (placed) {
      placement = placement_json(routes, planned(result.plans[0], 0), *placed);
    } else if (fabric) {
      placement = nullptr;
    }
    write_json(result, flags, refused, std::move(placement));
  } else {
    print(text(result));
    if (placed) {
      print(fmt::format("\nThe best plan on {}, links shared\n\n", printable(fabric->spec().name)) +
            placement_text(routes, machine_.devices(), *placed));
    } else if (fabric && !result.plans.empty()) {
      print("\nInterrupted before its ranks were placed: they are in the order of its axes.\n");
    }
    if (flags) print("\n" + *flags);
    if (flags_.output && !result.plans.empty()) print(fmt::format("The best plan is in {}.\n", *flags_.output));
  }
  // After the result, which stands whatever the other program can express.
  if (!refused.empty() && (all_ || only_) && !spec_.mixture && !spec_.latent) {
    refused.error("cli.export", "the best plan of this space is beyond Megatron-LM's flags",
                  {"Without --all and --only most plans that are searched are within them."});
  }
  if (!refused.empty()) throw InputError(refused, flags_.json);
  return result.plans.empty() || !result.complete || unsimulated(result) > 0 || (fabric && !placed) ? status_no
                                                                                                    : status_fine;
}

}  // namespace

std::unique_ptr<Verb> plan_verb() { return std::make_unique<PlanVerb>(); }

}  // namespace orrery
