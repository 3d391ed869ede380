#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/program/program.hpp"
#include "sim/bound/block_costs.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/group_shape.hpp"

namespace orrery {

/// What a collective over one axis costs where that axis lies best in the network: at most its price on any mesh of
/// all devices.
class BestPlace {
 public:
  /// Of any mesh of the cluster.
  explicit BestPlace(const CostModel&);

  /// `factor`: CostModel::collective_factor of the axis.
  [[nodiscard]] Picoseconds price(Collective::Kind, Bytes payload, std::uint32_t members, double factor = 1.0);
  /// Of a block's collective; over several axes or listed members: free.
  [[nodiscard]] Picoseconds price(const BlockCollective&);

 private:
  const std::vector<std::vector<GroupShape>>& places_of(std::uint32_t size);

  CostModel costs_;
  std::map<std::uint32_t, std::vector<std::vector<GroupShape>>> places_;  ///< of an axis of that size
};

}  // namespace orrery
