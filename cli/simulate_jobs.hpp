#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "cli/fabric.hpp"
#include "cli/job_placement.hpp"
#include "sim/des/jobs.hpp"

namespace orrery {

/// The arguments of `simulate PLAN ... --on CLUSTER`.
struct JobsRequest {
  std::vector<std::string> plans;
  std::optional<std::string> cluster, fabric, trace, draw;
  FaultFlags faults;
  JobPlacement placement;
  std::uint32_t steps = 4;
  PathRule rule = PathRule::by_destination;
  std::uint64_t seed = 1;
  bool expand = false;
  std::optional<Noise> noise;
  std::optional<Stragglers> stragglers;
  std::vector<std::string> slow_gpus;
};

/// Plays the plans side by side, and each alone at the same place, and prints the cost of sharing links for each.
/// Returns the exit status.
int run_simulate_jobs(const JobsRequest&, const CommonFlags&);

}  // namespace orrery
