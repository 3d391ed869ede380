#include "cli/jobs_failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/amounts.hpp"
#include "cli/common.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/reliability_file.hpp"

namespace orrery {
namespace {

constexpr double least_up_share = 1e-3;  ///< of time in which enough nodes for the largest job are up

}  // namespace

Microseconds job_time(const std::string& text, const char* flag) {
  Seconds time;
  std::string problem;
  if (!parse_quantity(text, time, problem) || time < Seconds{} || time.base() > 1e5) {
    refuse("cli.amount", fmt::format("{}: \"{}\" is no time from 0 s to 100000 s", flag, text),
           {"\"30 s\" and \"2 min\" are right."});
  }
  return std::llround(time.base() * static_cast<double>(microseconds_per_second));
}

void FailureFlags::read(const Library& library, std::uint32_t seed, JobSimulation& out) const {
  if (!reliability) {
    if (save_every) refuse("cli.flags", "--save-every goes with --reliability");
    return;
  }
  Diagnostics d;
  const std::optional<ReliabilitySpec> spec = find_reliability(library, *reliability, ".", d);
  require_none(d);
  if (!spec->node_failures_per_1000_node_days || !spec->repair) {
    refuse("jobs.reliability", fmt::format("{} does not say all that failures need", *reliability),
           {"node_failures_per_1000_node_days and repair are needed."});
  }
  const double nodes_of_rate =
      spec->gpus_per_node ? out.gpus_of_nodes.front() / static_cast<double>(*spec->gpus_per_node) : 1.0;
  out.failures.node_failures_per_s = spec->node_failures_per_1000_node_days->value * nodes_of_rate / 86.4e6;
  out.failures.repair = std::llround(spec->repair->value.base() * static_cast<double>(microseconds_per_second));
  out.failures.seed = seed;
  if (save_every) out.costs.save_interval = std::max<Microseconds>(1, job_time(*save_every, "--save-every"));
  const double per_interval = out.failures.node_failures_per_s * static_cast<double>(out.gpus_of_nodes.size()) *
                              seconds_of(out.costs.save_interval);
  if (per_interval > 2.0) {
    refuse("jobs.reliability", "nodes fail so often that large jobs would never end",
           {fmt::format("{:.3g} of {} nodes fail between two checkpoints; at most 2 may.", per_interval,
                        out.gpus_of_nodes.size())});
  }
}

void require_starts(const JobWorkload& workload, const JobSimulation& options,
                    const std::vector<const JobPolicyRow*>& policies) {
  const bool elastic = std::all_of(policies.begin(), policies.end(), [](const JobPolicyRow* p) { return p->elastic; });
  std::uint32_t most = 0;
  for (const ClusterJob& job : workload.jobs) {
    std::uint32_t least = job.gpus;
    for (const JobSpeed& s : job.speeds) least = elastic ? std::min(least, s.gpus) : least;
    most = std::max(most, least);
  }
  const std::vector<std::uint32_t>& nodes = options.gpus_of_nodes;
  const std::size_t needed = (most + nodes.front() - 1) / nodes.front();
  const double share = up_share(options.failures, nodes.size(), needed);
  if (share >= least_up_share) return;
  const NodeFailures& f = options.failures;
  refuse(
      "jobs.reliability", "so many nodes are down that the largest job practically never starts",
      {fmt::format("It wants {}: {} of {}. Each fails after {:.3g} s and is down for {:.3g} s.", counted(most, "GPU"),
                   needed, counted(nodes.size(), "node"), 1.0 / f.node_failures_per_s, seconds_of(f.repair)),
       fmt::format("So many are up together for {:.2g} of the time; at least {:g} is needed.", share, least_up_share)});
}

}  // namespace orrery
