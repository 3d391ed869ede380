#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/units.hpp"
#include "core/plan/plan.hpp"
#include "core/program/op.hpp"

namespace orrery {

/// What one member of a collective sends another, over the whole collective.
struct PairTraffic {
  std::uint32_t from = 0, to = 0;  ///< members, 0 to p - 1
  Bytes payload;
  friend bool operator==(const PairTraffic&, const PairTraffic&) = default;
};

/// Who sends how much to whom in a collective, each pair once, without times.
///
/// Members are numbered box by box: `boxes` holds the number of members in each box (a node with a network port for
/// every member). Between boxes all ports work side by side, as the closed formulas for times assume
/// (sim/cost/collective_cost.hpp): member k of one box talks to member k of the next, and each carries its part.
///
///     ring       N = 2 (p - 1) / p n for all-reduce, (p - 1) / p n for reduce-scatter and all-gather, n for broadcast
///                and reduce, which do not close the ring.  Between neighbouring boxes N / m by each of m ports, inside
///                a box of s members (s - 1) / s N from each member to the next; N, where there is but one box
///     tree       two binary trees over the boxes, n / 2 each way each, N / m by each port; inside a box as the ring
///     recursive  halving and doubling, or Bruck's rounds, inside the boxes, then between them with n / s
///     in switches  of an all-reduce inside a box n (1 + 1 / s) from each member to the next, whatever goes on between
///     boxes:
///                NVLink's switches read every member's vector and give the sum's parts to one, then each part to all
///                (NVLS)
///     in_network of an all-reduce, `in_switches` or not inside a box: between boxes each port has its N / m, N = n, go
///     out once and come in once, as around a ring, which is what the links next to it carry under a tree of switches
///     all-to-all n / p for every pair; recursive: Bruck's rounds over all members
///
///     p  members     n  payload: the whole vector, of an all-to-all one member's send buffer
///     m  fewest members in a box     s  members of a box
///
/// A barrier moves nothing; permutes are pairs already.  Requires boxes of one size for `recursive`.
/// Sources: Patarasuk and Yuan, JPDC 69(2), 2009 (ring); Sanders, Speck and Traeff, Parallel Computing 35(12), 2009
/// (trees); Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005, and Bruck et al., IEEE TPDS 8(11), 1997 (rounds).
[[nodiscard]] std::vector<PairTraffic> collective_traffic(Collective::Kind, CollectiveAlgorithm,
                                                          std::span<const std::uint32_t> boxes, Bytes payload,
                                                          bool in_switches = false);

/// Parent of each member in two binary trees. About half the members are leaves in each; no member is an inner one in
/// both unless p is odd, and then one is. A root is its own parent.
///
/// Source: Sanders, Speck and Traeff, Parallel Computing 35(12), 2009: the second tree is the first, mirrored (p even)
/// or shifted by one (p odd).
struct TwoTrees {
  std::vector<std::uint32_t> first, second;
};
[[nodiscard]] TwoTrees two_trees(std::uint32_t p);

}  // namespace orrery
