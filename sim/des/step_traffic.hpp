#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/des/fabric_traffic.hpp"
#include "sim/des/shared_network.hpp"

namespace orrery {

/// What ranks that lie to each other along some axes of the mesh send each other in one step.
struct AxisTraffic {
  std::string name;                 ///< "tensor", "data + expert", "pipeline, messages"
  std::vector<GpuTraffic> between;  ///< bytes; a pair may stand several times
};

/// Who sends how much to whom in a step, whatever the times: a sum over the Program.
///
/// What a Program's ranks do does not depend on where they are, so it is read once; where they are then says which
/// algorithm each collective takes and over which GPUs it goes.
class StepTraffic {
 public:
  /// The Program outlives it.
  explicit StepTraffic(const Program&);

  /// Where the traffic's placement has the ranks.  Collectives first, then messages, each in the order of the groups.
  [[nodiscard]] std::vector<AxisTraffic> between(const FabricTraffic&) const;

 private:
  struct Moved {  ///< collectives of one class that move alike
    const Block* block;
    const Op* op;
    std::uint64_t runs;
  };
  struct Sent {
    Peer peer;
    std::uint64_t bytes;
  };
  const Program& program_;
  std::vector<std::vector<std::vector<Moved>>> collectives_;  ///< [group][class]
  std::vector<std::vector<std::vector<Sent>>> messages_;      ///< [group][class]
};

/// What that sends over each link that it uses, by number: as a simulated step reports it.
[[nodiscard]] std::vector<LinkLoad> link_loads(const std::vector<AxisTraffic>&, const FabricTraffic&);

/// The longest time that a link needs for what it carries: no step is shorter.
struct BusiestLink {
  LinkId link{};
  Seconds busy;
};
[[nodiscard]] BusiestLink busiest_link(const std::vector<LinkLoad>&);

}  // namespace orrery
