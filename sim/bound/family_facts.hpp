#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/plan.hpp"
#include "sim/bound/best_place.hpp"
#include "sim/bound/family_pipeline.hpp"
#include "sim/bound/mesh_costs.hpp"
#include "sim/bound/shared_memo.hpp"

namespace orrery {

/// Of a layer's passes, what may run at most before its weights have come.
struct Lead {
  Picoseconds forward = 0, backward = 0;
};
[[nodiscard]] Lead lead_of(const BlockCosts&, const PerBlock<Picoseconds>& span, const BlockCosts::Behind&);
[[nodiscard]] Lead compute_lead_of(const PerBlock<Picoseconds>& span, const BlockCosts::Behind&);
[[nodiscard]] Lead longer(const Lead&, const Lead&);

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
enum class Relaxed : std::uint8_t {
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
/// Of a layer on a rank; tensor and data axes and ZeRO decide it.
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

/// Of layers, the lesser of each.
void lessen_layers(PerBlock<Picoseconds>& of, const PerBlock<Picoseconds>& other);
/// The same plan with a whole backward pass.
[[nodiscard]] Plan with_whole_backward(Plan);

/// What bounds of families know of blocks and states whatever mesh they are on, each collective at its best place.
/// Threads that search beside each other share it.
class FamilyFacts {
 public:
  explicit FamilyFacts(MeshCosts&);
  /// For another thread.
  [[nodiscard]] FamilyFacts beside(MeshCosts&) const;

  /// Makes the mesh that of the plan.
  void enter(const Plan&);
  void weigh(std::vector<FamilyPipeline>&, const Plan&);
  [[nodiscard]] const BlockFacts& block(const Plan&, LayerCase = LayerCase::plain);
  /// What layers of both kinds have at least: `which` and, where dense layers lie below mixtures, its dense
  /// counterpart.
  [[nodiscard]] BlockFacts least_block(const Plan&, LayerCase which);
  /// What may run before messages arrive of layers whose passes take as long as those of one case and begin as of
  /// another.
  [[nodiscard]] Picoseconds between(const Plan&, LayerCase, LayerCase begins);
  [[nodiscard]] LayerTimes times_without(const Plan&, Relaxed);
  [[nodiscard]] const LayerState& layer_state(const Plan&, std::uint32_t zero_stage);
  /// Of gradients of so many bytes.
  [[nodiscard]] Picoseconds reduction(const Plan&, std::uint64_t bytes, std::uint64_t members,
                                      Collective::Kind = Collective::Kind::reduce_scatter);
  /// Of so many bytes to host memory, and from there.
  [[nodiscard]] Picoseconds down(std::uint64_t bytes, const Plan&);
  [[nodiscard]] Picoseconds up(std::uint64_t bytes, const Plan&);

 private:
  void know_places(const Plan&);
  LayerTimes relaxed(const Plan&, LayerCase, Relaxed);

  MeshCosts* mesh_;
  std::optional<BestPlace> best_place_;
  Bandwidth down_, up_;  ///< of copies to and from host memory, on any mesh; once best_place_ is known
  SharedMemo<BlockKey, BlockFacts, BlockKeyHash> blocks_;
  /// Of one layer; by Relaxed, from ring on.
  std::array<SharedMemo<BlockKey, LayerTimes, BlockKeyHash>, 2> relaxed_;
  template <class Number, std::size_t n, class Value>
  using ByNumbers = SharedMemo<std::array<Number, n>, Value, ArrayHash<Number, n>>;
  ByNumbers<std::uint32_t, 10, LayerState> layer_states_;
  ByNumbers<std::uint64_t, 4, FamilyPipeline> pipelines_;
  ByNumbers<std::uint64_t, 3, Picoseconds> reductions_;  ///< by bytes, members and kind
};

}  // namespace orrery
