#pragma once

#include <vector>

#include "jobs/cluster_state.hpp"

namespace orrery {

/// GPUs that a policy gives a job, which has others or none now. With 0 GPUs it is stopped.
struct ChangedGpus {
  JobNumber job = 0;
  JobSpeed on;
};

/// Which nodes a job on several nodes may have, beside the rule of places.
enum class Interference : std::uint8_t {
  ignored,
  avoided  ///< none on which another job on several nodes runs
};

/// Stops the jobs that run, and starts all on their new GPUs, the largest first, so that they get whole nodes. Where
/// one finds no place, those that were stopped and have none go on where they were, if they can.
void change_gpus(ClusterState&, std::vector<ChangedGpus>, Interference = Interference::ignored);

/// The speeds that a job may use on this cluster: of a rigid job its own.
[[nodiscard]] std::vector<JobSpeed> speeds_within(const ClusterJob&, std::uint64_t gpus);

/// Takes out numbers of GPUs above twice the most that a job has had, but for its fewest. A scheduler that learns
/// speeds while jobs run knows nothing beyond (Pollux, OSDI 2021, section 4.1; Sia's simulator, cluster.py).
void limit_growth(std::vector<JobSpeed>&, std::uint32_t most_held);

}  // namespace orrery
