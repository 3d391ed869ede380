#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "jobs/cluster_job.hpp"

namespace orrery {

/// A job's speed and gradient noise as somebody measured them: step times by place and batch of a GPU, and the noise
/// scale over a run for several batches. The form is that of siasosp23/artifacts aaf7a0d, sia-simulator/traces.
struct MeasuredJob {
  struct Step {
    double local_batch = 0.0;  ///< examples on each GPU
    double step_s = 0.0;
    double sync_s = 0.0;  ///< of it waiting for other GPUs; batches that are accumulated do not have it
  };
  using Steps = std::vector<Step>;  ///< by batch, ascending
  /// The gradient up to some progress, of the least batch: its squared norm, and its variance.
  struct Gradient {
    double progress = 0.0;  ///< in steps of the least batch
    double square = 0.0, variance = 0.0;
  };
  std::uint32_t node_gpus = 1;                                      ///< GPUs of the nodes that were measured
  std::map<std::uint32_t, Steps> by_gpus;                           ///< packed on as few nodes as can be
  std::vector<std::pair<double, std::vector<Gradient>>> gradients;  ///< by batch, ascending, as many rows for each
};

/// Reads placements-TYPE.csv (placement, local_bsz, step_time, sync_time), scalability-TYPE.csv (num_nodes,
/// num_replicas in place of the placement) and every validation-BATCH.csv (progress, grad_sqr, grad_var) of a folder. A
/// placement is the GPUs on each node as digits. Only packed places count: all nodes but one full.
///
/// Codes: jobs.tables  csv.quote  file.open
[[nodiscard]] std::optional<MeasuredJob> read_measured_job(const std::filesystem::path& folder, const std::string& type,
                                                           Diagnostics&);

/// Seconds of the whole job on some number of packed GPUs, with the best batch at each point of its progress.
///
///     time = sum over progress of  (step + a (step - sync)) / gain        B = k b (a + 1)
///     gain = (v + q) / (v B0 / B + q)
///
///     k   GPUs           b     batch of a GPU at once    a  further batches that are accumulated
///     B0  least batch    v, q  variance and squared norm of the gradient, straight between the measured batches
///
/// B is the best of 50 in a geometric row from max(B0, k b_min) to the largest measured one. Step times are straight
/// between measured batches and, for full nodes, between measured numbers of nodes. Empty where nothing was measured
/// around this number of GPUs, or where k b_min is above the largest batch.
///
/// Source: Qiao et al., "Pollux", OSDI 2021, section 3, as in petuum/adaptdl 542e123, adaptdl/adaptdl/goodput.py.
/// Leaves out: that speeds of one job differ by run, and that schedulers must first learn them.
[[nodiscard]] std::optional<double> measured_time(const MeasuredJob&, std::uint32_t gpus);

/// The speeds of a job on 1 to `most` GPUs in whole nodes, in powers of two within one, and on `gpus`, which is given
/// full speed; `run_s` gets its time there. Empty where `gpus` was not measured.
[[nodiscard]] std::vector<JobSpeed> measured_speeds(const MeasuredJob&, std::uint32_t gpus, std::uint32_t most,
                                                    double& run_s);

/// Gives the jobs of a workload of Sia's form their runs and speeds from the folders of their applications below
/// `tables`, and the times of restarts of its simulator. A job that was not measured on its GPUs is left out and
/// listed.
void add_measured_speeds(JobWorkload&, const std::filesystem::path& tables, const std::string& type, std::uint32_t most,
                         Diagnostics&);

}  // namespace orrery
