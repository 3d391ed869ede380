#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "sim/bound/op_chain.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// The axes that cut what a block works on.
inline constexpr std::array<Axis, 6> block_axes{Axis::context, Axis::tensor, Axis::depth,
                                                Axis::row,     Axis::column, Axis::expert};

/// Layers of a stage that run the same blocks.  `recomputed` ones are those that Plan::recompute_layers counts; without
/// counts all do as the plan says.  Dense ones are told apart in models that have mixtures too.
enum class LayerCase : std::uint8_t { recomputed_dense, dense, recomputed, plain };
template <class T>
using PerCase = std::array<T, 4>;
[[nodiscard]] constexpr std::size_t index(LayerCase c) { return static_cast<std::size_t>(c); }
[[nodiscard]] constexpr bool is_dense(LayerCase c) { return c <= LayerCase::dense; }
/// What layers of the case make again.
[[nodiscard]] Recompute recompute_of(const Plan&, LayerCase);

/// What a BlockCosts depends on, as one comparable value.
struct BlockKey {
  std::array<std::uint32_t, block_axes.size()> sizes{};
  std::uint32_t microbatch_size = 0;
  std::uint32_t choices = 0;
  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};
struct BlockKeyHash {
  std::size_t operator()(const BlockKey&) const;
};
/// The schedule that stands for all those with the same blocks: whole or split backward, last stage on the last or the
/// first rank.
[[nodiscard]] ScheduleName block_schedule(const Plan&);
[[nodiscard]] BlockKey block_key(const Plan&, const ModelSpec&, LayerCase = LayerCase::plain);

/// What happens to live memory while a block runs, in bytes from its start.
struct MemoryChange {
  std::int64_t net = 0;           ///< at its end
  std::int64_t peak = 0;          ///< largest on the way, at least 0
  std::int64_t weights_peak = 0;  ///< largest until the last op that reads weights
};

/// The blocks of which every pass over a model consists; `layer` is of one LayerCase, and to the head belong the
/// prediction modules, whose layers are those of LayerCase::plain.
template <class T>
struct PerBlock {
  T embedding_forward{}, embedding_backward{};
  T layer_forward{}, layer_backward{};
  T head_forward{}, head_backward{};
  T layer_weight{}, head_weight{};  ///< weight gradients, where the schedule splits the backward pass
};
/// What `of` makes of each block.
template <class T, class From, class Of>
[[nodiscard]] PerBlock<T> per_block(const PerBlock<From>& from, Of&& of) {
  return {of(from.embedding_forward), of(from.embedding_backward), of(from.layer_forward), of(from.layer_backward),
          of(from.head_forward),      of(from.head_backward),      of(from.layer_weight),  of(from.head_weight)};
}

/// A collective of a block, as far as its price goes: the same wherever its group lies alike.
struct BlockCollective {
  Collective::Kind kind = Collective::Kind::all_reduce;
  Bytes payload;
  Group group;
  std::uint32_t width = 0;    ///< of the narrow rings of a permute; 0: none
  std::uint32_t members = 0;  ///< of the group
  friend bool operator==(const BlockCollective&, const BlockCollective&) = default;
};

/// The blocks that all plans with one way to cut tensors and positions, one
/// microbatch size, recomputation and attention kernel share: lowered once, by the
/// same functions as whole Programs, so that the bound forgets no operation.
/// What ZeRO-2 and 3 add to blocks is not in them.
class BlockCosts {
 public:
  /// Only those choices of the plan matter, whether it has a pipeline where a
  /// table may be tied across it, and whether its schedule splits the backward
  /// pass or lays stages on a V.
  /// `costs` prices kernels; its mesh does not matter.
  BlockCosts(const ModelSpec&, const Workload&, const Plan&, LayerCase, const CostModel& costs);

  [[nodiscard]] const PerBlock<MemoryChange>& memory() const { return memory_; }
  [[nodiscard]] std::uint64_t hidden_bytes() const { return hidden_bytes_; }      ///< of the residual stream
  [[nodiscard]] std::uint64_t gradient_bytes() const { return gradient_bytes_; }  ///< of its gradient
  /// What a layer keeps from its forward to its backward pass, which may wait in host memory.
  [[nodiscard]] std::uint64_t copied_bytes() const { return copied_bytes_; }
  /// Of memory that this takes.
  [[nodiscard]] std::size_t size() const;

  /// What the blocks' collectives take, each kind of them priced once, to be given to what follows.
  using Prices = OpChain::Prices;
  [[nodiscard]] const std::vector<BlockCollective>& collectives() const { return collectives_; }
  /// On the mesh of `costs`, on which the tensor groups lie.
  [[nodiscard]] Prices prices(const CostModel& costs) const;

  /// OpChain::span of each block: spans of successive blocks add up to a lower bound on the compute lane's time.
  [[nodiscard]] PerBlock<Picoseconds> spans(const Prices&, bool concurrent_lanes,
                                            OpChain::Counts = OpChain::Counts::all) const;
  /// Of a layer's blocks alone.
  [[nodiscard]] PerBlock<Picoseconds> layer_spans(const Prices&, bool concurrent_lanes) const;
  /// The same for a layer's blocks from the arrival of a message that the block
  /// waits for: what waits for compute alone, such as a broadcast of weights, may have run before.
  [[nodiscard]] PerBlock<Picoseconds> arrival_spans(const Prices&, bool concurrent_lanes) const;
  /// How long a layer's blocks compute at least from when some of their ops may begin, whatever runs before: those that
  /// compute, those that read weights, or those on the tensor axis' lane.  0 where there are none.
  struct Behind {
    Picoseconds compute_forward = 0, compute_backward = 0;
    Picoseconds weights_forward = 0, weights_backward = 0;
    Picoseconds tensor_backward = 0;
  };
  [[nodiscard]] Behind behind(const Prices&) const;
  /// Time of each block's collectives, by lane.
  [[nodiscard]] PerBlock<LaneTimes> lanes(const Prices&) const;
  /// Matrix products alone, those of experts too.
  [[nodiscard]] const PerBlock<Picoseconds>& products() const { return products_; }
  /// Compute ops alone.
  [[nodiscard]] const PerBlock<Picoseconds>& busy() const { return busy_; }
  /// Of a layer's backward pass what runs later where gradients take over the memory of weights (gradient_copies.cpp):
  /// the order of the rest is the same.
  [[nodiscard]] Picoseconds later_in_chunks() const { return later_in_chunks_; }
  /// How much less its span may be then, of a backward pass that spans so much: other collectives may be beside those.
  [[nodiscard]] Picoseconds less_in_chunks(Picoseconds span) const {
    return span > busy_.layer_backward ? std::min(later_in_chunks_, span - busy_.layer_backward) : 0;
  }
  /// Whether the block's first op computes, so that what is put in front of it delays the block, and whether that op
  /// reads weights, so that it waits for them.
  struct Beginning {
    bool computes = false;
    bool reads_weights = false;
  };
  [[nodiscard]] const PerBlock<Beginning>& beginning() const { return beginning_; }

 private:
  /// One of the lowered Program's blocks.
  struct Part {
    OpChain ops;
    Picoseconds busy = 0, products = 0;
    Beginning begins;
  };
  /// Those that run one after the other; none where a block does nothing.
  using Parts = std::vector<Part>;

  [[nodiscard]] Part part_of(const Program&, const Block&, const CostModel&);
  /// Of the collective: its number among collectives_.
  std::uint32_t number_of(const Program&, const Block&, const Op&);

  PerBlock<Parts> parts_;
  std::vector<BlockCollective> collectives_;
  PerBlock<Picoseconds> busy_, products_;
  Picoseconds later_in_chunks_ = 0;
  PerBlock<MemoryChange> memory_;
  PerBlock<Beginning> beginning_;
  std::uint64_t hidden_bytes_ = 0;
  std::uint64_t gradient_bytes_ = 0;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace orrery
