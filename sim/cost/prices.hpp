#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/program/program.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// The cost of each op of a Program on one cluster: everything that estimate and simulate need to know of the cluster.
/// Both read the same numbers, so an uncontended op costs the same in both, to the picosecond.
///
/// Ops are addressed by block and position in the block. The messages of Exchanges are also addressed by the class of
/// the rank that issues them, because the way from one stage to the next may cross another level of the network than
/// the way after it. Where nodes are of several kinds, ops have a price on each kind; an op that ranks of several kinds
/// do together costs them all the same.
struct Prices {
  bool concurrent_lanes = true;  ///< false: a rank does one op at a time, in list order
  std::uint32_t core_count = 0;  ///< > 0: ranks_per_node ranks share this many cores
  std::uint32_t ranks_per_node = 0;

  std::vector<std::uint32_t> first_op;        ///< by block: position of its first op in `op`
  std::vector<std::uint32_t> first_transfer;  ///< by block
  std::uint32_t transfers = 0;                ///< of all blocks
  std::uint32_t kinds = 1;                    ///< of nodes
  std::vector<std::uint8_t> kind_of_rank;     ///< where there are several
  std::uint32_t ops = 0;                      ///< of all blocks
  std::vector<Picoseconds> op;                ///< [kind][first_op + i]; Exchange, Alloc and Free hold 0
  std::vector<Picoseconds> transfer;          ///< [class][first_transfer + i]; holds for the sender, 0 at receivers
  std::vector<BlockId> blocks;                ///< blocks that the step of each class runs, in order of first use, each
                                              ///< once
  std::vector<std::uint64_t> runs;            ///< of each of `blocks` in one step
  std::vector<std::uint32_t> first_block;     ///< by class, and one more: its part of `blocks`

  [[nodiscard]] std::span<const BlockId> blocks_of(std::uint32_t rank_class) const {
    return std::span(blocks).subspan(first_block[rank_class], first_block[rank_class + 1] - first_block[rank_class]);
  }
  [[nodiscard]] Picoseconds of_op(BlockId block, std::uint32_t i, std::uint32_t kind = 0) const {
    return op[std::size_t{kind} * ops + first_op[index(block)] + i];
  }
  [[nodiscard]] std::uint32_t kind_of(Rank rank) const { return kinds == 1 ? 0U : kind_of_rank[index(rank)]; }
  /// `i` is an index into Block::transfers; the price is that of the sending class.
  [[nodiscard]] Picoseconds of_transfer(std::uint32_t rank_class, BlockId block, std::uint32_t i) const {
    return transfer[std::size_t{rank_class} * transfers + first_transfer[index(block)] + i];
  }
};

/// Lists the blocks of `program` and sizes the tables for it, all prices 0. Keeps the tables' storage.
void resize(Prices&, const Program&, std::uint32_t kinds = 1);

/// Makes the prices a lower bound: every op costs as on the kind of nodes that is fastest at it, wherever its rank is.
void take_fastest(Prices&);

/// Rank of peer `peer` in the group of `rank`: group_ranks(...)[peer] without the list.
[[nodiscard]] Rank peer_rank(const Program&, const Group&, Peer peer, Rank rank);

/// Prices every op that a step runs.  A message between two classes costs what
/// the slowest pair of their ranks pays (CostModel::pair_levels).  Throws Error when a step is
/// too long for whole picoseconds.
void price(Prices&, const Program&, const CostModel&);

/// The way to the price of one op: what `price` computes, recorded on the way. An Exchange costs its slowest send, and
/// nothing where it only receives (the sender has the price); Alloc and Free cost nothing.
[[nodiscard]] DerivedNumber derive(const Program&, const CostModel&, std::uint32_t rank_class, BlockId,
                                   std::uint32_t op);

}  // namespace orrery
