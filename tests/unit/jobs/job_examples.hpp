#pragma once

#include <string>
#include <vector>

#include "core/base/random.hpp"
#include "jobs/job_simulation.hpp"

namespace orrery::test {

struct ShortJob {
  std::int64_t submit_s, run_s;
  std::uint32_t gpus;
};

inline JobWorkload workload_of(const std::vector<ShortJob>& jobs) {
  JobWorkload out;
  for (const ShortJob& j : jobs) {
    ClusterJob job;
    job.name = std::string(1, static_cast<char>('a' + out.jobs.size() % 26));
    job.submit = j.submit_s * microseconds_per_second;
    job.run = j.run_s * microseconds_per_second;
    job.gpus = j.gpus;
    out.jobs.push_back(job);
  }
  return out;
}

/// Jobs of 0 to 40 s on 1 to 8 GPUs, some at the same instant.
inline JobWorkload random_workload(std::uint64_t seed, std::uint32_t count) {
  std::vector<ShortJob> jobs;
  std::int64_t submit = 0;
  for (std::uint32_t j = 0; j < count; ++j) {
    const auto below = [&](std::uint64_t stream, std::uint64_t most) {
      return static_cast<std::int64_t>(random_bits(seed, stream, j) % most);
    };
    submit += below(1, 3) == 0 ? 0 : below(2, 12);
    jobs.push_back({submit, below(3, 41), static_cast<std::uint32_t>(1 + below(4, 8))});
  }
  return workload_of(jobs);
}

inline JobHistory played(const JobWorkload& w, const char* policy, std::vector<std::uint32_t> nodes,
                         PlaceRule places = PlaceRule::packed, JobCosts costs = {}) {
  JobSimulation options;
  options.gpus_of_nodes = std::move(nodes);
  options.places = places;
  options.costs = costs;
  options.keep_stretches = true;
  return simulate_jobs(w, *find_job_policy(policy), options);
}

/// Ends in seconds.
inline std::vector<double> ends_of(const JobHistory& h) {
  std::vector<double> out;
  for (const JobProgress& p : h.jobs) out.push_back(seconds_of(p.end));
  return out;
}

}  // namespace orrery::test
