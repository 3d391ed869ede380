#include "jobs/cluster_job.hpp"

namespace orrery {

std::vector<JobSpeed> speeds_of(const ClusterJob& job) {
  if (!job.speeds.empty()) return job.speeds;
  return {{job.gpus, full_speed}};
}

}  // namespace orrery
