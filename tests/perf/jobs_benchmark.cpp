#include <benchmark/benchmark.h>

#include <algorithm>

#include "jobs/job_simulation.hpp"
#include "jobs/philly_like.hpp"

// As many jobs as Philly's trace has, on 36 nodes of 8 GPUs, where a queue builds up. Jobs per second count.

namespace orrery {
namespace {

void many_jobs(benchmark::State& state) {
  JobWorkload workload = philly_like(82'248, 1);
  std::vector<ClusterJob>& jobs = workload.jobs;
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(), [](const ClusterJob& j) { return j.gpus > 288; }), jobs.end());
  JobSimulation options;
  options.gpus_of_nodes.assign(36, 8);
  constexpr const char* names[] = {"fifo", "srtf", "easy"};
  const JobPolicyRow& policy = *find_job_policy(names[state.range(0)]);
  for (auto _ : state) benchmark::DoNotOptimize(simulate_jobs(workload, policy, options).hash);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(jobs.size()));
  state.SetLabel(std::string(policy.name));
}
BENCHMARK(many_jobs)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery

BENCHMARK_MAIN();
