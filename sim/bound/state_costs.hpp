#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/bound/lowered_states.hpp"
#include "sim/bound/stage_share.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// By module.
struct HostUpdates {
  HostUpdate embedding, layer, dense_layer, head;
};

/// A collective and the collective lane that it queues on.
struct LanePrice {
  std::uint8_t lane = 0;
  Picoseconds price = 0;
};

/// Gradients that travel as one message, and what that takes.
struct BucketCosts {
  bool head = false;
  bool embedding = false;
  std::uint32_t layers = 0;
  std::uint32_t dense = 0;            ///< so many of them, of a model that has mixtures too
  std::span<const LanePrice> reduce;  ///< after the last backward pass; with ZeRO-2 and 3 after every one
  /// ZeRO-2 and 3 where backward passes are split: after every first part; `reduce` after weight gradients.
  std::span<const LanePrice> reduce_first;
  std::span<const LanePrice> combine;  ///< ZeRO-2 and 3: once at the end
  std::span<const LanePrice> gather;   ///< of updated weights
  Picoseconds sum_pipes = 0;           ///< of both pipes' gradients, on any pair of ranks at least
};

/// Parameters, gradients and optimizer states on one mesh with one ZeRO stage:
/// their bytes, and the time of the kernels and collectives that touch them
/// once a step.  What is the same on all meshes of these sizes is LoweredStates.
class StateCosts {
 public:
  /// Of the plan matter mesh, tensor algorithm, sequence parallelism, ZeRO
  /// stage, chunks of parameters, bucket, and microbatch size and schedule (any valid ones of the
  /// schedule's kind: stages in a loop or on a V).  Model and workload outlive it.
  StateCosts(const ModelSpec&, const Workload&, const Plan&, const CostModel& costs);
  /// Of a plan whose mesh has axes of those sizes; it is that of `costs`.
  StateCosts(std::shared_ptr<LoweredStates>, const CostModel& costs);
  // Buckets refer to what lies beside them.
  StateCosts(StateCosts&&) noexcept = default;
  StateCosts& operator=(StateCosts&&) noexcept = default;

  [[nodiscard]] const ModuleState& embedding() const { return embedding_; }
  [[nodiscard]] const ModuleState& layer() const { return layer_; }
  [[nodiscard]] const ModuleState& layer(LayerCase c) const { return is_dense(c) ? dense_layer_ : layer_; }
  [[nodiscard]] const ModuleState& head() const { return head_; }
  [[nodiscard]] std::uint64_t scalar_bytes() const { return lowered_->scalar_bytes; }
  [[nodiscard]] bool factor() const { return lowered_->factor; }
  [[nodiscard]] std::uint32_t zero() const { return lowered_->zero; }  ///< 0 on one data rank
  /// Whether gradients are reduced, the head's before those of any layer: a backward pass that reductions follow
  /// closely is done with the head before anything comes in for the layers.
  [[nodiscard]] bool head_apart() const { return lowered_->head_apart; }
  [[nodiscard]] Picoseconds norm_reduction() const { return norm_reduction_; }  ///< of the norm's single number
  [[nodiscard]] Picoseconds tied_reduction() const {
    return tied_reduction_;
  }  ///< 0 where no table is tied across stages

  /// The buckets of a stage, in the order in which the last backward pass completes them; remembered.  `costs` is the
  /// one given above.
  [[nodiscard]] const std::vector<BucketCosts>& buckets(const StageShare&, const CostModel& costs);
  /// What the modules' updates would take on the host; remembered.  Requires states that may be offloaded.
  [[nodiscard]] const HostUpdates& host_updates(const CostModel& costs);

 private:
  struct Priced {
    std::vector<LanePrice> reduce, reduce_first, combine, gather;
    Picoseconds sum_pipes = 0;
  };
  [[nodiscard]] Picoseconds price(const StateCollective&, const CostModel&);
  [[nodiscard]] Picoseconds sum(const StateCollectives&, const CostModel&);
  /// The same on the pair of pipeline ranks that is the fastest.
  [[nodiscard]] Picoseconds sum_on_any_pair(const StateCollectives&, const CostModel&) const;
  [[nodiscard]] const Priced& priced(const LoweredStates::Messages&, const CostModel&);

  std::shared_ptr<LoweredStates> lowered_;
  ModuleState embedding_, layer_, dense_layer_, head_;
  Picoseconds norm_reduction_ = 0;
  Picoseconds tied_reduction_ = 0;
  std::vector<Picoseconds> prices_;                            ///< by StateCollective::number; negative: not yet known
  std::map<const LoweredStates::Messages*, Priced> messages_;  ///< buckets refer to them
  std::map<std::uint64_t, std::vector<BucketCosts>> buckets_;
  std::optional<HostUpdates> host_updates_;
};

}  // namespace orrery
