#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/program/program.hpp"
#include "sim/des/fabric_traffic.hpp"
#include "sim/des/folding.hpp"
#include "sim/des/network.hpp"
#include "sim/net/flow_network.hpp"

namespace orrery {

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
  /// With a folding, a flow stands for all of its class, and a link too.  All references outlive it.
  explicit SharedNetwork(const FabricTraffic&, const Folding* = nullptr);

  /// Number of the traffic of a Collective op in the instance of its group that `rank` is in; `meeting` numbers those
  /// instances.
  [[nodiscard]] std::uint32_t collective(std::uint32_t meeting, Rank rank, BlockId, std::uint32_t op);
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
    std::uint32_t shares = 0;
    Bytes payload;  ///< on the link that carries most
    Picoseconds latency = 0;
  };
  [[nodiscard]] std::uint32_t add(LinkShares);

  const FabricTraffic& fabric_;
  const Folding* folding_;
  FlowNetwork flows_;
  std::vector<LinkShares> shares_;
  std::vector<Traffic> traffic_;
  std::map<std::pair<std::uint32_t, CollectivePattern>, std::uint32_t> patterns_;  ///< shares, by meeting
  std::map<std::pair<Rank, Rank>, std::uint32_t> pairs_;                           ///< shares
  std::map<std::tuple<std::uint32_t, BlockId, std::uint32_t>, std::uint32_t> collectives_;
  std::map<std::tuple<Rank, Rank, double>, std::uint32_t> messages_;
};

}  // namespace orrery
