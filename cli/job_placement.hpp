#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/des/perturbation.hpp"

namespace orrery {

/// The places of a cluster's jobs, as the command line gives them.
struct JobPlacement {
  bool interleave = false;           ///< nodes in turn
  std::optional<std::string> nodes;  ///< "0-3/4,6": the nodes of each job
  std::optional<std::string> gpus;   ///< "0-3/4-7": the GPUs of each job
};

/// The GPUs of each job, by the devices that its plan counts: `ranks[j]` numbers for job j, on nodes of `per_node`.
///
/// Without lists a job begins at the first free GPU if the rest of that node holds all of the job, otherwise at the
/// next node. When interleaved, jobs take whole nodes in turn. Lists that cannot be read, are too short or too long for
/// their job, or take a GPU twice are refused (cli.jobs).
[[nodiscard]] std::vector<std::vector<std::uint32_t>> place_jobs(const std::vector<std::uint32_t>& ranks,
                                                                 std::uint32_t per_node, const JobPlacement&);

/// GPUs that compute slower, and by which factor: "3,8-15=1.3" names 3 and 8 to 15 of the cluster. Several factors of
/// one GPU multiply. Refuses texts that cannot be read (cli.slowdown).
[[nodiscard]] std::map<std::uint32_t, double> slow_gpus_of(const std::vector<std::string>& given);
/// The ranks on such GPUs; `placement` as in Plan.
[[nodiscard]] std::vector<SlowRank> slow_ranks_on(const std::map<std::uint32_t, double>& slow, std::uint64_t ranks,
                                                  const std::vector<std::uint32_t>& placement);
/// Refuses slow GPUs on which no rank of these placements runs (cli.slowdown).
void require_ranks_on(const std::map<std::uint32_t, double>& slow, const std::vector<std::vector<SlowRank>>& found);

/// Numbers in ascending runs, as in "0-3,8".
[[nodiscard]] std::string runs_text(const std::vector<std::uint32_t>& numbers);

}  // namespace orrery
