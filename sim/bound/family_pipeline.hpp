#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// What all plans of a family need at least.
struct FamilyBound {
  std::uint64_t peak = 0;
  Picoseconds step = 0;
  Picoseconds besides = 0;  ///< each_keeping: what every rank has besides passes that recompute nothing
};

/// How plans keep weights and gradients, as far as bounds of families tell them apart.
enum class Keeping : std::uint8_t {
  plain,          ///< ZeRO 0 and 1
  zero_2,         ///< gradients are reduced after every microbatch
  zero_3_kept,    ///< and weights are gathered once a step, and kept
  zero_3_anew,    ///< or for every pass
  zero_3_chunks,  ///< likewise, and gradients take over their memory
};
inline constexpr std::size_t keepings = 5;
[[nodiscard]] Keeping keeping_of(const Plan&);

/// A schedule that plans of a family may have, with all its stage splits.
struct FamilyPipeline {
  ScheduleName schedule = ScheduleName::one_f_one_b;
  std::uint32_t chunks = 1;
  const std::vector<std::vector<std::uint32_t>>* splits = nullptr;
  bool shards = false;  ///< goes with ZeRO-2 and 3
  /// Of every stage's layers of plans with recompute_layers whose activations may wait in host memory, rounded up; the
  /// same for all pipelines of a family.
  std::uint32_t recomputed_eighths = 0;
  // Filled in by weigh(), least over the splits:
  double passes = 0;         ///< entry, own work and drain of the rank that ends last, in passes of a layer
  double entered = 0;        ///< without drain, where a forward pass is nearly a quarter of both or more
  double kept = 0;           ///< layers' activations on the fullest rank
  double held = 0;           ///< on the one with the fewest
  double ahead = 0;          ///< layers' forward passes before the first backward pass of a rank with the most layers
  std::uint32_t layers = 0;  ///< on the rank with the fewest
  double in_flight = 0;      ///< most microbatches that a rank keeps of one layer
  double reduced = 1;        ///< of the gradients of the fullest rank, what a microbatch adds, at least
  double reduced_any = 1;    ///< the same of any rank
  double above = 0;          ///< layers whose backward passes are before the first of some rank
  ScheduleName blocks = ScheduleName::one_f_one_b;  ///< block_schedule
  bool two_way = false;                             ///< two pipes cross each other
  bool keeps_all = false;              ///< before a rank's first backward pass all its chunks have run a forward pass
  std::uint32_t stages = 1;            ///< of a rank
  std::array<double, 8> kept_plain{};  ///< of `kept` those of layers that are not recomputed, by recomputed_eighths
  std::uint32_t smallest = 0;          ///< layers of the smallest stage
  friend bool operator==(const FamilyPipeline&, const FamilyPipeline&) = default;
};

/// Of a layer's two passes, what its forward pass is at least in nearly all models.
inline constexpr double forward_share = 0.24;

/// Fills in what bounds need of the pipeline in plans like that one.
void weigh(FamilyPipeline&, const Plan&, const ModelSpec&, const Workload&);

}  // namespace orrery
