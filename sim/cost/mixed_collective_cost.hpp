#pragma once

#include <optional>
#include <vector>

#include "core/record/calibration.hpp"
#include "core/spec/node_kinds.hpp"
#include "sim/cost/collective_cost.hpp"
#include "sim/cost/group_shape.hpp"

namespace orrery {

/// Prices collectives and messages on a cluster whose nodes may be of several kinds (core/spec/node_kinds.hpp).
///
/// All members go at the pace of the slowest, so among nodes of the kinds S
///
///     T_S = max over k in S of T(constants of k, links b_l = min over j in S of b_l(j))
///
///     T       CollectiveCost on equal nodes     b_l(j)  bandwidth per device of a node of kind j at level l
///
/// The reason is that a ring moves at the rate of its narrowest link, and phases of a hierarchical algorithm end
/// together. Where no kinds are named (GroupShape::kinds is 0), the price is the least of all kinds over the widest
/// links: no group takes less.
class MixedCollectiveCost {
 public:
  using Choice = CollectiveCost::Choice;
  MixedCollectiveCost(const ClusterSpec&, const Calibration&, bool more_ranks_than_cores);

  /// As CollectiveCost::choose; `why` gets the kind that decides.
  [[nodiscard]] Choice choose(Collective::Kind, Bytes payload, const GroupShape&,
                              std::optional<CollectiveAlgorithm> algorithm = std::nullopt,
                              Derivation* why = nullptr) const;
  /// CollectiveCost::exchange. Requires nodes of one kind.
  [[nodiscard]] Seconds exchange(Bytes payload, const GroupShape& shape, const TokenChoices& t,
                                 std::optional<CollectiveAlgorithm> algorithm, Derivation* why = nullptr) const {
    return of_.front().front().exchange(payload, shape, t, algorithm, why);
  }
  /// One message over a level between nodes of these kinds.
  [[nodiscard]] Seconds message(Bytes, std::size_t level, NodeKinds, Derivation* why = nullptr) const;
  /// The largest reach of all kinds.
  [[nodiscard]] double reach(std::size_t level) const;

 private:
  std::vector<std::vector<CollectiveCost>> of_;  ///< [kinds]: one entry for each of the kinds in the set; for no kinds,
                                                 ///< an entry for each of all kinds
};

/// The constants of a kind of nodes: the calibration's own, or those of its `others`.
[[nodiscard]] const Calibration& calibration_of(const Calibration&, std::uint32_t kind);

}  // namespace orrery
