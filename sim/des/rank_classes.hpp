#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.hpp"
#include "core/program/program.hpp"

namespace orrery {

/// A partition of the ranks into classes that are simulated by one rank each.
struct RankClasses {
  std::vector<std::uint32_t> of_rank;  ///< [rank]
  std::vector<Rank> representative;    ///< [class]: its smallest rank
  std::vector<std::uint32_t> ranks;    ///< [class]: how many

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(representative.size()); }
};

/// The classes of the Program, by its numbers: ranks with equal op lists. They are enough where nothing else tells
/// ranks apart.
[[nodiscard]] RankClasses program_classes(const Program&);
/// Each rank by itself.
[[nodiscard]] RankClasses single_ranks(const Program&);
/// The partition in which each rank is in the given class; classes are numbered anew, by their smallest ranks.
[[nodiscard]] RankClasses rank_classes(const std::vector<std::uint32_t>& of_rank);

/// Which ranks meet in a step, and over which links: a graph of ranks, flows and links.
///
/// A flow stands for everything that the same ranks exchange: all collectives of one instance of a group, or all
/// messages from one rank to another. Labels tell things apart from the beginning, and tell the ways in which two
/// things are joined.
struct MeetingGraph {
  struct Edge {
    std::uint32_t from, to;  ///< rank and flow, or flow and link
    std::uint64_t label;
  };
  std::vector<std::uint64_t> ranks;  ///< labels
  std::vector<std::uint64_t> flows;
  std::vector<std::uint64_t> links;
  std::vector<Edge> taking_part;  ///< ranks in flows
  std::vector<Edge> crossing;     ///< flows over links
};

/// Classes of the graph's ranks, flows and links.
struct GraphClasses {
  std::vector<std::uint32_t> rank, flow, link;  ///< classes, numbered by their first element
  std::uint32_t ranks = 0, flows = 0, links = 0;
  std::uint32_t rounds = 0;  ///< until nothing was parted any more
};

/// The coarsest stable partition: things of one class have equal labels, and are joined to equally many things of every
/// class, label by label.
///
/// So flows of one class load links of one class by equal amounts, and links of one class carry equally many flows of
/// every class. As long as all of a class do the same, fairness gives all of them the same, and then they go on doing
/// the same. The partition comes from repeated counting (colour refinement): in every round each thing's class becomes
/// its class and those around it, until the number of classes stays. Counts are compared by two sums of 64 bits. Two
/// unlike things agree in both by chance with a probability below 1e-20 for 10^8 of them.
///
/// Source: Weisfeiler and Leman, 1968; Berkholz, Bonsma and Grohe, "Tight lower and upper bounds for the complexity of
/// canonical colour refinement", Theory of Computing Systems 60, 2017 (stable partitions; theirs is faster).
[[nodiscard]] GraphClasses stable_classes(const MeetingGraph&);

}  // namespace orrery
