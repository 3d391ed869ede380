#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/spec/library.hpp"
#include "jobs/job_policy.hpp"
#include "jobs/job_simulation.hpp"

namespace orrery {

/// A flag's time from 0 to 100000 s; anything else is refused as cli.amount.
[[nodiscard]] Microseconds job_time(const std::string& text, const char* flag);

/// How often nodes fail while jobs are played.
struct FailureFlags {
  std::optional<std::string> reliability;  ///< a name or a file
  std::optional<std::string> save_every;

  /// Puts rate, repair and the time between checkpoints into a simulation whose nodes are known. Rates at which jobs
  /// would never end are refused as jobs.reliability.
  void read(const Library&, std::uint32_t seed, JobSimulation&) const;
};

/// Refuses (jobs.reliability) where nodes are down so much that the largest job hardly ever finds enough of them: the
/// simulation would not end.
void require_starts(const JobWorkload&, const JobSimulation&, const std::vector<const JobPolicyRow*>&);

}  // namespace orrery
