#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/bound/stage_share.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// What one module ("embedding", "layer", "head", with this the prediction modules) keeps and what updating it takes.
struct ModuleState {
  std::uint64_t persistent_bytes = 0;      ///< weights, gradients, masters, moments
  std::uint64_t state_bytes = 0;           ///< of them masters and moments
  std::uint64_t weight_bytes = 0;          ///< and weights
  std::uint64_t whole_weight_bytes = 0;    ///< what compute reads: ZeRO-3 gathers it
  std::uint64_t whole_gradient_bytes = 0;  ///< what compute adds to: ZeRO-2 and 3 hold it for a while
  Picoseconds clear = 0;
  Picoseconds clear_copy = 0;      ///< ZeRO-2 and 3, once a microbatch
  Picoseconds gather_weights = 0;  ///< ZeRO-3, before use
  Picoseconds norm = 0;            ///< 0 without a factor
  Picoseconds update = 0;
};

/// The update of a module whose states live in host memory.
struct HostUpdate {
  Picoseconds down = 0;    ///< gradients to the host
  Picoseconds update = 0;  ///< by the host
  Picoseconds up = 0;      ///< weights to the device: behind the update, or before each use where they live there too
  Picoseconds gather = 0;  ///< of weights that come up in parts, before each use
};
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
  std::uint32_t dense = 0;         ///< so many of them, of a model that has mixtures too
  std::vector<LanePrice> reduce;   ///< after the last backward pass; with ZeRO-2 and 3 after every one
  std::vector<LanePrice> combine;  ///< ZeRO-2 and 3: once at the end
  Picoseconds gather = 0;          ///< of updated weights
};

/// Parameters, gradients and optimizer states on one mesh with one ZeRO stage:
/// their bytes, and the time of the kernels and collectives that touch them
/// once a step.  Lowered by the same functions as whole Programs.
class StateCosts {
 public:
  /// Of the plan matter mesh, tensor algorithm, sequence parallelism, ZeRO
  /// stage, bucket, and microbatch size and schedule (any valid ones of the
  /// schedule's kind: stages in a loop or on a V).  Model and workload outlive it.
  StateCosts(const ModelSpec&, const Workload&, const Plan&, const CostModel& costs);
  ~StateCosts();
  StateCosts(StateCosts&&) noexcept;
  StateCosts& operator=(StateCosts&&) noexcept;

  [[nodiscard]] const ModuleState& embedding() const { return embedding_; }
  [[nodiscard]] const ModuleState& layer() const { return layer_; }
  [[nodiscard]] const ModuleState& layer(LayerCase c) const { return is_dense(c) ? dense_layer_ : layer_; }
  [[nodiscard]] const ModuleState& head() const { return head_; }
  [[nodiscard]] std::uint64_t scalar_bytes() const { return scalar_bytes_; }
  [[nodiscard]] bool factor() const { return factor_; }
  [[nodiscard]] std::uint32_t zero() const { return zero_; }  ///< 0 on one data rank
  /// Whether gradients are reduced, the head's before those of any layer: a backward pass that reductions follow
  /// closely is done with the head before anything comes in for the layers.
  [[nodiscard]] bool head_apart() const { return head_apart_; }
  [[nodiscard]] Picoseconds norm_reduction() const { return norm_reduction_; }  ///< of the norm's single number
  [[nodiscard]] Picoseconds tied_reduction() const {
    return tied_reduction_;
  }  ///< 0 where no table is tied across stages

  /// The buckets of a stage, in the order in which the last backward pass completes them; remembered.  `costs` is the
  /// one given above.
  [[nodiscard]] const std::vector<BucketCosts>& buckets(const StageShare&, const CostModel& costs);
  /// What the modules' updates would take on the host; remembered.  Requires states that may be offloaded.
  [[nodiscard]] const HostUpdates& host_updates(const CostModel& costs);
  /// Gives up the lowering that buckets are built in, by far most of what this holds; it is made again for every bucket
  /// that is not known.
  void rest();

 private:
  struct Lowered;
  const ModelSpec* model_;
  const Workload* workload_;
  Plan plan_;
  std::unique_ptr<Lowered> lowered_;
  ModuleState embedding_, layer_, dense_layer_, head_;
  std::uint64_t scalar_bytes_ = 0;
  bool factor_ = false;
  bool head_apart_ = false;
  std::uint32_t zero_ = 0;
  Picoseconds norm_reduction_ = 0;
  Picoseconds tied_reduction_ = 0;
  std::map<std::uint64_t, std::vector<BucketCosts>> buckets_;
  std::optional<HostUpdates> host_updates_;
};

}  // namespace orrery
