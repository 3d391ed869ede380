#include "planner/candidates.hpp"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>

#include "planner/progress_meter.hpp"
#include "sim/bound/bound.hpp"

namespace orrery {

Rating rating(Objective objective, Picoseconds step, std::uint64_t peak_bytes) {
  switch (objective) {
    case Objective::step_time:
    case Objective::cost: return {step, 0};
    case Objective::memory: return {static_cast<std::int64_t>(peak_bytes), step};
  }
  return {};
}

namespace {

/// The plans of one mesh and microbatch size, in the order of their numbers.
struct Part {
  std::size_t mesh = 0;
  std::size_t microbatch = 0;
};

struct PartResult {
  std::vector<Candidate> list;
  std::uint64_t looked_at = 0;
  std::uint64_t infeasible = 0;
};

}  // namespace

Candidates find_candidates(const Space& space, const ModelSpec& model, const Workload& workload,
                           const ClusterSpec& cluster, const Calibration& calibration, const SearchOptions& options,
                           ProgressMeter& meter) {
  const double capacity = cluster.device.memory.base();
  std::vector<Part> parts;
  for (std::size_t i = 0; i < space.meshes.size(); ++i) {
    for (std::size_t b = 0; b < space.meshes[i].microbatch_sizes.size(); ++b) parts.push_back({i, b});
  }
  std::vector<PartResult> results(parts.size());
  tbb::enumerable_thread_specific<Bounder> bounders([&] { return Bounder(model, workload, cluster, calibration); });

  const auto look = [&](std::size_t at) {
    if (meter.cancelled()) return;
    const MeshSpace& on = space.meshes[parts[at].mesh];
    PartResult& result = results[at];
    Bounder& bounder = bounders.local();
    const std::uint64_t size = on.count() / on.microbatch_sizes.size();
    std::uint64_t number = space.first[parts[at].mesh] + parts[at].microbatch * size;
    Plan plan = plan_at(space, number);
    for (const std::vector<std::uint32_t>& stages : on.stage_layers) {
      plan.stage_layers = stages;
      for (const RunChoice& run : on.runs) {
        plan.schedule = run.schedule;
        plan.sequence_parallel = run.sequence_parallel;
        plan.zero_stage = run.zero_stage;
        plan.overlap_gradients = run.overlap_gradients;
        for (const KernelChoice& kernel : on.kernels) {
          plan.attention = kernel.attention;
          plan.recompute = kernel.recompute;
          const std::uint64_t peak = bounder.peak_memory(plan);
          if (static_cast<double>(peak) > capacity) {
            ++result.infeasible;
          } else {
            const Picoseconds step = bounder.step_time(plan);
            result.list.push_back({rating(options.objective, step, peak), number, step});
          }
          ++number;
        }
      }
    }
    result.looked_at = size;
    meter.done(size);
  };
  meter.phase("bound", space.count);
  tbb::parallel_for(std::size_t{0}, parts.size(), look);

  Candidates all;
  std::size_t count = 0;
  for (const PartResult& r : results) count += r.list.size();
  all.list.reserve(count);
  for (PartResult& r : results) {
    all.list.insert(all.list.end(), r.list.begin(), r.list.end());
    r.list = {};
    all.looked_at += r.looked_at;
    all.infeasible += r.infeasible;
  }
  tbb::parallel_sort(all.list.begin(), all.list.end());
  return all;
}

}  // namespace orrery
