#include "jobs/job_figures.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery {

double finish_time_fairness(double time, const ClusterJob& job, double mean_crowd, double cluster_gpus) {
  if (job.run <= 0 || time <= 0.0) return 1.0;
  const std::vector<JobSpeed> speeds = speeds_of(job);
  JobSpeed best = speeds.front();
  for (const JobSpeed& s : speeds) {
    if (s.gpus * mean_crowd <= cluster_gpus && s.speed > best.speed) best = s;
  }
  const double alone = seconds_of(job.run) * static_cast<double>(full_speed) / static_cast<double>(best.speed);
  return time / (alone * std::fmax(1.0, best.gpus * mean_crowd / cluster_gpus));
}

JobFigures job_figures(const JobWorkload& workload, const JobHistory& history) {
  JobFigures out;
  if (workload.jobs.empty()) return out;
  std::vector<Microseconds> times;
  GpuMicroseconds sum = 0, queue = 0, used = 0, lost = 0, undone = 0;
  double weighted = 0.0, fairness = 0.0;
  std::size_t unfair = 0;
  for (std::size_t j = 0; j < workload.jobs.size(); ++j) {
    const ClusterJob& job = workload.jobs[j];
    const JobProgress& p = history.jobs[j];
    const Microseconds time = p.end - job.submit;
    times.push_back(time);
    sum += time;
    queue += p.first_start - job.submit;
    used += p.used;
    lost += p.lost;
    undone += p.undone;
    out.failures += p.failures;
    weighted += seconds_of(time) * seconds_of(p.used);
    out.stops += p.stops;
    const double crowd = time > 0 ? static_cast<double>(p.crowd) / static_cast<double>(time) : 0.0;
    const double rho = finish_time_fairness(seconds_of(time), job, crowd, static_cast<double>(history.gpus));
    fairness += rho;
    out.worst_fairness = std::fmax(out.worst_fairness, rho);
    if (rho > 1.0) ++unfair;
  }
  const auto count = static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  out.mean_completion = seconds_of(sum) / count;
  out.median_completion = seconds_of(GpuMicroseconds{times[(n - 1) / 2]} + times[n / 2]) / 2.0;
  out.p99_completion = seconds_of(times[(99 * n + 99) / 100 - 1]);
  out.weighted_completion = used > 0 ? weighted / seconds_of(used) : 0.0;
  out.mean_queue = seconds_of(queue) / count;
  out.makespan = seconds_of(history.end - history.begin);
  out.gpu_time = seconds_of(used);
  out.lost = seconds_of(lost);
  out.undone = seconds_of(undone);
  const double span = out.makespan * static_cast<double>(history.gpus);
  out.utilization = span > 0.0 ? seconds_of(history.busy) / span : 0.0;
  out.mean_crowd = out.makespan > 0.0 ? seconds_of(history.crowd) / out.makespan : 0.0;
  out.most_crowd = history.most_crowd;
  out.mean_fairness = fairness / count;
  out.unfair = static_cast<double>(unfair) / count;
  return out;
}

}  // namespace orrery
