#include "sim/bound/mesh_costs.hpp"

namespace orrery {

StageShare share_of(const Plan& plan, const StageMap& map, std::uint32_t stage) {
  const bool first = stage == 0, last = stage + 1 == map.stages();
  return {(*plan.stage_layers)[stage], first, last, !first && map.rank(stage - 1) == map.rank(stage),
          !last && map.rank(stage + 1) == map.rank(stage)};
}

MeshCosts::MeshCosts(const ModelSpec& m, const Workload& w, const ClusterSpec& c, const Calibration& k)
    : model(m), workload(w), cluster(c), calibration(k) {}

void MeshCosts::enter(const Plan& plan) {
  if (costs && plan.mesh == on_.mesh && plan.placement == on_.placement && plan.tensor == on_.tensor &&
      plan.collective_algorithm == on_.collective_algorithm && plan.gradient_bucket == on_.gradient_bucket) {
    return;
  }
  on_ = Plan{};
  on_.mesh = plan.mesh;
  on_.placement = plan.placement;
  on_.tensor = plan.tensor;
  on_.collective_algorithm = plan.collective_algorithm;
  on_.gradient_bucket = plan.gradient_bucket;
  costs.emplace(cluster, calibration, plan.mesh, plan.placement, plan.collective_algorithm);
  states_ = {};
  times_.clear();
  boundary_levels_.clear();
}

std::uint32_t MeshCosts::levels_after(std::uint32_t i) {
  const std::uint32_t p = on_.mesh.size(Axis::pipeline);
  while (boundary_levels_.size() <= i) {
    const auto at = static_cast<std::uint32_t>(boundary_levels_.size());
    const Rank here = on_.mesh.moved(Rank{0}, Axis::pipeline, at);
    boundary_levels_.push_back(
        costs->pair_levels({Axis::pipeline}, here, on_.mesh.moved(here, Axis::pipeline, (at + 1) % p)));
  }
  return boundary_levels_[i];
}

const BlockCosts& MeshCosts::blocks_of(const Plan& plan) {
  const BlockKey key = block_key(plan);
  const auto known = blocks_.find(key);
  if (known != blocks_.end()) return known->second;
  if (blocks_.size() >= most_blocks) blocks_.clear();
  return blocks_.try_emplace(key, model, workload, plan, *costs).first->second;
}

const BlockTimes& MeshCosts::times_of(const Plan& plan) {
  const BlockKey key = block_key(plan);
  const auto known = times_.find(key);
  if (known != times_.end()) return known->second;
  const BlockCosts& of = blocks_of(plan);
  return times_.try_emplace(key, BlockTimes{of.spans(*costs), of.arrival_spans(*costs), of.lanes(*costs)})
      .first->second;
}

StateCosts& MeshCosts::states_of(const Plan& plan) {
  const bool turned = stage_map(plan).rank(stage_map(plan).stages() - 1) == 0;  // tables are tied on one rank
  auto& at = states_[std::size_t{plan.zero_stage} * 4 + (plan.sequence_parallel ? 2U : 0U) + (turned ? 1U : 0U)];
  if (!at) at.emplace(model, workload, plan, *costs);
  return *at;
}

Picoseconds MeshCosts::transfer(std::uint64_t bytes, std::uint32_t levels) const {
  return picoseconds(costs->transfer(Bytes::of(static_cast<double>(bytes)), levels));
}

}  // namespace orrery
