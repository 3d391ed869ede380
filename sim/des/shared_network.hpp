#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "core/program/program.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/des/network.hpp"
#include "sim/net/fabric.hpp"
#include "sim/net/flow_network.hpp"

namespace orrery {

/// A fabric and how messages find their way through it.
struct FabricRoutes {
  const Fabric* fabric = nullptr;
  PathRule rule = PathRule::by_destination;
  std::uint64_t seed = 0;  ///< of hashed routes
};

/// What one link carried in a step.
struct LinkLoad {
  LinkId link{};
  Bytes carried;
  Bandwidth bandwidth;  ///< that the library reaches: the link's, times the efficiency of its network level
};

/// Communications of a step over the links of a fabric, which they share.
///
/// A communication is one flow of many strands that keep pace: over each link it
/// carries what its algorithm sends there (collective_traffic.hpp), in
/// proportion to the link that carries most.  First it waits for its latency,
/// the price of the same communication without bytes; then it moves at the rate
/// that would end it after its price, or slower where max-min fairness on a link
/// (flow_network.hpp) leaves it less.  So a communication that meets no other
/// on links as wide as the cluster file says takes its price, to the
/// picosecond, and none takes less.
///
///     T = L + P / r      r = min(P / (price - L), fair rates of its links)   while nothing begins or ends
///
///     L  latency     P  bytes on its busiest link     r  rate there
///
/// Leaves out: order within a collective (its steps share links as if they were
/// spread over its whole time), and what FlowNetwork leaves out.
class SharedNetwork final : public Network {
 public:
  /// Rank r runs on GPU placement[r] of the fabric; empty: GPU r.
  /// All references outlive it.
  SharedNetwork(const FabricRoutes&, const Program&, const CostModel&, std::span<const std::uint32_t> placement);

  /// Number of the traffic of a Collective op in the group with these members, in the order of the group.
  [[nodiscard]] std::uint32_t collective(const std::vector<Rank>& members, BlockId, std::uint32_t op);
  /// Number of the traffic of one message.
  [[nodiscard]] std::uint32_t message(Rank from, Rank to, Bytes);

  void start(Picoseconds now, const Communication&) override;
  [[nodiscard]] bool idle() const override { return flows_.idle(); }
  [[nodiscard]] Picoseconds next_event() override { return flows_.next_event(); }
  void advance(std::vector<std::uint32_t>& ended) override { flows_.advance(ended); }

  /// Of every link that carried anything, by number.
  [[nodiscard]] std::vector<LinkLoad> loads() const;

 private:
  struct Traffic {
    std::vector<LinkId> links;
    std::vector<double> weights;
    Bytes payload;  ///< on the link that carries most
    Picoseconds latency = 0;
  };
  struct Pair {
    std::uint32_t from, to;  ///< GPUs
    Bytes payload;
  };
  [[nodiscard]] std::uint32_t gpu_of(Rank) const;
  [[nodiscard]] Bandwidth capacity(LinkId) const;
  [[nodiscard]] std::uint32_t add(const std::vector<Pair>&, Seconds latency);

  FabricRoutes routes_;
  const Program& program_;
  const CostModel& costs_;
  std::span<const std::uint32_t> placement_;
  FlowNetwork flows_;
  std::vector<Traffic> traffic_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> collectives_;  ///< by first rank, op
  std::map<std::tuple<std::uint32_t, std::uint32_t, double>, std::uint32_t> messages_;
};

}  // namespace orrery
