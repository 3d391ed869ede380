#include "jobs/change_gpus.hpp"

#include <algorithm>

namespace orrery {

void change_gpus(ClusterState& state, std::vector<ChangedGpus> changes, Interference interference) {
  std::vector<StoppedJob> stops;
  for (const ChangedGpus& c : changes) {
    if (state.progress(c.job).phase != JobPhase::running) continue;
    stops.push_back({c.job, state.progress(c.job).places});
    state.stop(c.job);
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const ChangedGpus& a, const ChangedGpus& b) { return a.on.gpus > b.on.gpus; });
  bool all_started = true;
  for (const ChangedGpus& c : changes) {
    if (c.on.gpus == 0) continue;
    const bool started =
        interference == Interference::avoided ? state.start_apart(c.job, c.on) : state.start(c.job, c.on);
    all_started = started && all_started;
  }
  if (all_started) return;
  for (StoppedJob& s : stops) {
    if (state.progress(s.job).phase == JobPhase::waiting) state.take_back_stop(s.job, std::move(s.places));
  }
}

std::vector<JobSpeed> speeds_within(const ClusterJob& job, std::uint64_t gpus) {
  std::vector<JobSpeed> out = speeds_of(job);
  out.erase(std::remove_if(out.begin(), out.end(), [gpus](const JobSpeed& s) { return s.gpus > gpus; }), out.end());
  return out;
}

void limit_growth(std::vector<JobSpeed>& speeds, std::uint32_t most_held) {
  const std::uint64_t limit = std::max<std::uint64_t>(speeds.front().gpus, 2 * std::uint64_t{most_held});
  speeds.erase(std::remove_if(speeds.begin(), speeds.end(), [limit](const JobSpeed& s) { return s.gpus > limit; }),
               speeds.end());
}

}  // namespace orrery
