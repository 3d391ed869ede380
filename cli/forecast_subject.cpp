#include "cli/forecast_subject.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/interrupt.hpp"
#include "cli/plan_source.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/axis_sizes.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/resolve.hpp"
#include "sim/estimate/estimate.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t usual_batch_tokens = std::uint64_t{4} << 20;
constexpr std::uint64_t usual_sequence = 8192;

/// The batch and the length that nothing says.
void assume_workload(SearchQuestion& q, const ModelSpec& model, std::vector<std::string>& assumed) {
  if (q.sequence == 0) {
    q.sequence =
        model.max_positions > 0 ? std::min<std::uint64_t>(usual_sequence, model.max_positions) : usual_sequence;
    assumed.push_back(fmt::format("sequences of {} tokens (--seq)", q.sequence));
  }
  if (q.batch == 0) {
    q.batch = std::max<std::uint64_t>(1, usual_batch_tokens / q.sequence);
    assumed.push_back(fmt::format("a batch of {} sequences, {} tokens (--batch)", q.batch,
                                  short_count(static_cast<double>(q.batch * q.sequence))));
  }
}

/// The fastest of the plainest plans, which is found soon, and the question; empty where none fits.
std::optional<ForecastSubject> best_subject(const SearchQuestion& question, const PowerTable& power) {
  SearchTask task = search_task(question);
  task.space.limits = plainest_within(task.space.limits);
  SearchOptions options;
  options.top = 1;
  options.simulate = false;
  options.cancel = &interrupted();
  Progress progress;
  options.progress = [&](const SearchProgress& p) { progress.settled(p.phase, p.done, p.total, ""); };
  const SearchResult result = search(task, options);
  progress.clear();
  if (interrupted().load()) throw Error("interrupted before the best plan was found");
  if (result.plans.empty()) return std::nullopt;
  const std::string name = fmt::format("{}-{}-{}", task.model.name, task.cluster.devices(), task.cluster.name);
  ForecastSubject out =
      forecast_subject(resolved_and_lowered({planned_run(task, result.plans[0].plan, name), task.calibration}), power);
  out.question = question;
  return out;
}

/// The run with so many replicas, on a cluster of its size; empty where that is no valid plan.
std::optional<LoadedPlan> with_replicas(PlannedRun run, std::uint32_t replicas, const CommonFlags& flags) {
  set_size(run.plan.mesh, Axis::data, replicas);
  run.plan.placement.clear();
  Diagnostics d;
  std::optional<ClusterSpec> cluster = resized(*run.cluster, static_cast<std::uint32_t>(run.plan.mesh.size()), d);
  if (!cluster) return std::nullopt;
  run.cluster = std::move(*cluster);
  check(run.plan, run.model, run.workload, &*run.cluster, d);
  if (!d.empty()) return std::nullopt;
  const CalibrationChoice calibration =
      calibration_of(for_framework(flags, run.framework), library_of(flags), *run.cluster, run.workload.precision);
  return resolved_and_lowered({std::move(run), calibration});
}

}  // namespace

ForecastSubject forecast_subject(const LoadedPlan& loaded, const PowerTable& power) {
  ForecastSubject out;
  out.run = loaded.run;
  out.report = estimated(loaded, false);
  out.step = headline_step(out.report);
  const ClusterSpec& cluster = *loaded.run.cluster;
  out.checkpoint = checkpoint_size(loaded.program, loaded.run.plan.placement, cluster.devices_per_node);
  out.energy = step_energy(out.report, moved_bytes(loaded.program, loaded.run.plan.placement, cluster.devices_per_node),
                           cluster, power);
  return out;
}

ForecastSubject searched_subject(SearchQuestion question, const PowerTable& power) {
  Diagnostics d;
  const std::optional<ModelSpec> model = named_model(library_of(question.flags), question.model, d);
  require_none(d);
  std::vector<std::string> assumed;
  assume_workload(question, *model, assumed);
  std::optional<ForecastSubject> best = best_subject(question, power);
  if (!best) {
    refuse("forecast.no-plan", fmt::format("no plan of {} fits on this cluster", question.model),
           {"orrery plan with the same model and cluster says what would fit."});
  }
  assumed.emplace_back(
      "the fastest of the plainest plans; orrery plan -o FILE searches further, and a forecast takes FILE");
  best->assumed = std::move(assumed);
  return std::move(*best);
}

std::optional<ForecastSubject> resized_subject(const ForecastSubject& base, std::uint32_t gpus,
                                               const CommonFlags& flags, const PowerTable& power) {
  std::optional<ForecastSubject> out;
  if (base.question) {
    Diagnostics d;
    if (!resized(*base.run.cluster, gpus, d)) return std::nullopt;
    SearchQuestion question = *base.question;
    question.flags.gpus = gpus;
    out = best_subject(question, power);
  } else {
    const Mesh& mesh = base.run.plan.mesh;
    const auto per_replica = mesh.size() / mesh.size(Axis::data);
    if (gpus % per_replica != 0 || gpus < per_replica) return std::nullopt;
    const std::optional<LoadedPlan> loaded =
        with_replicas(base.run, static_cast<std::uint32_t>(gpus / per_replica), flags);
    if (loaded) out = forecast_subject(*loaded, power);
  }
  if (!out || !out->report.fits) return std::nullopt;
  out->assumed = base.assumed;
  return out;
}

FewerReplicas fewer_replicas(const ForecastSubject& subject, const CommonFlags& flags) {
  FewerReplicas out;
  const Plan& plan = subject.run.plan;
  const std::uint32_t replicas = plan.mesh.size(Axis::data);
  const auto nodes = static_cast<double>(subject.run.cluster->nodes);
  out.nodes_per_replica = nodes / replicas;
  const std::uint64_t each = subject.run.workload.global_batch / replicas;
  std::size_t skipped = 0;  // counts that go on with one replica less
  for (std::uint32_t left = replicas - 1; left > 0 && 4 * left >= 3 * replicas; --left) {
    if (interrupted().load()) throw Error("interrupted");
    ++skipped;
    PlannedRun run = subject.run;
    // The replicas that are left take whole microbatches of the batch; the last round is not full.
    const std::uint64_t more = (run.workload.global_batch + left - 1) / left;
    const std::uint64_t rounded = (more + plan.microbatch_size - 1) / plan.microbatch_size * plan.microbatch_size;
    run.workload.global_batch = std::max(each, rounded) * left;
    const std::optional<LoadedPlan> loaded = with_replicas(std::move(run), left, flags);
    if (!loaded) continue;
    const Report report = estimate(loaded->run, loaded->program, cost_model(*loaded));
    out.slowdown.insert(out.slowdown.end(), std::exchange(skipped, 0),
                        std::fmax(1.0, report.step_time / subject.report.step_time));
  }
  return out;
}

}  // namespace orrery
