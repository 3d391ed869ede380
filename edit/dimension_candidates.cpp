#include "edit/dimension_candidates.hpp"

#include <algorithm>

namespace orrery {
namespace {

std::vector<std::uint64_t> divisors_of(std::uint64_t n) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d * d != n) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::uint64_t> doublings(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = from; n <= to; n *= 2) out.push_back(n);
  return out;
}

std::vector<std::uint64_t> up_to(std::uint64_t most) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = 0; n <= most; ++n) out.push_back(n);
  return out;
}

}  // namespace

std::uint64_t sequences_of_rank(const PlannedRun& run) {
  return std::max<std::uint64_t>(1, run.workload.global_batch / size(run.plan.mesh, sequence_axes(run.plan)));
}

std::vector<std::uint64_t> candidates(const PlannedRun& run, Dimension d) {
  const ClusterSpec& cluster = *run.cluster;
  switch (d) {
    case Dimension::devices: {
      std::vector<std::uint64_t> out = divisors_of(cluster.devices_per_node);
      for (std::uint64_t nodes = 2; nodes * cluster.devices_per_node <= 65'536; nodes *= 2) {
        out.push_back(nodes * cluster.devices_per_node);
      }
      return out;
    }
    case Dimension::batch: return doublings(1, 65'536);
    case Dimension::sequence: return doublings(128, std::uint64_t{1} << 20);
    case Dimension::data:
    case Dimension::tensor:
    case Dimension::pipeline:
    case Dimension::context:
    case Dimension::expert:
    case Dimension::replica: return divisors_of(cluster.devices());
    case Dimension::microbatch_size: return divisors_of(sequences_of_rank(run));
    case Dimension::chunks: {
      std::vector<std::uint64_t> out =
          up_to(std::min<std::uint64_t>(run.model.layers / run.plan.mesh.size(Axis::pipeline), 64));
      out.erase(out.begin());
      return out;
    }
    case Dimension::zero_stage: return up_to(3);
    case Dimension::recompute_layers:
      // A stage's recomputed layers are worth counting where any are.
      return run.plan.recompute == Recompute::none ? std::vector<std::uint64_t>{0} : up_to(most_stage_layers(run));
    case Dimension::inner_ring: {
      std::vector<std::uint64_t> out = divisors_of(run.plan.mesh.size(Axis::context));
      out.front() = 0;  // one ring
      return out;
    }
    case Dimension::prefetch: return up_to(1);
    case Dimension::gradient_bucket: {
      std::vector<std::uint64_t> out = doublings(1, 1024);
      out.insert(out.begin(), 0);
      return out;
    }
    case Dimension::precision:
    case Dimension::optimizer:
    case Dimension::tensor_algorithm:
    case Dimension::context_algorithm:
    case Dimension::schedule:
    case Dimension::sequence_parallel:
    case Dimension::recompute:
    case Dimension::attention:
    case Dimension::overlap_gradients:
    case Dimension::offload_states:
    case Dimension::offload_parameters:
    case Dimension::offload_activations:
    case Dimension::states_tier:
    case Dimension::parameters_tier:
    case Dimension::activations_tier:
    case Dimension::zigzag:
    case Dimension::save_gathered:
    case Dimension::reshard_after_forward:
    case Dimension::parameter_chunk:
    case Dimension::collective_algorithm: return up_to(info(d).names().size() - 1);
  }
  return {};
}

}  // namespace orrery
