#include "cli/search_question.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/memory_margin.hpp"
#include "cli/plan_source.hpp"
#include "core/plan/plan_check.hpp"
#include "core/spec/adapter_names.hpp"
#include "core/spec/model_level.hpp"
#include "core/spec/node_kinds.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

std::vector<std::string> strings(const std::vector<std::string_view>& names) { return {names.begin(), names.end()}; }

/// The place of a name in a list; a name that is not in it is a mistake, and counts as the first.
std::size_t place_of(const char* flag, const std::vector<std::string_view>& names, const std::string& name,
                     Diagnostics& d) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  std::string known;
  for (const std::string_view n : names) known += fmt::format("{}{}", known.empty() ? "" : ", ", n);
  d.error("cli.arguments", fmt::format("{}: \"{}\" is not known", flag, name), {fmt::format("Known: {}.", known)});
  return 0;
}

void read_adapters(const SearchQuestion& q, Workload& w, Diagnostics& d) {
  if (q.adapters == 0 && q.adapter_matrices) {
    d.error("cli.adapters", "--adapter-matrices needs --adapters", {"--adapters is the rank: 8, 16, 64."});
  }
  const std::size_t base = place_of("--base", base_weights_names(), q.base, d);
  if (q.adapters == 0 && base != 0) {
    d.error("cli.adapters", "--base needs --adapters", {"Weights that are trained are not kept in few bits."});
  }
  if (q.double_quantization && q.base != name_of(BaseWeights::nf4)) {
    d.error("cli.adapters", "--double-quantization needs --base nf4", {"Only the scales of nf4 are quantized again."});
  }
  if (q.adapters == 0) return;
  Adapters& a = w.adapters.emplace();
  a.alpha = a.scale() * q.adapters;
  a.rank = q.adapters;
  a.base = static_cast<BaseWeights>(base);
  a.double_quantization = q.double_quantization && a.base == BaseWeights::nf4;
  if (!q.adapter_matrices) return;
  std::string unknown;
  if (const auto matrices = matrices_listed(*q.adapter_matrices, unknown)) {
    a.matrices = *matrices;
  } else {
    d.error("cli.adapters", fmt::format("--adapter-matrices: \"{}\" is no matrix that takes an adapter", unknown),
            {matrices_help()});
  }
}

void read_workload(SearchTask& task, Diagnostics& d) {
  const SearchQuestion& q = task.question;
  Workload& w = task.workload;
  w.global_batch = q.batch;
  w.sequence_length = q.sequence;
  w.precision = static_cast<Precision>(place_of("--precision", precision_names(), q.precision, d));
  w.optimizer.kind = static_cast<OptimizerKind>(place_of("--optimizer", optimizer_names(), q.optimizer, d));
  w.hidden_dropout = q.dropout;
  w.attention_dropout = q.dropout;
  if (q.clip_norm != 0.0) w.clip_norm = q.clip_norm;
  read_adapters(q, w, d);
  if (!(q.clip_norm >= 0.0 && q.clip_norm <= 1e9)) {
    d.error("cli.clip-norm", "--clip-norm is out of range",
            {fmt::format("It is {}; above 0 and at most 1e9, or 0 for no clipping, is allowed.", q.clip_norm)});
    w.clip_norm.reset();
  }
  static_cast<void>(check_workload(w, d));  // the mistakes are in d
}

/// --for, --export, --only and --all.
SpaceWish space_wish(const SearchQuestion& q) { return {q.all ? "any" : q.framework, q.only, q.writer}; }

/// What no plan at all could mend of model, workload and cluster together.
void check_task(const SearchTask& task, Diagnostics& d) {
  const ModelSpec& model = task.model;
  const Workload& workload = task.workload;
  if (model.positions == PositionEncoding::learned && workload.sequence_length > model.max_positions) {
    d.error("workload.sequence", fmt::format("{} has {} positions", model.name, model.max_positions),
            {fmt::format("--seq is {}.", workload.sequence_length)});
  }
  for (std::uint32_t kind = 0; kind < node_kinds(task.cluster); ++kind) {
    const DeviceSpec& device = device_of(task.cluster, kind);
    if (device.peak.contains(workload.precision)) continue;
    std::string known;
    for (const auto& [p, rate] : device.peak) known += (known.empty() ? "" : ", ") + std::string(name_of(p));
    d.error("plan.precision", fmt::format("{} does not compute in {}", device.name, name_of(workload.precision)),
            {fmt::format("It computes in {}.", known)});
  }
  static_cast<void>(check_priced(model, d) && check_sizes(model, workload, d));
  if (d.empty()) {
    // The plainest plan breaks only rules that no plan at all could keep.
    Plan plainest;
    plainest.stage_layers = std::vector<std::uint32_t>{static_cast<std::uint32_t>(model.layers)};
    check(plainest, model, workload, nullptr, d);
  }
  if (task.objective == Objective::cost && !task.cluster.price_per_gpu_hour) {
    d.error("cli.objective", fmt::format("{} has no price", task.cluster.name),
            {"Write price_per_gpu_hour into a cluster file of your own, or minimize step-time."});
  }
}

}  // namespace

void declare_search(Command& c, SearchQuestion& q) {
  c.option("--part", q.part, "the part of a config.json's model to take: language, vision, or with-head");
  c.choice("--optimizer", q.optimizer, strings(optimizer_names()), "");
  c.option("--dropout", q.dropout, "rate of all dropout");
  c.option("--clip-norm", q.clip_norm, "global gradient norm to clip at; 0: none");
  c.option("--adapters", q.adapters,
           "train low-rank adapters of this rank (LoRA), and leave the weights as they are; 0: train all weights",
           {0, max_adapter_rank});
  c.option("--adapter-matrices", q.adapter_matrices, "which matrices have one: q,k,v,o,gate,up,down, or all");
  c.choice("--base", q.base, strings(base_weights_names()),
           "what the layers' frozen matrices are kept in (QLoRA: nf4), brought back before each product");
  c.flag("--double-quantization", q.double_quantization, "nf4: the scales in 8 bits too, as QLoRA does");
  c.choice("--objective", q.objective, {"step-time", "memory", "cost"}, "what to minimize");
  c.flag("--all", q.all, "the same as --for any");
  c.option("--only", q.only, "within these limits: \"tensor=1d zero=0,3 schedule=1f1b,zb-v chunks=2 context=off\"");
  c.option("--memory-margin", q.margin,
           "memory to keep free on every device beside what the process holds: \"4 GiB\"; auto is the measured error");
}

SearchTask search_task(SearchQuestion question, Diagnostics d) {
  SearchTask task;
  task.question = std::move(question);
  SearchQuestion& q = task.question;
  read_workload(task, d);
  const Framework* wished = wished_framework(space_wish(q), d);
  if (q.only) static_cast<void>(limits_of(*q.only, d));  // the mistakes are in d
  if (wished != nullptr) q.flags = for_framework(std::move(q.flags), std::string(wished->name));
  const Library library = library_of(q.flags);
  if (!q.part.empty()) q.model += "#" + q.part;
  q.cluster = with_nic(q.cluster, q.flags);
  std::optional<ModelSpec> model = named_model(library, q.model, d);
  std::optional<ClusterSpec> cluster = named_cluster(library, q.cluster, q.flags.gpus, d);
  require_none(d);
  task.model = std::move(*model);
  task.cluster = std::move(*cluster);
  task.objective = objective_named(q.objective).value_or(Objective::step_time);
  adapt_to_this_machine(task.cluster);
  set_price(task.cluster, q.flags);
  check_task(task, d);
  require_none(d);
  task.calibration = calibration_of(q.flags, library, task.cluster, task.workload.precision);
  task.headroom = margin_of(q.margin, task.cluster, task.calibration.calibration, d);
  task.space = search_space_of(space_wish(q), task.calibration.software.name, task.model, task.workload, d);
  require_none(d);
  return task;
}

SearchResult search(const SearchTask& task, SearchOptions options) {
  options.objective = task.objective;
  options.limits = task.space.limits;
  options.headroom = task.headroom;
  SearchResult result = search(task.model, task.workload, task.cluster, task.calibration.calibration, options);
  for (FoundPlan& found : result.plans) {
    tell_prices(found.report, task.calibration);
    if (found.simulated) tell_prices(*found.simulated, task.calibration);
  }
  if (result.rejected) tell_prices(result.rejected->report, task.calibration);
  return result;
}

PlannedRun planned_run(const SearchTask& task, const Plan& plan, const std::string& name) {
  PlannedRun run;
  // An assumed framework is not written down: without one, a plan is priced as the usual program runs it.
  if (task.space.framework != nullptr && !task.space.assumed) run.framework = task.space.framework->name;
  run.model = task.model;
  run.workload = task.workload;
  run.cluster = task.cluster;
  run.plan = plan;
  run.plan.name = name;
  run.model_reference = library_of(task.question.flags).portable_model(task.question.model, "");
  run.cluster_reference = portable(task.question.cluster, "");
  return run;
}

std::string plan_name(const SearchTask& task, std::size_t place) {
  return fmt::format("{}-{}-{}-{}", task.model.name, task.cluster.devices(), task.cluster.name, place + 1);
}

}  // namespace orrery
