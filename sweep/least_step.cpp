#include "sweep/least_step.hpp"

#include "core/record/rates.hpp"
#include "core/spec/node_kinds.hpp"

namespace orrery {

Seconds least_step(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster) {
  const std::optional<FlopRate> peak = total_peak(cluster, workload.precision, cluster.devices());
  if (!peak || peak->base() <= 0.0) return {};
  Workload tokens = workload;
  tokens.global_batch = workload.global_batch * workload.sequence_length;
  tokens.sequence_length = 1;
  return Seconds::of(model_flops(model, tokens) / peak->base());
}

}  // namespace orrery
