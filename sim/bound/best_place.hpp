#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/program/program.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/cost/collective_cost.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/group_shape.hpp"

namespace orrery {

/// What a collective over one axis costs where that axis lies best in the network: at most its price on any mesh of
/// all devices.
class BestPlace {
 public:
  BestPlace(const ClusterSpec&, const CollectiveCost&);

  [[nodiscard]] Picoseconds price(Collective::Kind, Bytes payload, std::uint32_t members);
  /// Of a Collective op; over several axes or listed members: free.
  [[nodiscard]] Picoseconds price(const Program&, const Block&, const Op&);

 private:
  const std::vector<std::vector<GroupShape>>& places_of(std::uint32_t size);

  ClusterSpec cluster_;
  CollectiveCost cost_;
  std::map<std::uint32_t, std::vector<std::vector<GroupShape>>> places_;  ///< of an axis of that size
};

}  // namespace orrery
