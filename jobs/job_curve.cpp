#include "jobs/job_curve.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace orrery {

std::vector<std::uint32_t> tried_counts(std::uint32_t own, std::uint32_t node_gpus, std::uint32_t most) {
  std::set<std::uint32_t> out;
  for (std::uint32_t g = 1; g < node_gpus; g *= 2) out.insert(g);
  for (std::uint64_t nodes = 1; nodes * node_gpus <= most; nodes *= 2) {
    out.insert(static_cast<std::uint32_t>(nodes * node_gpus));
    if (nodes % 2 == 0) out.insert(static_cast<std::uint32_t>(nodes / 2 * 3 * node_gpus));
  }
  out.insert(own);
  out.erase(out.upper_bound(most), out.end());
  return {out.begin(), out.end()};
}

bool set_curve(ClusterJob& job, const std::vector<StepPoint>& points) {
  double own = 0.0, best = 0.0;
  for (const StepPoint& p : points) {
    if (p.gpus <= job.gpus && (own == 0.0 || p.step_s < own)) own = p.step_s;
  }
  const double run = own * static_cast<double>(job.training->steps);
  if (own <= 0.0 || run > seconds_of(longest_time)) return false;
  job.run = std::llround(run * static_cast<double>(microseconds_per_second));
  job.speeds.clear();
  const auto add = [&](std::uint32_t gpus, double step) {
    job.speeds.push_back({gpus, std::llround(std::clamp(full_speed * own / step, 1.0, 1e8))});
  };
  bool named = false;
  for (const StepPoint& p : points) {
    if (!named && p.gpus >= job.gpus) {
      named = true;
      add(job.gpus, own);
      if (p.gpus == job.gpus) {
        best = own;
        continue;
      }
    }
    if (best > 0.0 && p.step_s >= best) continue;
    best = p.step_s;
    add(p.gpus, p.step_s);
  }
  if (!named) add(job.gpus, own);
  return true;
}

}  // namespace orrery
