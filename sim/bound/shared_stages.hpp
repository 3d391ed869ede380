#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/bound/after_passes.hpp"
#include "sim/bound/copied_passes.hpp"
#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/pipeline_bound.hpp"
#include "sim/bound/stage_memory.hpp"

namespace orrery {

/// What plans share that differ in how they keep states alone (ZeRO stage, resharding, prefetch, overlap): mesh,
/// blocks, schedule and stages.  It is worked out for the first of them.  ZeRO 0 and 1 share their passes too.
///
/// Ranks that hold the same modules follow each other in runs, and differ in when their passes end and in how many
/// microbatches they keep: a run is looked at once.
///
/// Keeps its storage: one for each thread.  The mesh of the plan is entered before any call.
class SharedStages {
 public:
  /// Ranks begin .. end - 1, whose chunks hold the same.
  struct Run {
    std::uint32_t begin = 0, end = 0;
  };

  /// Before anything below.  Nothing to do where the plan shares all of it with the one before.
  void enter(const Plan&, MeshCosts&);
  /// Another number once a plan does not share it, or ZeRO 0 and 1 differ in their passes after all.
  [[nodiscard]] std::uint64_t entered() const { return entered_; }
  [[nodiscard]] const std::vector<Run>& runs() const { return runs_; }
  [[nodiscard]] const StageMap& map() const { return map_; }
  [[nodiscard]] const LayerCosts& layers() const { return layers_; }
  /// Of a step.
  [[nodiscard]] std::uint64_t microbatch_count() const { return microbatches_; }
  /// Before the first backward pass of a rank, by chunk.
  [[nodiscard]] const std::vector<std::uint64_t>& in_flight(std::uint32_t rank) const { return in_flight_[rank]; }
  [[nodiscard]] const StageShare& share(std::uint32_t rank, std::uint32_t chunk) const {
    return shares_[map_.stage(rank, chunk)];
  }

  /// The most bytes of any rank, as Bounder says.
  [[nodiscard]] std::uint64_t peak(const Plan&, const StateCosts&);
  /// The largest of what ranks hold besides their passes.
  [[nodiscard]] std::uint64_t held(const Plan&, const StateCosts&) const;
  /// Times of the plan's stages, until the next call.
  const std::vector<StageTimes>& stages(const Plan&, MeshCosts&, StateCosts&);
  /// The step, by when the bounds of pipeline_bound.hpp say that ranks end their passes.
  [[nodiscard]] Picoseconds step(const Plan&, MeshCosts&, StateCosts&);
  /// What of a step counts: all of it, or what is before the update, its gathers and copies.  `sharded`: of that what
  /// grows with whatever is gathered, cleared or waited for besides, so not what reductions hold up.
  /// `more_offloaded`: it and of the update what least_update_time says.
  enum class Counts : std::uint8_t { all, before_update, sharded, more_offloaded };
  [[nodiscard]] Picoseconds step_of(Counts, const Plan&, MeshCosts&, StateCosts&);
  /// The step where ranks end their passes then.
  [[nodiscard]] Picoseconds step_after(const std::vector<Picoseconds>& ends, const std::vector<StageTimes>&,
                                       const Plan&, MeshCosts&, StateCosts&, Counts = Counts::all);
  /// Bounder::host_is_slower, but for cores that ranks share.
  [[nodiscard]] bool host_is_slower(const Plan&, StateCosts&, const CostModel&) const;
  /// Entry, own work and drain, whatever the states.
  /// Needs no enter(): most splits that are looked at are left out by it.
  [[nodiscard]] Picoseconds passes(const Plan&, MeshCosts&);

 private:
  /// What all plans of one schedule on so many ranks share.
  struct Pipeline {
    ScheduleName schedule = ScheduleName::one_f_one_b;
    std::uint32_t chunks = 0;  ///< of the plan; 0: none yet
    std::uint32_t ranks = 0;
    std::uint64_t microbatches = 0;
    ActionTimes times;
    friend bool operator==(const Pipeline&, const Pipeline&) = default;
  };
  /// All that plans with ZeRO 0 and 1 could differ in before the passes end: what clearing gradients takes, and copies.
  struct PlainPasses {
    Picoseconds layer = -1, embedding = -1, head = -1;
    std::size_t copied_eighths = 0;
    CopyTimes copies;
    friend bool operator==(const PlainPasses&, const PlainPasses&) = default;
  };

  /// What plans share whatever their stages.
  void enter_pipeline(const Plan&, MeshCosts&);
  /// The most that passes of any of the run's ranks hold.
  [[nodiscard]] std::uint64_t activations(const Run&, const Plan&, const StateCosts&);
  [[nodiscard]] std::uint64_t held(const Run&, const Plan&, const StateCosts&) const;
  /// How long each collective lane of a rank of the run is busy in all its passes, at least: the busiest lane's time.
  [[nodiscard]] Picoseconds busiest_lane(const Run&, const Plan&, const MeshCosts&, StateCosts&) const;
  /// How long a rank of the run copies in one direction, or gathers weights that come up in parts, at least.
  [[nodiscard]] Picoseconds busiest_copies(const Run&, const Plan&, const MeshCosts&, StateCosts&) const;
  /// When the first backward pass of one of the run's ranks begins, on lanes that run beside each other; of the stages
  /// given since turns_ was emptied.
  [[nodiscard]] Picoseconds first_backward(const Run&, const std::vector<StageTimes>&);
  [[nodiscard]] Picoseconds least_by_cores(const Plan&, const MeshCosts&, const StateCosts&) const;
  const std::vector<Picoseconds>& ends(const std::vector<StageTimes>&, const Plan&, const MeshCosts&,
                                       const StateCosts&);

  std::uint64_t entered_ = 0;
  std::uint64_t visit_ = 0;
  BlockKey block_, recomputed_;  ///< of plain layers, and of those that are recomputed beside them
  LayerCosts layers_;
  Pipeline pipeline_;
  std::vector<std::uint32_t> stage_layers_, recompute_layers_;
  bool stages_known_ = false;  ///< what follows from all of those
  bool in_flight_known_ = false;

  StageMap map_;
  std::uint64_t microbatches_ = 0;
  std::vector<std::vector<std::uint64_t>> in_flight_;  ///< by rank; of the pipeline
  std::vector<StageShare> shares_;                     ///< by stage
  std::vector<Run> runs_;
  // Of ZeRO 0 and 1, once known:
  std::array<std::vector<std::uint64_t>, copied_kinds> plain_activations_;  ///< by copied_kind, by run
  std::vector<Picoseconds> plain_lanes_;                                    ///< by run
  std::vector<StageTimes> plain_stages_;
  PipelineStorage plain_ends_;
  PlainPasses plain_passes_;

  std::vector<StageTimes> stages_;
  PipelineStorage ends_;
  std::vector<PassMemory> memory_;
  ChunkBuckets buckets_;
  std::vector<Picoseconds> turns_;  ///< by stage, when its first backward pass begins
};

}  // namespace orrery
