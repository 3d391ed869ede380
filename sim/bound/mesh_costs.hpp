#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/stage_memory.hpp"
#include "sim/bound/state_costs.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// What a plan's blocks take on one mesh.
struct BlockTimes {
  PerBlock<Picoseconds> span;
  PerBlock<Picoseconds> arrival;
  PerBlock<LaneTimes> lanes;
};

/// What virtual stage `stage` holds.
[[nodiscard]] StageShare share_of(const Plan&, const StageMap&, std::uint32_t stage);

/// The costs that the bounds of one case are made of.  Blocks are remembered whatever the mesh, all else for the mesh
/// entered last.
struct MeshCosts {
  MeshCosts(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&);

  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  Calibration calibration;
  std::optional<CostModel> costs;  ///< of the mesh

  /// Before anything below: the plan's mesh, placement, tensor algorithm and what else all of it depends on.
  void enter(const Plan&);

  const BlockCosts& blocks_of(const Plan&);
  const BlockTimes& times_of(const Plan&);
  StateCosts& states_of(const Plan&);
  /// Levels of messages between pipeline rank `i` and the next, or from the last to the first.
  std::uint32_t levels_after(std::uint32_t i);
  [[nodiscard]] Picoseconds transfer(std::uint64_t bytes, std::uint32_t levels) const;

 private:
  std::unordered_map<BlockKey, BlockCosts, BlockKeyHash> blocks_;
  static constexpr std::size_t most_blocks = 1000;  ///< 20 to 50 kB each
  Plan on_;
  std::array<std::optional<StateCosts>, 16> states_;  ///< by ZeRO stage, sequence parallelism and placement of stages
  std::unordered_map<BlockKey, BlockTimes, BlockKeyHash> times_;
  std::vector<std::uint32_t> boundary_levels_;  ///< by rank: CostModel::pair_levels to the next
};

}  // namespace orrery
