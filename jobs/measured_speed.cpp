#include "jobs/measured_speed.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

using Steps = MeasuredJob::Steps;

/// Straight between measured batches; empty outside of them.
std::optional<MeasuredJob::Step> step_at(const Steps& steps, double batch) {
  if (steps.empty() || batch < steps.front().local_batch || batch > steps.back().local_batch) return std::nullopt;
  std::size_t i = 1;
  while (i + 1 < steps.size() && steps[i].local_batch < batch) ++i;
  if (steps.size() == 1) return steps.front();
  const MeasuredJob::Step &a = steps[i - 1], &b = steps[i];
  const double along = (batch - a.local_batch) / (b.local_batch - a.local_batch);
  return MeasuredJob::Step{batch, std::lerp(a.step_s, b.step_s, along), std::lerp(a.sync_s, b.sync_s, along)};
}

/// Steps on this many GPUs: measured, or for full nodes straight between the numbers of full nodes around it.
Steps steps_on(const MeasuredJob& job, std::uint32_t gpus) {
  if (const auto found = job.by_gpus.find(gpus); found != job.by_gpus.end()) return found->second;
  if (gpus % job.node_gpus != 0) return {};
  const auto full = [&](const auto& entry) { return entry.first % job.node_gpus == 0; };
  auto above = std::find_if(job.by_gpus.upper_bound(gpus), job.by_gpus.end(), full);
  auto below = job.by_gpus.lower_bound(gpus);
  if (above == job.by_gpus.end()) return {};
  while (below != job.by_gpus.begin()) {
    --below;
    if (!full(*below)) continue;
    const double along = static_cast<double>(gpus - below->first) / static_cast<double>(above->first - below->first);
    Steps out;
    for (const MeasuredJob::Step& a : below->second) {
      const auto b = step_at(above->second, a.local_batch);
      if (b)
        out.push_back({a.local_batch, std::lerp(a.step_s, b->step_s, along), std::lerp(a.sync_s, b->sync_s, along)});
    }
    return out;
  }
  return {};
}

/// Progress of a step of a batch in a row of the tables, in steps of the least batch.
double gain_at(const MeasuredJob& job, double batch, std::size_t row) {
  const auto& all = job.gradients;
  std::size_t i = 0;
  while (i + 1 < all.size() && all[i].first < batch) ++i;
  MeasuredJob::Gradient g = all[i].second[row];
  if (i > 0 && batch < all[i].first) {
    const MeasuredJob::Gradient& low = all[i - 1].second[row];
    const double along = (batch - all[i - 1].first) / (all[i].first - all[i - 1].first);
    g.square = std::lerp(low.square, g.square, along);
    g.variance = std::lerp(low.variance, g.variance, along);
  }
  const double divisor = g.variance * all.front().first / batch + g.square;
  return divisor > 0.0 ? (g.variance + g.square) / divisor : 1.0;
}

struct Batch {
  double examples = 0.0;
  double seconds = 0.0;
};

/// The batches that are tried, with the time of a step.
std::vector<Batch> batches_on(const MeasuredJob& job, std::uint32_t gpus) {
  const Steps steps = steps_on(job, gpus);
  std::vector<Batch> out;
  if (steps.empty()) return out;
  const double least = job.gradients.front().first, most = job.gradients.back().first, k = gpus;
  const double from = std::fmax(least, k * steps.front().local_batch);
  if (from > most) return out;
  constexpr int tried = 50;
  constexpr double rounding = 1e-8;  // so that 64.000000001 counts as 64
  for (int i = 0; i < tried; ++i) {
    const double local = from * std::pow(most / from, i / static_cast<double>(tried - 1)) / k;
    double more = std::ceil(local / steps.back().local_batch - rounding) - 1.0;
    // On one GPU the noise cannot be measured without a second batch (goodput.py).
    if (gpus == 1 && local > least + rounding) more = std::fmax(more, 1.0);
    double at_once = std::ceil(local / (more + 1.0) - rounding);
    at_once = std::fmin(at_once, std::floor(most / (k * (more + 1.0))));
    const auto step = step_at(steps, at_once);
    if (step && step->step_s > 0.0)
      out.push_back({k * at_once * (more + 1.0), step->step_s + more * (step->step_s - step->sync_s)});
  }
  return out;
}

}  // namespace

std::optional<double> measured_time(const MeasuredJob& job, std::uint32_t gpus) {
  const std::vector<Batch> batches = batches_on(job, gpus);
  if (batches.empty()) return std::nullopt;
  double seconds = 0.0, before = 0.0;
  for (std::size_t row = 0; row < job.gradients.front().second.size(); ++row) {
    double progress = job.gradients.front().second[row].progress;
    for (const auto& [batch, rows] : job.gradients) progress = std::fmin(progress, rows[row].progress);
    double best = 0.0;
    for (const Batch& b : batches) best = std::fmax(best, gain_at(job, b.examples, row) / b.seconds);
    seconds += std::fmax(0.0, progress - before) / best;
    before = progress;
  }
  return seconds;
}

std::vector<JobSpeed> measured_speeds(const MeasuredJob& job, std::uint32_t gpus, std::uint32_t most, double& run_s) {
  const std::optional<double> run = measured_time(job, gpus);
  if (!run) return {};
  run_s = *run;
  std::vector<JobSpeed> out;
  for (std::uint32_t g = 1; g <= most; ++g) {
    const bool whole = g % job.node_gpus == 0, power = g < job.node_gpus && (g & (g - 1)) == 0;
    if (!whole && !power && g != gpus) continue;
    const std::optional<double> time = g == gpus ? run : measured_time(job, g);
    if (time && *time > 0.0) out.push_back({g, std::llround(std::clamp(full_speed * *run / *time, 1.0, 1e8))});
  }
  return out;
}

}  // namespace orrery
