#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "sim/bound/family_facts.hpp"
#include "sim/bound/family_pipeline.hpp"
#include "sim/bound/family_step.hpp"
#include "sim/bound/mesh_costs.hpp"

namespace orrery {

/// What ZeRO-2 and 3 move on the plan's mesh.
struct ShardPrices {
  Picoseconds gather = 0;  ///< of a layer's weights
  Picoseconds reduce = 0;  ///< of a microbatch's gradients on the fullest rank, at least
  friend bool operator==(const ShardPrices&, const ShardPrices&) = default;
};

/// Lower bounds for all plans that share some choices, whatever their schedule, chunks, stages, ZeRO stage and overlap.
/// The given plan is any of them.
class FamilyBounds {
 public:
  explicit FamilyBounds(MeshCosts&);
  /// For another thread; both know what either worked out.
  [[nodiscard]] FamilyBounds beside(MeshCosts&) const;

  void weigh(std::vector<FamilyPipeline>&, const Plan&);
  /// Bounder::any_block, any_attention, any_recompute, any_order and any_schedule.
  [[nodiscard]] FamilyBound any_block(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                      std::uint64_t capacity, Picoseconds enough);
  [[nodiscard]] FamilyBound any_attention(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                          std::uint64_t capacity, Picoseconds enough);
  [[nodiscard]] FamilyBound any_recompute(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                          std::uint64_t capacity, Picoseconds enough);
  [[nodiscard]] FamilyBound any_recompute_on_mesh(const Plan&, std::uint32_t plain_zero,
                                                  const std::vector<FamilyPipeline>&, std::uint64_t capacity,
                                                  Picoseconds enough);
  [[nodiscard]] FamilyBound any_order(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                      std::uint64_t capacity, Picoseconds enough);
  [[nodiscard]] FamilyBound any_schedule(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                         std::uint64_t capacity, Picoseconds enough);
  /// Bounder::each_keeping.
  using ByKeeping = std::array<FamilyBound, keepings>;
  [[nodiscard]] std::vector<ByKeeping> each_keeping(const Plan&, std::uint32_t plain_zero,
                                                    std::span<const FamilyPipeline>, const ShardPrices&,
                                                    std::uint64_t capacity, Picoseconds enough);
  /// Bounder::shard_prices.
  [[nodiscard]] ShardPrices shard_prices(const Plan&);

 private:
  /// Some of a family's pipelines.
  struct Pipelines {
    std::span<const FamilyPipeline> all;
    std::optional<ScheduleName> blocks;  ///< those with these blocks alone
  };
  static constexpr Picoseconds any_step = std::numeric_limits<Picoseconds>::max();
  /// Where activations may wait in host memory.
  void add_offloaded(FamilyParts&, const Plan&, const BlockFacts&);
  /// Also where some are recomputed, whose passes hide more: `span` is theirs.  Behind add_recomputed.
  void add_offloaded_beside(FamilyParts&, const Plan&, const BlockFacts&, const BlockFacts& recomputed,
                            const PerBlock<Picoseconds>& span);
  /// Of layers whose messages may take less than anywhere on the cluster.
  void add_chunks(FamilyParts&, const Plan&);
  void add_recomputed(FamilyParts&, const Plan&, const PerBlock<Picoseconds>& span, Picoseconds between);
  FamilyParts parts_of(const Plan&, std::uint32_t plain_zero, bool shards);
  /// On the plan's mesh; remembered for meshes with axes of these sizes that lay blocks alike, ranks in order.
  const FamilyParts& parts_on_mesh(const Plan&, std::uint32_t plain_zero, bool shards);
  FamilyParts new_parts_on_mesh(const Plan&, std::uint32_t plain_zero, bool shards);
  /// What they depend on besides the sizes of axes and the bucket.
  struct PartsKey {
    BlockLayout layout{};
    BlockKey block, recomputed;
    TensorAlgorithm tensor = TensorAlgorithm::one_d;
    std::uint32_t plain_zero = 0;
    /// What is to be counted, or offloaded as needed; whether any pipeline shards.
    std::array<bool, 5> open{};
    friend bool operator==(const PartsKey&, const PartsKey&) = default;
  };
  /// Of plans that keep weights and gradients in any way.  Where `enough` is given a bound above it need not be the
  /// closest; if it `stops`, another may be 0.
  FamilyBound family(const Plan&, const FamilyParts&, const Pipelines&, std::uint64_t capacity,
                     Picoseconds enough = any_step, bool stops = true);
  /// What comes behind all passes of the pipeline, at least.
  Picoseconds after_pipes(const FamilyParts&, const Plan&, const FamilyPipeline&);
  /// `price(bytes)` of the fullest rank's gradients, which travel in buckets.
  template <class Price>
  Picoseconds in_buckets(const Plan&, std::uint64_t of_layer, Price&& price) const;
  /// What shards move on the plan's mesh, instead of at its best place.
  void set_prices(FamilyParts&, const Plan&, const ShardPrices&);
  /// Weights come up whole, or in parts that are gathered.
  void set_come(FamilyParts&, const Plan&, Picoseconds gather);
  /// As any_recompute, where that takes no time.
  FamilyBound without_recompute(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                std::uint64_t capacity, Picoseconds enough, Relaxed);
  FamilyBound any_order_of_kind(const Plan&, std::uint32_t plain_zero, const Pipelines&, std::uint64_t capacity,
                                Picoseconds enough);
  /// As any_recompute_on_mesh, of pipelines that run the same blocks.
  FamilyBound layers_of_kind(const Plan&, std::uint32_t plain_zero, const Pipelines&, std::uint64_t capacity,
                             Picoseconds enough);
  /// Whether no split backward pass takes less than a whole one.
  [[nodiscard]] bool whole_is_least(const Plan&) const;
  /// The least of `bound(plan, pipelines)` over pipelines that run the same blocks.
  template <class Bound>
  FamilyBound least_of_kinds(const Plan&, const std::vector<FamilyPipeline>&, std::uint64_t capacity, Bound&& bound);

  MeshCosts* mesh_;
  std::deque<std::pair<PartsKey, FamilyParts>> on_mesh_;
  std::array<std::uint32_t, axis_count> last_sizes_{};
  std::optional<Bytes> last_bucket_;
  FamilyFacts facts_;
};

}  // namespace orrery
