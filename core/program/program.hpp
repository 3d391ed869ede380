#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/units.hpp"
#include "core/plan/mesh.hpp"
#include "core/program/buffer.hpp"
#include "core/program/kernel.hpp"
#include "core/program/op.hpp"

namespace orrery {

/// Ranks that communicate: those that differ from each other only in `axes`. Peer i is the member with row-major
/// coordinate i over the axes. `members` keeps a subset of those coordinates (first and last stage, for tied
/// embeddings); an empty one keeps all. Peer numbers then count inside the subset.
struct Group {
  AxisList axes;
  std::vector<std::uint32_t> members;
  friend bool operator==(const Group&, const Group&) = default;
};

[[nodiscard]] std::uint32_t group_size(const Group&, const Mesh&);
/// Ranks of the group that `rank` belongs to, by peer number.
[[nodiscard]] std::vector<Rank> group_ranks(const Group&, const Mesh&, Rank rank);
/// Peer number of `rank`; empty when a subset leaves it out.
[[nodiscard]] std::optional<Peer> peer_of(const Group&, const Mesh&, Rank rank);

/// The op list of one layer kind, phase and shard shape.
struct Block {
  std::string name;
  Pass pass = Pass::forward;  ///< of the block as a whole, for reports
  std::vector<Op> ops;
  std::vector<View> views;
  std::vector<Wait> waits;
  std::vector<Kernel> kernels;
  std::vector<Transfer> transfers;
  friend bool operator==(const Block&, const Block&) = default;
};

/// Runs a block `repeat` times, at layers layer, layer + layer_step, ...
///
/// A receive stands early in the list where sender and receiver would otherwise wait for each other
/// (lower/pipeline_transfers.hpp). A block behind it that needs an earlier message must not wait for it. So
/// `receives_ahead` ops at the tail of a receive lane are for later slots, and where the block waits for that tail it
/// waits for the op before those.
struct Slot {
  BlockId block{};
  std::uint32_t layer = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t repeat = 1;
  std::int32_t layer_step = 1;
  std::uint32_t receives_ahead = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// Ranks with the same list.
struct RankClass {
  std::vector<Slot> setup;  ///< once: allocates and initializes what persists
  std::vector<Slot> step;   ///< one optimizer step; leaves live exactly what setup left
  friend bool operator==(const RankClass&, const RankClass&) = default;
};

/// Angles of rotary positions that theta alone does not give: how a model stretches them to longer sequences.  Feature
/// pair i turns by position * frequencies[i], and its length is multiplied by `scale`.
struct Rotation {
  double scale = 1.0;
  std::vector<double> frequencies;
  friend bool operator==(const Rotation&, const Rotation&) = default;
};

/// For every rank an ordered list of compute, communication and memory
/// operations, without times.
///
/// A Program is folded: each distinct op list is stored once as a Block, and a rank's list is the concatenation of its
/// class's slots. `class_axes` are the mesh axes in which ranks of different classes differ; a rank's class is its
/// row-major coordinate over them.
struct Program {
  Mesh mesh;
  std::uint32_t layers = 0;
  std::uint32_t microbatches = 1;
  std::vector<ParameterTable> parameter_tables;
  std::vector<Rotation> rotations;
  std::vector<Buffer> buffers;
  std::vector<Group> groups;
  std::vector<Block> blocks;
  AxisList class_axes;
  std::vector<RankClass> classes;

  [[nodiscard]] const Buffer& operator[](BufferId id) const { return buffers[index(id)]; }
  [[nodiscard]] const Block& operator[](BlockId id) const { return blocks[index(id)]; }
  [[nodiscard]] const Group& operator[](GroupId id) const { return groups[index(id)]; }
  friend bool operator==(const Program&, const Program&) = default;
};

[[nodiscard]] std::uint32_t class_of(const Program&, Rank);
/// A rank of the class (the smallest).
[[nodiscard]] Rank representative(const Program&, std::uint32_t rank_class);

/// One run of one op in the expanded list of a rank.
struct OpRun {
  OpId id;  ///< running number in the rank's step list; setup is not numbered
  const Block* block;
  const Op* op;
  std::uint32_t op_index;   ///< inside the block
  std::uint32_t block_run;  ///< running number of block runs on this rank
  std::uint32_t layer;
  std::uint32_t microbatch;
  std::uint32_t receives_ahead;  ///< of the slot
};

/// Calls `visit(OpRun)` for every op of the slots, in issue order.
template <class Visitor>
void for_each_op(const Program& program, const std::vector<Slot>& slots, Visitor&& visit) {
  std::uint32_t id = 0;
  std::uint32_t run = 0;
  for (const Slot& slot : slots) {
    const Block& block = program[slot.block];
    for (std::uint32_t r = 0; r < slot.repeat; ++r, ++run) {
      const auto layer = static_cast<std::uint32_t>(static_cast<std::int64_t>(slot.layer) +
                                                    static_cast<std::int64_t>(r) * slot.layer_step);
      for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
        visit(OpRun{OpId{id++}, &block, &block.ops[i], i, run, layer, slot.microbatch, slot.receives_ahead});
      }
    }
  }
}

/// Names the instance of a buffer that a run of a block uses. Layer and microbatch are 0 where the scope does not
/// distinguish them.
struct Instance {
  BufferId buffer{};
  std::uint32_t layer = 0;
  std::uint32_t microbatch = 0;
  friend auto operator<=>(const Instance&, const Instance&) = default;
};
[[nodiscard]] Instance instance_of(const Program&, BufferId buffer, std::int8_t layer_shift, std::uint32_t layer,
                                   std::uint32_t microbatch);

/// First element of the view on `rank` (View::member_of applied).
[[nodiscard]] std::uint64_t offset_on(const Mesh&, const View&, Rank rank);

/// Payload of a collective on one rank: the bytes of its whole-sized views
/// (the vector before reduce-scatter, after all-gather).
[[nodiscard]] std::uint64_t payload_bytes(const Program&, const Block&, const Op&);

/// Bytes that the op reads and writes in device memory (accumulate counts
/// twice).
[[nodiscard]] std::uint64_t touched_bytes(const Program&, const Block&, const Op&);

/// Bytes that peer `peer` of `members` sends in a ring algorithm over `count`
/// elements of `element` bytes, chunk c holding elements [c n / p, (c+1) n / p).
/// The executor's transport counts exactly these.
///   all_reduce      (n - chunk(peer)) + (n - chunk(peer+1))
///   reduce_scatter  every chunk but the peer's own
///   all_gather      every chunk but that of the next peer
///   broadcast       n, but nothing by the peer before the root (a chain from the root)
///   reduce          n, but nothing by the root
///   all_to_all      every chunk but the peer's own
///   permute         n
/// Reduce-scatter leaves chunk `peer` at `peer`; an all-reduce is that followed
/// by the all-gather.  Every peer sends to the next peer (all_to_all: to each).
[[nodiscard]] std::uint64_t ring_bytes_sent(Collective::Kind, std::uint64_t count, std::uint64_t element,
                                            std::uint32_t members, std::uint32_t peer, std::uint32_t root = 0);

}  // namespace orrery
