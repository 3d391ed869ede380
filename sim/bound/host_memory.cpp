#include "sim/bound/host_memory.hpp"

#include <algorithm>
#include <numeric>

namespace orrery {
namespace {

/// What lives off the device of modules of one kind, and which of it the plan has on a disk.
struct Modules {
  const Plan& plan;
  std::uint64_t persistent = 0, passing = 0;

  /// So many, of which `with_weights` have their weights off the device too.
  void add(std::uint64_t modules, std::uint64_t with_weights, const HostUpdate& of, HostHeld what) {
    if (modules == 0) return;
    const bool states_pass = plan.states_tier == OffloadTier::disk;
    const bool weights_pass = plan.parameters_tier == OffloadTier::disk;
    if (!states_pass) persistent += modules * of.state_bytes;
    // Of a layer more whose weights go to the disk the host has none to copy up.
    const bool all = !(what == HostHeld::more_offloaded && weights_pass && with_weights > 0);
    const std::uint64_t to_copy_up = all ? modules - with_weights : 0;
    persistent += (to_copy_up + (weights_pass ? 0 : with_weights)) * of.weight_bytes;
    passing = std::max(passing, of.gradient_bytes + (states_pass ? of.state_bytes : 0) +
                                    (weights_pass && with_weights > 0 ? of.weight_bytes : 0));
  }
};

}  // namespace

void held_by_hosts(std::vector<std::uint64_t>& held, HostHeld what, const Plan& plan, const SharedStages& shared,
                   StateCosts& state, const CostModel& costs) {
  const StageMap& map = shared.map();
  held.assign(map.ranks, 0);
  const HostUpdates* host = *plan.offload_states > 0 ? &state.host_updates(costs) : nullptr;
  const bool ends = *plan.offload_states == 8;
  for (const SharedStages::Run& run : shared.runs()) {
    Modules modules{plan};
    for (std::uint32_t c = 0; host != nullptr && c < map.chunks; ++c) {
      const StageShare& share = shared.share(run.begin, c);
      modules.add(offloaded_layers(share.count(), *plan.offload_states),
                  offloaded_layers(share.count(), *plan.offload_parameters), host->layer, what);
      if (ends && share.first) modules.add(1, 0, host->embedding, HostHeld::plan);
      if (ends && share.last) modules.add(1, 0, host->head, HostHeld::plan);
    }
    const PerCase<const BlockCosts*>& blocks = shared.layers().blocks;
    const std::uint64_t plain = blocks[index(LayerCase::plain)]->copied_bytes();
    const std::uint64_t again = plan.recompute_layers ? blocks[index(LayerCase::recomputed)]->copied_bytes() : plain;
    for (std::uint32_t r = run.begin; r < run.end; ++r) {
      std::uint64_t activations = 0;
      for (std::uint32_t c = 0; c < map.chunks; ++c) {
        const StageShare& share = shared.share(r, c);
        const std::uint32_t away = offloaded_layers(share.count(), *plan.offload_activations);
        if (plan.activations_tier == OffloadTier::disk) {
          if (away > 0 && !map.two_way()) activations = std::max(activations, std::min(plain, again));
        } else {
          const std::uint64_t recomputed = std::min(away, share.recomputed);
          activations += shared.in_flight(r)[c] * (recomputed * again + (away - recomputed) * plain);
        }
      }
      held[r] = modules.persistent + std::max(activations, modules.passing);
    }
  }
}

std::uint64_t fullest_node(const std::vector<std::uint64_t>& held, const Plan& plan, std::uint32_t devices_per_node) {
  const std::uint64_t ranks = plan.mesh.size(), stages = held.size();
  const std::uint64_t node = std::min<std::uint64_t>(devices_per_node, ranks);
  const bool piped = stages > 1;
  const std::uint64_t stride = piped ? plan.mesh.stride(Axis::pipeline) : ranks;
  if (plan.placement.empty() && node % (stride * stages) == 0) {
    return node / stages * std::accumulate(held.begin(), held.end(), std::uint64_t{0});
  }
  if (plan.placement.empty() && stride % node == 0) return node * *std::max_element(held.begin(), held.end());
  if (plan.placement.empty() && node % stride == 0 && stages % (node / stride) == 0) {
    const auto together = static_cast<std::ptrdiff_t>(node / stride);
    std::uint64_t most = 0;
    for (auto at = held.begin(); at != held.end(); at += together) {
      most = std::max(most, std::accumulate(at, at + together, std::uint64_t{0}));
    }
    return stride * most;
  }
  std::vector<std::uint64_t> nodes((ranks + node - 1) / node);
  for (std::uint64_t r = 0; r < ranks; ++r) {
    const std::uint64_t device = plan.placement.empty() ? r : plan.placement[r];
    nodes[std::min<std::uint64_t>(device / node, nodes.size() - 1)] += held[piped ? r / stride % stages : 0];
  }
  return *std::max_element(nodes.begin(), nodes.end());
}

}  // namespace orrery
