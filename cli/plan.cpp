#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/fabric.hpp"
#include "cli/memory_margin.hpp"
#include "cli/placement_text.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
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

/// The plan that needs least memory of the basic plans on the cluster.
struct Leanest {
  std::uint64_t peak = std::numeric_limits<std::uint64_t>::max();
  Plan plan;
};

/// Tells `progress` how many plans of how many were looked at; empty when interrupted.
std::optional<Leanest> leanest(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                               const Calibration& c,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  const Space space = make_space(model, workload, cluster, basic_limits());
  Bounder bounder(model, workload, cluster, c);
  Leanest best;
  for (std::uint64_t n = 0; n < space.count; ++n) {
    if (interrupted().load()) return std::nullopt;
    if (n % 1024 == 0) progress(n, space.count);
    Plan plan = plan_at(space, n);
    const std::uint64_t peak = bounder.peak_memory(plan);
    if (peak < best.peak) best = {peak, std::move(plan)};
  }
  return best;
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
           "recomputed layers, host memory");
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
  /// Where the ranks of the best plan sit best on --fabric; nothing where none is given or no plan was found.
  std::optional<PlacementSearch> place(const SearchResult&, const Fabric&, Progress&) const;
  std::string text(const SearchResult&) const;
  /// Plans whose simulation was asked for and interrupted.
  std::size_t unsimulated(const SearchResult&) const;
  /// For a search without a result: what came nearest, and how many devices
  /// would do (doubling the number, up to 64 times).
  struct NearestFit {
    std::optional<Leanest> here, fits;
    std::optional<ClusterSpec> on;                ///< where it fits
    std::optional<std::uint64_t> interrupted_at;  ///< devices
  };
  NearestFit nearest_fit() const;
  std::string nearest_text() const;
  nlohmann::ordered_json nearest_json() const;
  void write_json(const SearchResult&, const std::optional<std::string>& exported, const Diagnostics& refused,
                  nlohmann::ordered_json placement) const;
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

PlanVerb::NearestFit PlanVerb::nearest_fit() const {
  Progress bar;
  NearestFit out;
  for (std::uint64_t factor = 1; factor <= 64; factor *= 2) {
    const std::uint64_t gpus = searched_.devices() * factor;
    Diagnostics ignored;  // the cluster may not grow that far
    const auto larger =
        gpus <= max_devices ? resized(searched_, static_cast<std::uint32_t>(gpus), ignored) : std::nullopt;
    if (!larger) break;
    auto found = leanest(
        spec_, workload_, *larger, calibration_.calibration,
        [&](std::uint64_t done, std::uint64_t total) { bar.show(fmt::format("try {} GPUs", gpus), done, total); });
    if (!found) {
      out.interrupted_at = gpus;
      break;
    }
    if (found->peak == std::numeric_limits<std::uint64_t>::max()) continue;
    if (factor == 1) {
      out.here = std::move(found);
    } else if (static_cast<double>(found->peak) <= least_memory(searched_).base()) {
      out.fits = std::move(found);
      out.on = *larger;
      break;
    }
  }
  return out;
}

std::string PlanVerb::nearest_text() const {
  const auto bytes = [](std::uint64_t n) { return short_text(Bytes::of(static_cast<double>(n))); };
  const NearestFit fit = nearest_fit();
  const char* of_basic = all_ || only_ ? " of plans with data, 1D tensor and pipeline axes" : "";
  std::string out;
  if (fit.here) {
    out += fmt::format("Nearest{}: {} on its fullest device, with {}.\n", of_basic, bytes(fit.here->peak),
                       describe(fit.here->plan));
  }
  if (fit.fits) {
    out += fmt::format("With --gpus {} (doublings were tried) it fits: {} with {}.\n", fit.on->devices(),
                       bytes(fit.fits->peak), describe(fit.fits->plan));
  }
  if (fit.interrupted_at) out += fmt::format("Interrupted while looking at {} GPUs.\n", *fit.interrupted_at);
  return out;
}

nlohmann::ordered_json PlanVerb::nearest_json() const {
  const NearestFit fit = nearest_fit();
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

/// The space, mesh by mesh, with the values of every dimension.
nlohmann::ordered_json space_json(const Space& space) {
  nlohmann::ordered_json json;
  json["space"] = space.count;
  json["orders_left_out"] = space.orders_left_out;
  json["stage_layers"] = nlohmann::ordered_json::object();
  for (const auto& [stages, splits] : space.stage_layers) json["stage_layers"][std::to_string(stages)] = splits;
  json["shapes"] = nlohmann::ordered_json::array();
  for (const ShapeSpace& s : space.shapes) {
    nlohmann::ordered_json shape;
    shape["tensor"] = name_of(s.tensor);
    shape["sizes"] = nlohmann::ordered_json::object();
    for (std::size_t a = 0; a < axis_count; ++a) {
      if (s.sizes[a] > 1) shape["sizes"][std::string(name_of(static_cast<Axis>(a)))] = s.sizes[a];
    }
    shape["first"] = s.first;
    shape["count"] = s.count;
    shape["orders"] = s.orders;
    shape["microbatches"] = nlohmann::ordered_json::array();
    for (const MicrobatchSpace& m : s.microbatches) {
      nlohmann::ordered_json schedules = nlohmann::ordered_json::array();
      for (const ScheduleChoice& c : m.schedules) {
        schedules.push_back({{"schedule", name_of(c.schedule)}, {"chunks", c.chunks}});
      }
      shape["microbatches"].push_back({{"size", m.size}, {"schedules", std::move(schedules)}});
    }
    shape["blocks"] = nlohmann::ordered_json::array();
    for (const BlockChoice& b : s.blocks) {
      shape["blocks"].push_back({{"attention", name_of(b.attention)},
                                 {"recompute", name_of(b.recompute)},
                                 {"fewest_recomputed", b.fewest},
                                 {"fewest_activations_offloaded", b.offload},
                                 {"sequence_parallel", b.sequence_parallel},
                                 {"context", name_of(b.context)},
                                 {"zigzag", b.zigzag},
                                 {"inner_ring", b.inner_ring},
                                 {"save_gathered", b.save_gathered}});
    }
    shape["states"] = nlohmann::ordered_json::array();
    for (const StateChoice& c : s.states) {
      shape["states"].push_back({{"zero_stage", c.zero_stage},
                                 {"reshard_after_forward", c.reshard_after_forward},
                                 {"prefetch", c.prefetch},
                                 {"overlap_gradients", c.overlap_gradients},
                                 {"offload_states", c.offload_states},
                                 {"offload_parameters", c.offload_parameters}});
    }
    json["shapes"].push_back(std::move(shape));
  }
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
    const Program program = lower(run.model, run.workload, run.plan);
    for (Report* report : {&plans[i].report, plans[i].simulated ? &*plans[i].simulated : nullptr}) {
      if (report == nullptr) continue;
      if (report->memory_capacity_bytes) {
        report->memory_capacity_bytes = static_cast<std::uint64_t>(least_memory(machine_).base());
      }
      add_process_memory(*report, run, program, calibration_.calibration.memory);
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
  if (plans.empty() && result.complete) return out + "No plan fits.\n" + result.certificate + "\n" + nearest_text();
  if (plans.empty()) return out + "Interrupted before a plan was found.\n" + result.certificate + "\n";
  // Side by side: a column for each plan, a row for each decision and figure.
  constexpr std::size_t most_columns = 8;
  const std::size_t shown = std::min(plans.size(), most_columns);
  std::vector<std::string> headers{"plan"};
  for (std::size_t i = 0; i < shown; ++i) headers.push_back(fmt::format("#{}", i + 1));
  Table table(headers);
  const auto row = [&](const std::string& name, auto value) {
    std::vector<std::string> cells{name};
    for (std::size_t i = 0; i < shown; ++i) cells.push_back(value(plans[i]));
    table.row(std::move(cells));
  };
  using P = const FoundPlan&;
  const auto any = [&](auto&& holds) {
    return std::any_of(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(shown), holds);
  };
  for (const Axis axis :
       {Axis::data, Axis::tensor, Axis::pipeline, Axis::replica, Axis::context, Axis::depth, Axis::row, Axis::column}) {
    const bool plain = axis == Axis::data || axis == Axis::tensor || axis == Axis::pipeline;
    if (!plain && !any([&](P p) { return p.plan.mesh.size(axis) > 1; })) continue;
    row(std::string(name_of(axis)), [&](P p) { return fmt::format("{}", p.plan.mesh.size(axis)); });
  }
  if (any([](P p) { return p.plan.tensor != TensorAlgorithm::one_d; })) {
    row("tensor algorithm", [](P p) { return std::string(name_of(p.plan.tensor)); });
  }
  if (any([](P p) { return p.plan.mesh.size(Axis::context) > 1; })) {
    row("context algorithm", [](P p) {
      if (p.plan.mesh.size(Axis::context) == 1) return std::string("-");
      return fmt::format("{}{}{}", name_of(p.plan.context), p.plan.zigzag ? " zigzag" : "",
                         p.plan.inner_ring > 0 ? fmt::format(" in {}s", p.plan.inner_ring) : "");
    });
  }
  row("axes, outermost first", [](P p) {
    std::string order;
    for (const MeshAxis& a : p.plan.mesh.axes) order += name_of(a.axis).substr(0, 1);
    return order.empty() ? std::string("-") : order;
  });
  row("microbatch", [](P p) { return fmt::format("{}", p.plan.microbatch_size); });
  row("microbatches", [&](P p) { return fmt::format("{}", microbatches(p.plan, workload_)); });
  row("schedule", [](P p) { return std::string(name_of(p.plan.schedule)); });
  if (any([](P p) { return p.plan.chunks > 1; })) {
    row("chunks per rank", [](P p) { return fmt::format("{}", p.plan.chunks); });
  }
  row("layers of stages", [](P p) { return p.plan.stage_layers ? layers_text(*p.plan.stage_layers) : "auto"; });
  row("sequence parallel", [](P p) { return p.plan.sequence_parallel ? "on" : "off"; });
  row("recompute", [](P p) { return std::string(name_of(p.plan.recompute)); });
  if (any([](P p) { return p.plan.recompute_layers.has_value(); })) {
    row("layers recomputed", [](P p) {
      if (p.plan.recompute_layers) return layers_text(*p.plan.recompute_layers);
      return std::string(p.plan.recompute == Recompute::none ? "none" : "all");
    });
  }
  const auto offloaded = [&](const char* name, const std::optional<std::uint32_t> Plan::*eighths) {
    if (!any([&](P p) { return p.plan.*eighths != 0U; })) return;
    row(name,
        [&](P p) { return p.plan.*eighths == 0U ? std::string("none") : fmt::format("{}/8", *(p.plan.*eighths)); });
  };
  offloaded("states on host", &Plan::offload_states);
  offloaded("parameters on host", &Plan::offload_parameters);
  offloaded("activations on host", &Plan::offload_activations);
  row("ZeRO", [](P p) {
    if (p.plan.zero_stage < 3) return fmt::format("{}", p.plan.zero_stage);
    return fmt::format("3{}{}", p.plan.reshard_after_forward ? "" : " kept", p.plan.prefetch > 0 ? "" : " no prefetch");
  });
  row("gradient overlap", [](P p) { return p.plan.overlap_gradients.value_or(false) ? "on" : "off"; });
  row("attention", [](P p) { return p.plan.attention ? std::string(name_of(*p.plan.attention)) : "auto"; });
  table.row({});
  row("step time", [](P p) { return short_text(p.report.step_time, 4); });
  row("  simulated", [](P p) { return p.simulated ? short_text(p.simulated->step_time, 4) : "-"; });
  const auto range = [&](auto text) {
    if (calibration_.software.errors) row("  eight in ten", text);
  };
  range([](P p) { return step_range(p.report); });
  row("tokens/s", [](P p) { return short_count(p.report.tokens_per_s, 4); });
  row("tokens/s per GPU", [](P p) { return short_count(p.report.tokens_per_s_per_gpu, 4); });
  range([](P p) { return count_range(p.report, p.report.tokens_per_s_per_gpu); });
  row("MFU", [](P p) { return percent(p.report.model_flops_utilization); });
  range([](P p) { return percent_range(p.report, p.report.model_flops_utilization); });
  row("bubble", [](P p) { return percent(p.report.bubble_fraction); });
  row("exposed communication", [](P p) { return short_text(p.report.exposed_communication); });
  if (machine_.price_per_gpu_hour) {
    row("cost per step",
        [](P p) { return p.report.cost_per_step ? fmt::format("{:.4g}", *p.report.cost_per_step) : "-"; });
  }
  row("peak memory", [](P p) { return short_text(Bytes::of(static_cast<double>(p.report.peak_memory_bytes))); });
  row("  of the process", [](P p) {
    if (!p.report.peak_memory_process_bytes) return std::string("-");
    return short_text(Bytes::of(static_cast<double>(*p.report.peak_memory_process_bytes))) +
           (p.report.fits ? "" : " (!)");
  });
  std::size_t stages = 0;
  for (std::size_t i = 0; i < shown; ++i) stages = std::max(stages, plans[i].report.memory_by_stage.size());
  const auto stage_text = [](P p, std::uint64_t bytes) {
    const auto peak = static_cast<double>(bytes);
    return fmt::format("{} {:>5}", short_text(Bytes::of(peak)),
                       percent(peak / static_cast<double>(p.report.memory_capacity_bytes.value_or(1)), 0));
  };
  constexpr std::size_t most = 16;  // rows for stages; the best plan's are all listed below
  for (std::size_t s = 0; s < std::min(stages, most); ++s) {
    row(fmt::format("  stage {}", s), [&stage_text, s](P p) {
      const auto& memory = p.report.memory_by_stage;
      return s < memory.size() ? stage_text(p, memory[s].peak) : std::string();
    });
  }
  if (stages > most) {
    row(fmt::format("  fullest of the other {}", stages - most), [&stage_text](P p) {
      std::uint64_t fullest = 0;
      for (std::size_t s = most; s < p.report.memory_by_stage.size(); ++s) {
        fullest = std::max(fullest, p.report.memory_by_stage[s].peak);
      }
      return fullest > 0 ? stage_text(p, fullest) : std::string();
    });
  }
  out += table.str() + "\nThe best plan\n" + memory_text(plans[0].report);
  if (plans.size() > 1) {
    out += "\nWhy the others lose\n";
    for (std::size_t i = 1; i < shown; ++i) {
      out += fmt::format("  #{}  {}\n      with {}\n", i + 1, step_difference(plans[i].report, plans[0].report),
                         fmt::join(differences(plans[i].plan, plans[0].plan), "; "));
    }
  }
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
                          const Diagnostics& refused, nlohmann::ordered_json placement) const {
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
  json["complete"] = result.complete && unsimulated(result) == 0;
  json["certified"] = result.certified;
  json["simulated_certified"] = result.simulated_certified;
  json["certificate"] = result.certificate;
  if (result.plans.empty() && result.complete) json["nearest"] = nearest_json();
  if (!placement.is_null()) json["placement"] = std::move(placement);
  if (exported) json["export"] = *exported;
  if (!refused.empty()) json["errors"] = errors_json(refused);
  print_json(json);
}

std::optional<PlacementSearch> PlanVerb::place(const SearchResult& result, const Fabric& fabric,
                                               Progress& progress) const {
  if (result.plans.empty() || interrupted().load()) return std::nullopt;
  const PlannedRun best = planned(result.plans[0], 0);
  PlacementOptions options;
  options.cancelled = &interrupted();
  options.report = [&](std::uint64_t done, std::uint64_t total, Seconds shortest) {
    progress.show("place", done, total, {}, "best " + short_text(shortest));
  };
  try {
    return search_placement(best, lower(best.model, best.workload, best.plan), calibration_.calibration,
                            {&fabric, path_rule_of(routes_), 0}, options);
  } catch (const SimulationCancelled&) {
    return std::nullopt;
  }
}

int PlanVerb::run() {
  read();
  std::optional<Fabric> fabric;
  if (fabric_) {
    fabric = fabric_for_cluster(library_of(flags_), *fabric_, machine_);
    static_cast<void>(path_rule_of(routes_));
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
  if (fabric) placed = place(result, *fabric, progress);
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
    write_json(result, flags, refused,
               placed ? placement_json({&*fabric, path_rule_of(routes_), 0}, planned(result.plans[0], 0), *placed)
                      : nlohmann::ordered_json(nullptr));
  } else {
    print(text(result));
    if (placed) {
      print(fmt::format("\nThe best plan on {}, links shared\n\n", printable(fabric->spec().name)) +
            placement_text({&*fabric, path_rule_of(routes_), 0}, machine_.devices(), *placed));
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
  return result.plans.empty() || !result.complete || unsimulated(result) > 0 ? status_no : status_fine;
}

}  // namespace

std::unique_ptr<Verb> plan_verb() { return std::make_unique<PlanVerb>(); }

}  // namespace orrery
