#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/des/fabric_traffic.hpp"
#include "sim/des/shared_network.hpp"

namespace orrery {

/// Bytes that certain ranks send each other in one step: those that lie to each other along some axes of the mesh.
struct AxisTraffic {
  std::string name;                 ///< "tensor", "data + expert", "pipeline, messages"
  std::vector<GpuTraffic> between;  ///< bytes; a pair may stand several times
};

/// Who sends how much to whom in a step, whatever the times; a sum over the Program.
///
/// The ops of a Program's ranks do not depend on where the ranks are, so the Program is read once. Their places then
/// decide which algorithm each collective takes and over which GPUs it goes.
class StepTraffic {
 public:
  /// The Program must outlive it.
  explicit StepTraffic(const Program&);

  /// The traffic with ranks where the placement puts them. Collectives first, then messages, each in the order of the
  /// groups.
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

/// The load that the traffic puts on each link that it uses, by number: as a simulated step reports it.
[[nodiscard]] std::vector<LinkLoad> link_loads(const std::vector<AxisTraffic>&, const FabricTraffic&);

/// The link that needs the longest time for its bytes: no step is shorter.
struct BusiestLink {
  LinkId link{};
  Seconds busy;
};
[[nodiscard]] BusiestLink busiest_link(const std::vector<LinkLoad>&);

}  // namespace orrery
