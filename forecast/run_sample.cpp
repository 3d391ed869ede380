#include "forecast/run_sample.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"

namespace orrery {

Seconds RunSample::quantile(double share) const {
  ORRERY_ASSERT(!walls.empty() && share >= 0.0 && share <= 1.0, walls.size(), share);
  const double at = share * static_cast<double>(walls.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, walls.size() - 1);
  return walls[below] + (at - static_cast<double>(below)) * (walls[above] - walls[below]);
}

RunSample sample_runs(Seconds work, const SavePlan& saves, const RunHazards& hazards, const FewerReplicas& fewer,
                      std::uint64_t runs, std::uint64_t seed, const WorkProgress& progress, std::uint64_t most_events,
                      std::uint64_t most_in_all) {
  RunSample out;
  double mean = 0.0, squares = 0.0;
  std::uint64_t events = 0;
  for (std::uint64_t i = 0; i < runs && events < most_in_all; ++i) {
    if (progress) progress(i, runs);
    const SimulatedRun run = simulate_run(work, saves, hazards, fewer, seed, i, nullptr, most_events);
    events += run.events;
    out.history = mix(out.history ^ run.history);
    out.most_replicas_missing = std::max(out.most_replicas_missing, run.most_replicas_missing);
    if (!run.finished) {
      ++out.unfinished;
      continue;
    }
    const Seconds wall = run.ledger.wall();
    out.walls.push_back(wall);
    const double n = static_cast<double>(out.walls.size());
    const double off = wall.base() - mean;
    mean += off / n;
    squares += off * (wall.base() - mean);
    out.failures += (static_cast<double>(run.failures) - out.failures) / n;
    out.mean.productive += (run.ledger.productive - out.mean.productive) / n;
    for (std::size_t k = 0; k < lost_time_count; ++k) {
      out.mean.lost[k] += (run.ledger.lost[k] - out.mean.lost[k]) / n;
    }
  }
  const double n = static_cast<double>(out.walls.size());
  if (n > 1.0) out.wall_error = std::sqrt(squares / (n - 1.0) / n);
  std::sort(out.walls.begin(), out.walls.end());
  return out;
}

}  // namespace orrery
