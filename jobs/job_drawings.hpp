#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/gpu_spans.hpp"

namespace orrery {

/// A history to draw, with the name of its policy.
struct DrawnHistory {
  std::string policy;
  const JobHistory* history = nullptr;
};

/// The GPUs of nodes over time in Chrome's trace format, which Perfetto (ui.perfetto.dev) opens: a process for each
/// node, a thread for each GPU, and a slice for each job on it. Several histories stand one below the other, with the
/// policy before the node's name. Times are whole microseconds.
void write_job_trace(const std::vector<DrawnHistory>&, const JobWorkload&,
                     const std::vector<std::uint32_t>& gpus_of_nodes,
                     const std::function<void(std::string_view)>& write);

/// The same as one SVG picture: a row for each GPU, a bar for each stretch of a job, whose colour follows from its
/// number, with its name where that has room. It shows the first 128 GPUs and 20,000 bars of each history, and says
/// what it leaves out. Times count from the first submission.
[[nodiscard]] std::string job_gantt_svg(const std::vector<DrawnHistory>&, const JobWorkload&,
                                        const std::vector<std::uint32_t>& gpus_of_nodes);

}  // namespace orrery
