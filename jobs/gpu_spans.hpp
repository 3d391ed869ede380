#pragma once

#include <vector>

#include "jobs/job_simulation.hpp"

namespace orrery {

/// A stretch of a job on GPUs of a node, by their places on it, for drawings.
struct GpuSpan {
  std::uint32_t node = 0;
  std::uint32_t gpu = 0;   ///< the first on the node
  std::uint32_t gpus = 1;  ///< neighbours from there on
  JobNumber job = 0;
  Microseconds begin = 0, end = 0;
  std::uint32_t job_gpus = 0;  ///< that the job holds then, on all nodes
  friend bool operator==(const GpuSpan&, const GpuSpan&) = default;
};

/// Which GPUs of a node each stretch is on. The simulation counts GPUs of a node; here each stretch gets the free ones
/// with the lowest numbers, and a span for each run of neighbours. No two spans of a GPU overlap. In order of their
/// beginnings.
[[nodiscard]] std::vector<GpuSpan> gpu_spans(const std::vector<JobStretch>&,
                                             const std::vector<std::uint32_t>& gpus_of_nodes);

}  // namespace orrery
