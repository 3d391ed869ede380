#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/units.hpp"
#include "core/plan/plan.hpp"
#include "core/program/op.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/cost/group_shape.hpp"
#include "sim/cost/point_to_point_cost.hpp"
#include "sim/cost/token_exchange.hpp"

namespace orrery {

enum class NcclAlgorithm : std::uint8_t;
class NcclCost;

/// A ring through all members that enters and leaves every unit of every level once.
struct RingPath {
  Seconds latency;      ///< of the p - 1 slowest consecutive hops
  Bandwidth bandwidth;  ///< of the narrowest crossing
  friend bool operator==(const RingPath&, const RingPath&) = default;
};

/// The ring through a group on the levels `links` (innermost first).
///
///     hops that cross level l:  E(l) = c(l-1) - c(l),  c = units, 0 where units = 1, c(-1) = p
///     latency   = sum E(l) a(l) - least a over crossed levels
///     bandwidth = min over crossed levels of  m(l-1) b(l)
///
///     a, b  latency and bandwidth per device     m(l)  fewest members in a unit of level l, m(-1) = 1
///
/// Members that share a unit share its way out: each carries its part over its own link (one ring per member). `step`
/// is what a member sends in one step, m(l-1) messages of equal size; without it the messages are so large that links
/// have their full bandwidth. `why` gets two numbers: latency, then bandwidth.
/// Source: derived; the ring of Patarasuk and Yuan, JPDC 69(2), 2009, laid
/// on a tree of levels.  Leaves out: other traffic on the links.
[[nodiscard]] RingPath ring_path(const GroupShape&, std::span<const LinkCost> links,
                                 std::optional<Bytes> step = std::nullopt, Derivation* why = nullptr);

/// Reduce-scatter or all-gather around a ring.
///
///     T = A + (p - 1) / p * n / b
///
///     n  payload (whole vector)   p  members   A  latency of p - 1 hops   b  bandwidth
///
/// Source: Patarasuk and Yuan, JPDC 69(2), 2009: p - 1 steps of n / p each.
/// Leaves out: the additions, protocol switches by size, other traffic.
[[nodiscard]] Seconds ring_half(Bytes payload, std::uint32_t members, const RingPath&, Derivation* why = nullptr);

/// Reduce-scatter, then all-gather: twice ring_half.
[[nodiscard]] Seconds ring_all_reduce(Bytes payload, std::uint32_t members, const RingPath&, Derivation* why = nullptr);

/// Broadcast or reduce along a chain, cut into many small pieces.
///
///     T = A + n / b          (limit of (p - 2 + c)(a + n / (c b)) for free pieces)
///
/// Source: Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005 (pipelined chain).
/// Leaves out: the time of the first piece.
[[nodiscard]] Seconds chain(Bytes payload, const RingPath&, Derivation* why = nullptr);

/// All-to-all by direct messages, one peer after the other.
///
///     T = sum over levels (m(l) - m(l-1)) (a(l) + n / (p b(l)))
///
///     n  bytes of one rank's send buffer     m(l)  fewest members in a unit of level l, m(-1) = 1
///
/// Source: pairwise exchange, Thakur, Rabenseifner and Gropp, 2005.
[[nodiscard]] Seconds pairwise_all_to_all(Bytes payload, const GroupShape&, std::span<const LinkCost> links,
                                          Derivation* why = nullptr);

/// Latency of one way through a tree: sum over levels ceil(log2(units(l-1) / units(l))) a(l).
[[nodiscard]] Seconds tree_latency(const GroupShape&, std::span<const LinkCost> links, Derivation* why = nullptr);

/// All-reduce over two binary trees, each carrying half, pipelined.
///
///     T = 2 A + 2 n / b
///
///     A  tree_latency     b  bandwidth of the narrowest crossing
///
/// Source: Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth
/// broadcast, reduction and scan", Parallel Computing 35(12), 2009.
/// Leaves out: the additions, the time of the first piece.
[[nodiscard]] Seconds tree_all_reduce(Bytes payload, const GroupShape&, std::span<const LinkCost> links,
                                      Derivation* why = nullptr);

/// Whether all units of each level hold equally many members, as the recursive algorithms need.
[[nodiscard]] bool is_uniform(const GroupShape&);

/// Reduce-scatter by halving, or all-gather by doubling, level by level from the inside. After level l every member
/// keeps 1 / q(l) of what it had before.
///
///     T = sum over levels  ceil(log2 q) a + (q - 1) / q * n(l) / b
///
///     q = units(l-1) / units(l)     n(l) = n / (q(0) ... q(l-1))
///
/// Source: recursive halving and doubling (Thakur, Rabenseifner and Gropp,
/// 2005) for powers of two, Bruck's rounds for others (Bruck et al., IEEE
/// TPDS 8(11), 1997); by levels: derived.  Requires a uniform shape.
[[nodiscard]] Seconds recursive_half(Bytes payload, const GroupShape&, std::span<const LinkCost> links,
                                     Derivation* why = nullptr);

/// All-reduce of the whole vector in every round, for small vectors.
///
///     T = sum over levels  (floor(log2 q) + f) (a + n / b)      f = 0 where q is a power of two, else 2
///
/// Units beyond a power of two hand their vectors to others before the rounds, and get the sum after them: two more
/// messages.
/// Source: recursive doubling, Thakur, Rabenseifner and Gropp, 2005; by levels: derived.  Requires a uniform shape.
[[nodiscard]] Seconds recursive_doubling_all_reduce(Bytes payload, const GroupShape&, std::span<const LinkCost> links,
                                                    Derivation* why = nullptr);

/// All-to-all in ceil(log2 p) rounds; round k sends the blocks whose distance has bit k.
///
///     T = sum over k  a + c(k) n / (p b)      c(k) = numbers below p with bit k set
///
///     a, b  of the outermost crossed level
///
/// Source: Bruck et al., IEEE TPDS 8(11), 1997.
[[nodiscard]] Seconds bruck_all_to_all(Bytes payload, const GroupShape&, std::span<const LinkCost> links,
                                       Derivation* why = nullptr);

/// All-reduce that switches add up and copy, level by level.
///
///     T = sum over crossed levels k(l) a(l)  +  max over crossed levels  f(l) n / (m(l-1) b(l))
///
///     NVLS   k = 2, f = 1 + 1 / q: each of q members has its vector read, and writes its part of the sum
///     SHARP  k = 1, f = 1: up to the tree's root and down again, as one message between the farthest members
///     q  m(l) / m(l-1)     m(l)  fewest members in a unit of level l, m(-1) = 1     a, b  of level l
///
/// The first level leaves each member 1 / q of the sums to pass on, so that all members' ways out work side by side.
/// Broadcast and reduce, which have a root: T = sum over crossed levels a(l) + max n / b(l).
/// Source: Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP)", COMHPC 2016 (the tree of switches);
/// Klenk, Jiang, Thorson and Dennison, "An in-network architecture for accelerating shared-memory multiprocessor
/// collectives", ISCA 2020 (reads and writes through the switch); over levels: derived.
/// Leaves out: the time of the first piece, and limits of what a switch can add at once. The result is empty where the
/// switches of a crossed level add nothing.
[[nodiscard]] std::optional<Seconds> in_network_all_reduce(Bytes payload, const GroupShape&,
                                                           std::span<const LinkCost> links, Derivation* why = nullptr);

/// Time of a collective by one algorithm. It is empty where the algorithm does not exist for the kind or the shape.
/// Tree exists for all-reduce, broadcast, reduce and barrier; in_network for the same, on levels whose switches add;
/// recursive for uniform shapes. Groups of one cost nothing. `payload` is the whole vector: before reduce-scatter,
/// after all-gather.
[[nodiscard]] std::optional<Seconds> collective_time(Collective::Kind, Bytes payload, const GroupShape&,
                                                     CollectiveAlgorithm, std::span<const LinkCost> links,
                                                     Derivation* why = nullptr);

/// Every member sends `payload` to another at the same time: a permute.
///
///     T = max over crossed levels  a + n / b
///
/// Source: one message over the slowest link that a ring through the group crosses. Members share no link of their own.
/// Narrow rings count as groups of their own (CostModel::collective). Leaves out: other traffic.
[[nodiscard]] Seconds one_hop(Bytes payload, const GroupShape&, std::span<const LinkCost> links,
                              Derivation* why = nullptr);

/// Times of ring collectives between CPU ranks, step by step as the executor does them.
///
///     reduce-scatter (p - 1)(a + c / s)     all-gather (p - 1)(a + c / r)     all-reduce: both
///     broadcast (p - 1)(a + n / u)          reduce (p - 1)(a + n / s)         c = n / p
///     barrier ceil(log2 p) a                permute a + n / r
///
///     a  latency of one step     r, s, u  rates at that size: of sending and receiving, adding too, of one message
///
/// Source: the executor's own algorithms; rates measured by `orrery calibrate`.
[[nodiscard]] Seconds stepwise_ring(Collective::Kind, Bytes payload, std::uint32_t members, const MessageRate&,
                                    Seconds latency, Derivation* why = nullptr);

/// Prices collectives and messages on one cluster. It works as NCCL does where the calibration has NCCL's constants and
/// NVLink joins the devices (nccl/nccl_cost.hpp). Otherwise, and for all-to-alls, permutes and messages, it uses level
/// bandwidths with the calibration's efficiencies, the library's algorithms, and its launch.
class CollectiveCost {
 public:
  struct Choice {
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;  ///< by whose messages links are loaded
    Seconds time;
    std::optional<NcclAlgorithm> nccl;  ///< where NCCL's model made the choice
    std::optional<Seconds> moving;      ///< part of `time`, where it is known: the rest is latency
  };
  /// `more_ranks_than_cores` means that CPU ranks take turns on their cores.
  CollectiveCost(const ClusterSpec&, const Calibration&, bool more_ranks_than_cores = false);

  /// The cheapest offered algorithm; the first one wins ties. Or it is `algorithm`, or ring where that one does not
  /// exist for the kind and shape. Devices without concurrent lanes (CPU ranks) run rings only. With NCCL's constants
  /// the choice is NCCL's, or its own ring or tree; `recursive`, which NCCL lacks, is priced as elsewhere.
  [[nodiscard]] Choice choose(Collective::Kind, Bytes payload, const GroupShape&,
                              std::optional<CollectiveAlgorithm> algorithm = std::nullopt,
                              Derivation* why = nullptr) const;
  /// An all-to-all of tokens and experts (dispatch or combine). Where the program sends a token once to each node
  /// (SoftwareCost::node_copies below 1), network and NVLink run beside each other:
  ///
  ///     T = launch + max(T_net(f n), T_node(n)),   f = (D + r (K - D)) / K
  ///
  ///     n  bytes of all choices of a rank's tokens    D  reached_nodes    r  node_copies    K  choices of a token
  ///     T_net   messages of f n / N to each of the other N - 1 nodes
  ///     T_node  messages of n / g to each of the other g - 1 ranks of the node
  ///
  /// Otherwise each choice is a message of its own, as in `choose` (which takes the algorithm). Source: DeepSeek-AI,
  /// "DeepSeek-V3 Technical Report", 2024, section 3.2.2 (InfiniBand to the node, then NVLink, both at once); DeepEP.
  /// Leaves out: headers, and the multiprocessors that the exchange takes from products.
  [[nodiscard]] Seconds exchange(Bytes, const GroupShape&, const TokenChoices&, std::optional<CollectiveAlgorithm>,
                                 Derivation* why = nullptr) const;
  /// Largest share of a level's bandwidth that collectives reach.
  [[nodiscard]] double reach(std::size_t level) const { return nccl_ ? 1.0 : reach_[level]; }
  /// One message over level `level`.
  [[nodiscard]] Seconds message(Bytes, std::size_t level, Derivation* why = nullptr) const;
  [[nodiscard]] std::span<const LinkCost> links() const { return links_; }

 private:
  /// Puts the choice behind the library's launch; `why` has noted `time`.
  [[nodiscard]] Choice made(CollectiveAlgorithm, Seconds time, Derivation* why) const;

  std::vector<LinkCost> links_;
  std::vector<double> reach_;             ///< of each level
  std::shared_ptr<const NcclCost> nccl_;  ///< where it prices
  std::vector<CollectiveAlgorithm> algorithms_;
  Seconds launch_;
  double node_copies_ = 1.0;  ///< SoftwareCost::node_copies
  std::optional<MessageRate> messages_;
  Seconds message_latency_;
  bool serial_ = false;
};

}  // namespace orrery
