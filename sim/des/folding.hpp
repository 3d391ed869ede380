#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/program/program.hpp"
#include "sim/cost/prices.hpp"
#include "sim/des/fabric_traffic.hpp"
#include "sim/des/rank_classes.hpp"

namespace orrery {

/// One of the jobs that are folded together.
struct FoldingJob {
  const Program* program = nullptr;
  const Prices* prices = nullptr;
  const FabricTraffic* traffic = nullptr;  ///< null, for all jobs or for none: each communication has its links to
                                           ///< itself
  /// Numbers that tell ranks of one Program class apart from the beginning, one for each rank; empty: nothing does.
  std::vector<std::uint64_t> labels = {};
};

/// A step folded over ranks that behave alike: one rank of each class is simulated, and its messages stand for those of
/// its whole class.
///
/// Ranks are parted by their Program class, by what perturbs them and, where links are shared, by the links that their
/// communications cross, until the partition is stable (rank_classes.hpp). Then one link of each class and one flow of
/// each class have the same rates as all of them, if a flow's weight on a link is
///
///     W = F / L sum over links l of the class of w(l)
///
///     F  flows of the flow's class     L  links of the link's class     w(l)  weight of one flow on link l
///
/// This is the sum of the weights of all flows of the class that cross one such link. No symmetry of the fabric is
/// assumed: where routes part ranks, these are simulated apart, in the extreme each by itself.
class Folding {
 public:
  /// Ranks of different jobs are never alike.  All that jobs point to outlives this.
  explicit Folding(std::vector<FoldingJob>);

  [[nodiscard]] const RankClasses& ranks(std::uint32_t job = 0) const { return jobs_[job].ranks; }
  [[nodiscard]] std::uint32_t link_classes() const { return static_cast<std::uint32_t>(link_count_.size()); }
  [[nodiscard]] std::uint32_t flow_classes() const { return static_cast<std::uint32_t>(flow_count_.size()); }
  [[nodiscard]] std::uint32_t rounds() const { return rounds_; }

  /// A link of the class.
  [[nodiscard]] LinkId link(std::uint32_t link_class) const { return first_link_[link_class]; }
  /// Every link that a step may use, ascending, and its class.
  [[nodiscard]] const std::vector<LinkId>& links() const { return links_; }
  [[nodiscard]] const std::vector<std::uint32_t>& class_of_link() const { return class_of_link_; }

  /// The shares of one flow, as weights W on link classes (LinkId: a class). The flow is a collective in the instance
  /// of the group that `rank` is in, or a message. Requires that the step has such flows.
  [[nodiscard]] LinkShares fold(LinkShares, GroupId, Rank, std::uint32_t job = 0) const;
  [[nodiscard]] LinkShares fold(LinkShares, Rank from, Rank to, std::uint32_t job = 0) const;

 private:
  struct Job {
    FoldingJob of;
    std::uint32_t first_rank = 0;  ///< its rank 0 in the graph
    RankClasses ranks;
    std::vector<std::uint32_t> flow_of_group;  ///< [group][rank]: the flow of its instance
    std::vector<std::uint64_t> message_pairs;  ///< ascending: sender in the high half
    std::uint32_t first_message = 0;           ///< flow of the first of them
  };
  void add_groups(MeetingGraph&, Job&);
  void add_messages(MeetingGraph&, Job&);
  void cross(MeetingGraph&, std::uint32_t flow, const LinkShares&, std::uint64_t pattern);
  [[nodiscard]] static std::uint32_t message_flow(const Job&, Rank from, Rank to);
  [[nodiscard]] LinkShares fold(LinkShares, std::uint32_t flow) const;

  std::vector<Job> jobs_;
  std::uint32_t rounds_ = 0;
  std::vector<std::uint32_t> class_of_flow_;  ///< [flow]
  std::vector<std::uint32_t> flow_count_;     ///< [flow class]
  std::vector<std::uint32_t> place_of_link_;  ///< [LinkId] in links_
  std::vector<LinkId> links_;
  std::vector<std::uint32_t> class_of_link_;  ///< of links_
  std::vector<std::uint32_t> link_count_;     ///< [link class]
  std::vector<LinkId> first_link_;            ///< [link class]
};

}  // namespace orrery
