#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "sim/bound/best_place.hpp"
#include "sim/bound/mesh_costs.hpp"

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
  bool keeps_all = false;    ///< before a rank's first backward pass all its chunks have run a forward pass
  std::uint32_t stages = 1;  ///< of a rank
  std::array<double, 8> kept_plain{};  ///< of `kept` those of layers that are not recomputed, by recomputed_eighths
  std::uint32_t smallest = 0;          ///< layers of the smallest stage
  friend bool operator==(const FamilyPipeline&, const FamilyPipeline&) = default;
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
                                      std::uint64_t capacity);
  [[nodiscard]] FamilyBound any_attention(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                          std::uint64_t capacity, Picoseconds enough);
  [[nodiscard]] FamilyBound any_recompute(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                          std::uint64_t capacity, Picoseconds enough);
  [[nodiscard]] FamilyBound any_recompute_on_mesh(const Plan&, std::uint32_t plain_zero,
                                                  const std::vector<FamilyPipeline>&, std::uint64_t capacity,
                                                  Picoseconds enough);
  [[nodiscard]] FamilyBound any_order(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                      std::uint64_t capacity);
  [[nodiscard]] FamilyBound any_schedule(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                         std::uint64_t capacity, Picoseconds enough);
  /// Bounder::each_keeping.
  [[nodiscard]] std::array<FamilyBound, keepings> each_keeping(const Plan&, std::uint32_t plain_zero,
                                                               const FamilyPipeline&, std::uint64_t capacity);
  /// Bounder::each_schedule.
  [[nodiscard]] std::vector<FamilyBound> each_schedule(const Plan&, std::uint32_t plain_zero,
                                                       const std::vector<FamilyPipeline>&, std::uint64_t capacity);

 private:
  /// Of a layer's passes, what may run at most before its weights have come.
  struct Lead {
    Picoseconds forward = 0, backward = 0;
  };
  static Lead lead_of(const BlockCosts&, const PerBlock<Picoseconds>& span, const BlockCosts::Behind&);
  static Lead compute_lead_of(const PerBlock<Picoseconds>& span, const BlockCosts::Behind&);
  static Lead longer(const Lead&, const Lead&);
  /// Of blocks once they are lowered.
  struct BlockFacts {
    PerBlock<Picoseconds> span;       ///< with every collective at its best place
    PerBlock<Picoseconds> products;   ///< matrix products alone
    PerBlock<Picoseconds> busy;       ///< kernels alone
    PerBlock<Picoseconds> arrival;    ///< of a layer: from the arrival of a message on
    Picoseconds between = 0;          ///< of a layer, what may run before that
    std::uint64_t kept = 0;           ///< by a layer's forward pass
    std::uint64_t copied = 0;         ///< of it what may wait in host memory
    Picoseconds behind_backward = 0;  ///< BlockCosts::Behind::compute_backward
    Picoseconds later = 0;            ///< BlockCosts::later_in_chunks
    Picoseconds less = 0;             ///< BlockCosts::less_in_chunks of the span
    Lead lead, compute, longest;
    Picoseconds all_layers = 0;    ///< spans of all layers of the model, both ways
    Picoseconds all_products = 0;  ///< matrix products alone
  };
  /// What may take no time in passes that bound others from below.
  enum class Free : std::uint8_t {
    nothing,
    ring,      ///< messages along the context axis, and packing for them
    attention  ///< those, and the attention core
  };
  /// Of all layers, with every collective at its best place.
  struct LayerTimes {
    PerBlock<Picoseconds> span;  ///< of layers that take the least
    Picoseconds all_layers = 0;
    Picoseconds between = 0;
    Picoseconds busy_forward = 0;  ///< kernels alone, at least
  };
  LayerTimes times_without(const Plan&, Free);
  LayerTimes relaxed(const Plan&, LayerCase, Free);
  struct LayerState {
    std::uint64_t bytes = 0;      ///< of the layer with the fewest
    std::uint64_t all = 0;        ///< of all layers of the model
    std::uint64_t weights = 0;    ///< whole ones, of the layer with the fewest
    std::uint64_t gradients = 0;  ///< likewise; 0 where they are reduced over several sets of ranks
    Picoseconds gather = 0;       ///< of a layer's weights, at its best place
    std::uint64_t away = 0;       ///< of the layer with the fewest: weights, where they may live in host memory
    std::uint64_t moved = 0;      ///< and states that may
    Picoseconds host = 0;         ///< where states may: what the host's chain takes for a layer, at least
    bool together = false;        ///< no rank updates before every rank has reduced
  };
  /// What the threads of a search share.
  struct Facts {
    std::mutex mutex;
    std::unordered_map<BlockKey, BlockFacts, BlockKeyHash> blocks;
    std::array<std::unordered_map<BlockKey, LayerTimes, BlockKeyHash>, 2>
        relaxed;  ///< of one layer; by Free, from ring on
    std::map<std::array<std::uint32_t, 10>, LayerState> layer_states;
    std::map<std::array<std::uint64_t, 4>, FamilyPipeline> pipelines;
    std::map<std::array<std::uint64_t, 3>, Picoseconds> reductions;  ///< by bytes, members and kind
  };

  static constexpr Picoseconds any_step = std::numeric_limits<Picoseconds>::max();
  void enter(const Plan&);
  BlockFacts facts_of(const Plan&, LayerCase = LayerCase::plain);
  /// What may run before messages arrive of layers whose passes take as long as those of one case and begin as of
  /// another.
  Picoseconds between(const Plan&, LayerCase, LayerCase begins);
  /// What layers of both kinds have at least: `which` and, where dense layers lie below mixtures, its dense
  /// counterpart.
  BlockFacts least_facts_of(const Plan&, LayerCase which);
  /// Of a layer on a rank; tensor and data axes and ZeRO decide it.
  LayerState layer_state(const Plan&, std::uint32_t zero_stage);
  /// What the bounds of a family are made of.
  struct Parts {
    LayerState plain, zero_2, zero_3;  ///< of sharded ones where any pipeline goes with them
    Picoseconds reduce = 0;            ///< of a microbatch's gradients on the fullest rank, at least
    std::uint64_t pair = 0;            ///< bytes of a layer's gradients that two pipes sum at the end, at least
    Picoseconds come = 0;              ///< for a pass, a layer's weights that live in host memory
    std::optional<Lead> lead;          ///< where layers are known
    Lead compute;                      ///< then also: what may run before anything computes
    Lead longest;                      ///< then also: whole passes of the layers that take the longest
    PerBlock<Picoseconds> span;        ///< of layers: of those that take the least
    Picoseconds all_layers = 0;        ///< a microbatch through all layers of the model, both ways
    Picoseconds between = 0;
    Picoseconds busy_forward = 0;  ///< of a layer, kernels alone, where they are known
    std::uint64_t kept = 0;
    /// Where any number of layers may be recomputed: what a layer then keeps, and how much longer its passes take.
    std::uint64_t kept_recomputed = 0;
    std::uint64_t saved = 0;  ///< by recomputing a layer, for each microbatch in flight, at most
    Picoseconds again = 0;
    Picoseconds between_again = 0;
    /// Where activations may wait in host memory: what a layer has there for each microbatch in flight, and how long it
    /// takes to copy that.
    std::uint64_t copied = 0;
    std::uint64_t copied_recomputed = 0;  ///< of a recomputed layer
    Picoseconds copy = 0;
    Picoseconds delay = 0;          ///< of its two passes by copying that, at least
    Picoseconds delay_at_head = 0;  ///< of a layer that the head's backward pass is before
    /// In chunks of parameters: how much less a layer's passes take at most, and what may run behind a stage's message.
    Picoseconds less_in_chunks = 0, later_in_chunks = 0;
    Picoseconds less_again = 0;  ///< likewise, where it may be recomputed
  };
  /// Where activations may wait in host memory.
  void add_offloaded(Parts&, const BlockFacts&) const;
  /// Also where some are recomputed, whose passes hide more: `span` is theirs.  Behind add_recomputed.
  void add_offloaded_beside(Parts&, const BlockFacts&, const BlockFacts& recomputed,
                            const PerBlock<Picoseconds>& span) const;
  /// Of layers whose messages may take less than anywhere on the cluster.
  void add_chunks(Parts&, const Plan&);
  void add_recomputed(Parts&, const Plan&, const PerBlock<Picoseconds>& span, Picoseconds between);
  Parts parts_of(const Plan&, std::uint32_t plain_zero, std::span<const FamilyPipeline>);
  /// On the plan's mesh; remembered for the last one.
  const Parts& parts_on_mesh(const Plan&, std::uint32_t plain_zero, std::span<const FamilyPipeline>,
                             bool own_shards = false);
  Parts new_parts_on_mesh(const Plan&, std::uint32_t plain_zero, std::span<const FamilyPipeline>);
  /// What they depend on besides mesh, placement and bucket.
  struct PartsKey {
    BlockKey block, recomputed;
    TensorAlgorithm tensor = TensorAlgorithm::one_d;
    std::uint32_t plain_zero = 0;
    /// What is to be counted, or offloaded as needed; whether any pipeline shards, and those shards lie as the mesh's.
    std::array<bool, 6> open{};
    friend bool operator==(const PartsKey&, const PartsKey&) = default;
  };
  /// Of plans that keep weights and gradients in any way, or in that one.  Where `enough` is given: at most that if
  /// some of them fit and are not bounded above it.
  FamilyBound family(const Plan&, const Parts&, std::span<const FamilyPipeline>, std::uint64_t capacity,
                     std::optional<Keeping> = std::nullopt, Picoseconds enough = any_step);
  /// Of gradients of so many bytes, at their best place.
  Picoseconds reduction(std::uint64_t bytes, std::uint64_t members,
                        Collective::Kind = Collective::Kind::reduce_scatter);
  /// `price(bytes)` of the fullest rank's gradients, which travel in buckets.
  template <class Price>
  Picoseconds in_buckets(const Plan&, std::uint64_t of_layer, Price&& price) const;
  /// What layers' gathers, and reductions of a microbatch's gradients, take on the plan's mesh instead of at their best
  /// place.
  void price_shards(Parts&, const Plan&);
  /// Layers of a rank whose weights come for each pass.
  struct Coming {
    Picoseconds each = 0;  ///< for one layer's weights
    double layers = 0;     ///< at least one of every stage
    double stages = 1;     ///< of the rank
    double opened = 0;     ///< those that a forward pass opens with, as all backward passes do
    Lead lead;
  };
  /// What a microbatch's passes over the rank's stages take longer by them than its layers, at least.
  static double waits_for(const Coming&, const Lead& longest);
  /// Weights come up whole, or in parts that are gathered.
  void set_come(Parts&, const Plan&, Picoseconds gather);
  /// The same plan with a whole backward pass.
  static Plan with_whole_backward(Plan);
  /// As any_recompute, where that takes no time.
  FamilyBound without_recompute(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                std::uint64_t capacity, Picoseconds enough, Free);
  FamilyBound any_order_of_kind(const Plan&, std::uint32_t plain_zero, std::span<const FamilyPipeline>,
                                std::uint64_t capacity);
  /// The least of `bound(plan, pipelines)` over pipelines that run the same blocks.
  template <class Bound>
  FamilyBound least_of_kinds(const Plan&, const std::vector<FamilyPipeline>&, std::uint64_t capacity, Bound&& bound);

  MeshCosts* mesh_;
  std::deque<std::pair<PartsKey, Parts>> on_mesh_;
  Mesh last_mesh_;
  std::vector<std::uint32_t> last_placement_;
  std::optional<Bytes> last_bucket_;
  std::optional<BestPlace> best_place_;
  Bandwidth down_, up_;  ///< of copies to and from host memory, on any mesh; once best_place_ is known
  std::shared_ptr<Facts> facts_;
};

}  // namespace orrery
