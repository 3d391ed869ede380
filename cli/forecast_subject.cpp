#include "cli/forecast_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/interrupt.hpp"
#include "cli/memory_margin.hpp"
#include "cli/plan_source.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/axis_sizes.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/spec/model_level.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/search_space.hpp"
#include "planner/describe.hpp"
#include "planner/resolve.hpp"
#include "planner/search.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t usual_batch_tokens = std::uint64_t{4} << 20;
constexpr std::uint64_t usual_sequence = 8192;

/// The batch and the length that nothing says.
Workload workload_of(const ForecastQuestion& wish, const ModelSpec& model, std::vector<std::string>& assumed) {
  Workload w;
  w.clip_norm = 1.0;
  const auto& names = precision_names();
  w.precision = static_cast<Precision>(std::find(names.begin(), names.end(), wish.precision) - names.begin());
  w.sequence_length = wish.sequence;
  if (wish.sequence == 0) {
    w.sequence_length =
        model.max_positions > 0 ? std::min<std::uint64_t>(usual_sequence, model.max_positions) : usual_sequence;
    assumed.push_back(fmt::format("sequences of {} tokens (--seq)", w.sequence_length));
  }
  w.global_batch = wish.batch;
  if (wish.batch == 0) {
    w.global_batch = std::max<std::uint64_t>(1, usual_batch_tokens / w.sequence_length);
    assumed.push_back(fmt::format("a batch of {} sequences, {} tokens (--batch)", w.global_batch,
                                  short_count(static_cast<double>(w.global_batch * w.sequence_length))));
  }
  return w;
}

/// The plan that `orrery plan` answers with; empty where none fits.
std::optional<PlannedRun> best_plan(PlannedRun run, const CalibrationChoice& prices, std::string& claim) {
  const Calibration& calibration = prices.calibration;
  Diagnostics d;
  SearchOptions options;
  options.limits = search_space_of({}, prices.software.name, run.model, run.workload, d).limits;
  options.headroom = margin_of("auto", *run.cluster, calibration, d);
  require_none(d);
  options.top = 1;
  options.simulate = false;
  options.cancel = &interrupted();
  Progress progress;
  options.progress = [&](const SearchProgress& p) { progress.settled(p.phase, p.done, p.total, ""); };
  SearchResult result = search(run.model, run.workload, *run.cluster, calibration, options);
  progress.clear();
  if (result.plans.empty() && interrupted().load()) throw Error("interrupted before a plan was found");
  if (result.plans.empty()) return std::nullopt;
  run.plan = std::move(result.plans[0].plan);
  run.plan.name = fmt::format("{}-{}-{}", run.model.name, run.cluster->devices(), run.cluster->name);
  claim = describe(run.plan);
  return run;
}

}  // namespace

ForecastSubject forecast_subject(const LoadedPlan& loaded, const PowerTable& power) {
  ForecastSubject out;
  out.run = loaded.run;
  out.report = estimate(loaded.run, loaded.program, cost_model(loaded));
  tell_prices(out.report, loaded.calibration);
  judge_memory(out.report, loaded.run, loaded.program, loaded.calibration.calibration);
  out.step = headline_step(out.report);
  const ClusterSpec& cluster = *loaded.run.cluster;
  out.checkpoint = checkpoint_size(loaded.program, loaded.run.plan.placement, cluster.devices_per_node);
  out.energy = step_energy(out.report, moved_bytes(loaded.program, loaded.run.plan.placement, cluster.devices_per_node),
                           cluster, power);
  return out;
}

ForecastSubject searched_subject(const CommonFlags& flags, const std::string& cluster, const ForecastQuestion& wish,
                                 const PowerTable& power) {
  const Library library = library_of(flags);
  Diagnostics d;
  PlannedRun run;
  std::optional<ModelSpec> model = named_model(library, *flags.model, d);
  run.cluster_reference = with_nic(cluster, flags);
  run.cluster = named_cluster(library, run.cluster_reference, flags.gpus, d);
  require_none(d);
  run.model = std::move(*model);
  run.model_reference = library.portable_model(*flags.model, "");
  adapt_to_this_machine(*run.cluster);
  set_price(*run.cluster, flags);
  std::vector<std::string> assumed;
  run.workload = workload_of(wish, run.model, assumed);
  static_cast<void>(check_workload(run.workload, d) && check_priced(run.model, d) &&
                    check_sizes(run.model, run.workload, d));
  if (d.empty() && !run.cluster->device.peak.contains(run.workload.precision)) {
    d.error("plan.precision", fmt::format("{} does not compute in {}", run.cluster->device.name, wish.precision));
  }
  require_none(d);
  const CalibrationChoice calibration = calibration_of(flags, library, *run.cluster, run.workload.precision);
  std::string claim;
  std::optional<PlannedRun> best = best_plan(std::move(run), calibration, claim);
  if (!best) {
    refuse("forecast.no-plan", fmt::format("no plan of {} fits on this cluster", *flags.model),
           {"orrery plan with the same model and cluster says what would fit."});
  }
  ForecastSubject out = forecast_subject(resolved_and_lowered({std::move(*best), calibration}), power);
  out.assumed = std::move(assumed);
  out.found = std::move(claim);
  return out;
}

std::optional<ForecastSubject> resized_subject(const ForecastSubject& base, std::uint32_t gpus,
                                               const CommonFlags& flags, const PowerTable& power) {
  PlannedRun run = base.run;
  const auto per_replica = run.plan.mesh.size() / run.plan.mesh.size(Axis::data);
  if (base.found.empty() && (gpus % per_replica != 0 || gpus < per_replica)) return std::nullopt;
  Diagnostics d;
  const Library library = library_of(flags);
  std::optional<ClusterSpec> cluster = library.cluster(run.cluster_reference, ".", gpus, d);
  if (!cluster) return std::nullopt;
  cluster->price_per_gpu_hour = run.cluster->price_per_gpu_hour;
  cluster->price_currency = run.cluster->price_currency;
  run.cluster = std::move(*cluster);
  const CalibrationChoice calibration =
      calibration_of(for_framework(flags, run.framework), library, *run.cluster, run.workload.precision);
  std::string claim;
  if (base.found.empty()) {
    set_size(run.plan.mesh, Axis::data, static_cast<std::uint32_t>(gpus / per_replica));
    run.plan.placement.clear();
  } else {
    std::optional<PlannedRun> best = best_plan(std::move(run), calibration, claim);
    if (!best) return std::nullopt;
    run = std::move(*best);
  }
  check(run.plan, run.model, run.workload, &*run.cluster, d);
  if (!d.empty()) return std::nullopt;
  ForecastSubject out = forecast_subject(resolved_and_lowered({std::move(run), calibration}), power);
  out.assumed = base.assumed;
  out.found = claim;
  return out.report.fits ? std::optional(std::move(out)) : std::nullopt;
}

FewerReplicas fewer_replicas(const ForecastSubject& subject, const CommonFlags& flags) {
  FewerReplicas out;
  const Plan& plan = subject.run.plan;
  const std::uint32_t replicas = plan.mesh.size(Axis::data);
  const auto nodes = static_cast<double>(subject.run.cluster->nodes);
  out.nodes_per_replica = nodes / replicas;
  const std::uint64_t each = subject.run.workload.global_batch / replicas;
  for (std::uint32_t left = replicas - 1; left > 0 && 4 * left >= 3 * replicas; --left) {
    PlannedRun run = subject.run;
    set_size(run.plan.mesh, Axis::data, left);
    run.plan.placement.clear();
    // The replicas that are left take whole microbatches of the batch; the last round is not full.
    const std::uint64_t more = (subject.run.workload.global_batch + left - 1) / left;
    const std::uint64_t rounded = (more + plan.microbatch_size - 1) / plan.microbatch_size * plan.microbatch_size;
    run.workload.global_batch = std::max(each, rounded) * left;
    const auto gpus = static_cast<std::uint32_t>(run.plan.mesh.size());
    Diagnostics d;
    std::optional<ClusterSpec> cluster = resized(*subject.run.cluster, gpus, d);
    if (!cluster) break;
    run.cluster = std::move(*cluster);
    check(run.plan, run.model, run.workload, &*run.cluster, d);
    if (!d.empty()) break;
    const CalibrationChoice calibration =
        calibration_of(for_framework(flags, run.framework), library_of(flags), *run.cluster, run.workload.precision);
    const LoadedPlan loaded = resolved_and_lowered({std::move(run), calibration});
    const Report report = estimate(loaded.run, loaded.program, cost_model(loaded));
    out.slowdown.push_back(std::fmax(1.0, report.step_time / subject.report.step_time));
  }
  return out;
}

}  // namespace orrery
