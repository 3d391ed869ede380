#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/cost_model.hpp"
#include "sim/net/fabric.hpp"

namespace orrery {

/// Members first, first + stride, ..., count of them.
struct MemberRange {
  std::uint32_t first = 0, count = 0, stride = 1;
  [[nodiscard]] std::uint32_t operator[](std::uint32_t i) const { return first + i * stride; }
  friend bool operator==(const MemberRange&, const MemberRange&) = default;
};

/// One message of a collective between members of its group. It starts when all of its members have ended all their
/// messages of lower steps; members that do not meet do not wait for each other.
struct CollectiveMessage {
  enum class Way : std::uint8_t {
    pair,       ///< from `from` to `to`
    nvls_sum,   ///< the NVLink switch adds the data of `among` and gives the sum to `to`, one of them
    nvls_copy,  ///< `from`, one of `among`, has the NVLink switch give it to all of them
    sharp       ///< the network's switches add the data of `among` and give all of them the sum
  };
  std::uint32_t step = 0;
  std::uint32_t from = 0, to = 0;  ///< members, 0 to p - 1; equal but for a pair
  Bytes payload;
  Way way = Way::pair;
  MemberRange among{};  ///< at least two, but for a pair
  friend bool operator==(const CollectiveMessage&, const CollectiveMessage&) = default;
};
using Messages = std::vector<CollectiveMessage>;

// Collectives over p members as messages. `payload` is what every member has before (all-reduce, reduce-scatter,
// broadcast, all-to-all) or after (all-gather); docs/formulas/network.md has the times on links of one kind.

/// Takes p - 1 steps to the next member, with payload / p each.
[[nodiscard]] Messages ring_reduce_scatter_messages(std::uint32_t p, Bytes payload);
[[nodiscard]] Messages ring_all_gather_messages(std::uint32_t p, Bytes payload);
[[nodiscard]] Messages ring_all_reduce_messages(std::uint32_t p, Bytes payload);
/// Pairs at distance 1, 2, 4, ... exchange everything. Where p is no power of two, members beyond one hand everything
/// to a neighbour before the rounds, and get the sum from it after them.
///
/// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005 (all-reduce, of a number that is no power of two).
[[nodiscard]] Messages recursive_doubling_messages(std::uint32_t p, Bytes payload);
/// Reduce-scatter by halves, then all-gather by doubles; members beyond a power of two as above.
[[nodiscard]] Messages halving_doubling_messages(std::uint32_t p, Bytes payload);
/// From member 0 on, every member that has the data sends it on.
[[nodiscard]] Messages binomial_broadcast_messages(std::uint32_t p, Bytes payload);
/// The same backwards, to member 0.
[[nodiscard]] Messages binomial_reduce_messages(std::uint32_t p, Bytes payload);
/// Goes along the members one after another, in the given number of pieces.
[[nodiscard]] Messages pipelined_broadcast_messages(std::uint32_t p, Bytes payload, std::uint32_t pieces);
/// In step s every member sends payload / p to the one s + 1 further on.
[[nodiscard]] Messages pairwise_all_to_all_messages(std::uint32_t p, Bytes payload);
/// How the steps of a hierarchical all-reduce go inside a group, and between groups.
struct Hierarchy {
  bool nvls = false;   ///< inside: NVLink's switch adds and copies; else rings
  bool sharp = false;  ///< between: the network's switches do; else rings
  friend bool operator==(const Hierarchy&, const Hierarchy&) = default;
};
/// All-reduce over p / inner groups of `inner` neighbours: reduce-scatter inside, all-reduces between members with one
/// place in their groups, all-gather inside. Requires that inner divides p.
[[nodiscard]] Messages hierarchical_all_reduce_messages(std::uint32_t p, std::uint32_t inner, Bytes payload,
                                                        Hierarchy = {});
/// All-reduce under one NVLink switch, in the given number of pieces: member i has the switch add a piece's i-th part
/// and writes the sum to all, while the next piece is added.
[[nodiscard]] Messages nvls_all_reduce_messages(std::uint32_t p, Bytes payload, std::uint32_t pieces);
/// All-reduce by two binary trees (two_trees), each with half of the payload, in the given number of pieces: up to the
/// root, and down again while the next pieces come up.
[[nodiscard]] Messages double_tree_all_reduce_messages(std::uint32_t p, Bytes payload, std::uint32_t pieces);
/// All-reduce over p / inner nodes of `inner` neighbours, each under an NVLink switch, in the given number of pieces.
/// Member i of each node has its switch add the node's i-th part. Members with one place add these by two binary trees
/// between nodes, half by each, and write the sum to all of their node. NCCL calls this NVLS tree. Requires that inner
/// divides p.
[[nodiscard]] Messages nvls_tree_all_reduce_messages(std::uint32_t p, std::uint32_t inner, Bytes payload,
                                                     std::uint32_t pieces);
/// Steps of latency from the lowest leaf of those trees to the root: floor(log2 p), and one more where the second tree
/// is the first one shifted.
[[nodiscard]] std::uint32_t double_tree_depth(std::uint32_t p);
/// All-to-all over p / inner groups of `inner` neighbours. Inside, each member gets the data for members with its place
/// in all groups; then members with one place exchange it. Requires that inner divides p.
[[nodiscard]] Messages hierarchical_all_to_all_messages(std::uint32_t p, std::uint32_t inner, Bytes payload);

/// A collective and the GPUs that are its members.
struct Job {
  std::vector<std::uint32_t> gpus;
  Messages messages;
};

/// The results of jobs that started together.
struct JobTimes {
  std::vector<Picoseconds> ends;  ///< of every job
  std::vector<Bytes> carried;     ///< of every link
};

/// Sends all messages of all jobs over the fabric.
[[nodiscard]] JobTimes run_jobs(const Fabric&, const std::vector<Job>&, PathRule, std::uint64_t seed);

/// Times of one collective at one payload, by every algorithm that its group allows.
struct AlgorithmTimes {
  struct Entry {
    std::string algorithm;
    Picoseconds time = 0;
  };
  Bytes payload;
  std::vector<Entry> entries;  ///< the same algorithms in every row
};

/// All-reduce over `gpus`, with the fabric to itself, at each payload: which algorithm is fastest at which size.
/// Hierarchical ones are tried where the group is whole nodes of several GPUs in a row; in-network ones where the
/// switches add (Fabric::nvls, Fabric::sharp) and nodes are whole, or of one GPU each. Pipelined ones use the fastest
/// number of pieces, a power of two up to 32.
[[nodiscard]] std::vector<AlgorithmTimes> compare_all_reduces(const Fabric&, const std::vector<std::uint32_t>& gpus,
                                                              const std::vector<Bytes>& payloads, PathRule);
/// The same for all-to-alls: pairwise, and hierarchical over whole nodes.
[[nodiscard]] std::vector<AlgorithmTimes> compare_all_to_alls(const Fabric&, const std::vector<std::uint32_t>& gpus,
                                                              const std::vector<Bytes>& payloads, PathRule);
/// A table of the times, with a star at the fastest of each row.
[[nodiscard]] std::string crossover_text(const std::vector<AlgorithmTimes>&);

}  // namespace orrery
