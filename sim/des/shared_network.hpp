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
  Bandwidth bandwidth;  ///< bandwidth that the library reaches: the link's, times the efficiency of its network level
};

/// The links of a fabric, or one link of each class of a folding, for the flows of a step. Both references outlive it.
[[nodiscard]] FlowNetwork link_flows(const FabricTraffic&, const Folding* = nullptr);

/// Communications of a step over the links of a fabric, which they share.
///
/// A communication is one flow of many strands that keep pace: over each link it carries what its algorithm sends there
/// (collective_traffic.hpp), in proportion to the link that carries most. First it waits for its latency, which is the
/// price of the same communication without bytes. Then it moves at the rate that would end it after its price, or
/// slower where max-min fairness on a link (flow_network.hpp) leaves it less. So a communication that meets no other,
/// on links as wide as the cluster file says, takes its price to the picosecond, and none takes less.
///
///     T = L + P / r      r = min(P / (price - L), fair rates of its links)   while nothing begins or ends
///
///     L  latency     P  bytes on its busiest link     r  rate there
///
/// Leaves out: order within a collective (its steps share links as if they were spread over its whole time), and
/// everything that FlowNetwork leaves out.
class SharedNetwork final : public Network {
 public:
  /// Network for the communications of job number `job` in `flows`, which are link_flows() of the same fabric and
  /// folding. With a folding, a flow stands for all flows of its class, and so does a link. All references outlive it.
  SharedNetwork(FlowNetwork& flows, const FabricTraffic&, const Folding* = nullptr, std::uint32_t job = 0);

  /// Number of the traffic of a Collective op in the instance of its group that `rank` is in; `meeting` numbers those
  /// instances.
  [[nodiscard]] std::uint32_t collective(std::uint32_t meeting, Rank rank, BlockId, std::uint32_t op);
  /// Number of the traffic of one message.
  [[nodiscard]] std::uint32_t message(Rank from, Rank to, Bytes);

  void start(Picoseconds now, const Communication&) override;
  [[nodiscard]] bool idle() const override { return flows_.idle(); }
  [[nodiscard]] Picoseconds next_event() override { return flows_.next_event(); }
  /// For one job that is alone on the links; with several jobs, the code that moves them tells their communications
  /// apart.
  void advance(std::vector<std::uint32_t>& ended) override { flows_.advance(ended); }

  /// The numbers by which FlowNetwork knows communication `number` of job `job`, and the way back.
  static constexpr std::uint32_t most_numbers = 1U << 24U;
  static std::uint32_t flow_number(std::uint32_t job, std::uint32_t number) { return job << 24U | number; }
  static std::uint32_t job_of(std::uint32_t flow) { return flow >> 24U; }
  static std::uint32_t number_of(std::uint32_t flow) { return flow & (most_numbers - 1); }

  /// Loads of every link that carried anything for any job, by number.
  [[nodiscard]] std::vector<LinkLoad> loads() const;
  /// Counts a communication of this job that has ended; for carried().
  void count_end(std::uint32_t number) { ++ends_[traffic_of_[number]]; }
  /// Bytes that the counted communications carried over each link, or over a link of each class where links are folded.
  /// Each step adds the same amount.
  [[nodiscard]] std::vector<Bytes> carried() const;

 private:
  struct Traffic {
    std::uint32_t shares = 0;
    Bytes payload;  ///< on the link that carries most
    Picoseconds latency = 0;
  };
  [[nodiscard]] std::uint32_t add(LinkShares);

  const FabricTraffic& fabric_;
  const Folding* folding_;
  FlowNetwork& flows_;
  std::uint32_t job_;
  std::vector<LinkShares> shares_;
  std::vector<Traffic> traffic_;
  std::vector<std::uint32_t> traffic_of_;                                          ///< [number] under way
  std::vector<std::uint64_t> ends_;                                                ///< [traffic]
  std::map<std::pair<std::uint32_t, CollectivePattern>, std::uint32_t> patterns_;  ///< shares, by meeting
  std::map<std::pair<Rank, Rank>, std::uint32_t> pairs_;                           ///< shares
  std::map<std::tuple<std::uint32_t, BlockId, std::uint32_t>, std::uint32_t> collectives_;
  std::map<std::tuple<Rank, Rank, double>, std::uint32_t> messages_;
};

}  // namespace orrery
