#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/program/tail_history.hpp"
#include "exec/device/arena_pool.hpp"
#include "exec/device/device.hpp"
#include "exec/device/device_transport.hpp"
#include "exec/device/routing_there.hpp"
#include "exec/run/rank_runner.hpp"

namespace orrery {

/// What all ranks of a run on a device notice, for its report.
class DeviceNotes {
 public:
  /// Notes a kernel that the device lacks, so that the host computed it.
  void on_host(KernelKind);
  [[nodiscard]] std::vector<std::string> host_kernels() const;
  struct OddRows {
    std::uint64_t elements = 0, element_bytes = 0;
    auto operator<=>(const OddRows&) const = default;
  };
  /// A product of factors in 16 bits that has such rows, which do not all begin at multiples of 16 bytes.
  void on_odd_rows(OddRows);
  [[nodiscard]] std::vector<OddRows> odd_rows() const;
  /// Notes a step that the device got as a graph.
  void on_graph(bool built_anew);
  struct Graphs {
    std::uint64_t steps = 0, built = 0;
  };
  [[nodiscard]] Graphs graphs() const;
  /// Notes what a rank took of the device's memory for itself, and what was taken in all since the device was opened.
  void on_memory(Rank, std::uint64_t own, std::uint64_t taken);
  /// What nobody here took: NCCL's buffers, those of other libraries, other processes' memory.
  [[nodiscard]] std::uint64_t beside_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::set<KernelKind> on_host_;
  std::set<OddRows> odd_rows_;
  Graphs graphs_;
  std::map<Rank, std::uint64_t> own_bytes_;
  std::uint64_t taken_bytes_ = 0;
};

/// Makes the transport by which a rank's streams meet others; the communicator is the rank's only end of the world.
using DeviceTransportMaker = std::function<std::unique_ptr<DeviceTransport>(World&, Communicator&, Rank)>;

/// Walks the lists of one rank on a device. Lanes are streams, and the things that an op waits for are events.
///
/// The rank's thread issues all ops in list order and then waits for the device, so it is ahead by as much as the
/// device allows. Memory comes from the rank's own pools (ArenaPool). With `graphs`, the device gets all steps but the
/// first as one graph each; then no other rank may be met on the way. Kernels that the device lacks, and ops on the
/// host's lane, run on the host in the stream's order, on copies where their operands are the device's.
class DeviceRunner final : public RankWalker {
 public:
  /// The rank needs one end of the world.
  DeviceRunner(Device&, DeviceNotes&, const DeviceTransportMaker&, const Program&, const Workload&, const DataSource&,
               World&, Rank, const RankOptions&, Seconds watchdog, bool graphs = false);
  ~DeviceRunner() override;

  void start() override;
  void walk(std::uint64_t step, std::uint64_t data_step) override;
  [[nodiscard]] const std::vector<OpTimes>& times() const override { return times_; }
  void barrier() override { wait_for_all(communicator_, program_.mesh); }
  [[nodiscard]] const RankProgress& progress() const override { return progress_; }
  [[nodiscard]] std::uint64_t sent_bytes() const override { return sent_bytes_; }
  [[nodiscard]] RoutingCounts routing() const override;
  [[nodiscard]] RankMemory memory() const override;
  [[nodiscard]] std::span<std::byte> find(const Instance&) override;
  void release_found() override;

 private:
  /// One stream and the memory that its ops on the host use.
  struct Queue {
    Lane lane;
    std::unique_ptr<DeviceStream> stream;
    std::vector<OpId> issued;           ///< of this list, in order
    std::size_t done = 0;               ///< so many of them are known to have ended
    std::vector<std::uint64_t> waited;  ///< by lane: how many of its ops have been waited for
    KernelScratch scratch;
    RoutingCounts routing;               ///< by the host's kernel
    mutable RoutingThere routing_there;  ///< by the device's
    std::byte* staging = nullptr;        ///< copies for the host's kernels
    std::uint64_t staging_bytes = 0;
  };
  /// An op ends before another begins: the first `count` of a lane.
  struct After {
    std::uint32_t lane = 0;
    std::uint64_t count = 0;
  };

  void issue_all(std::uint64_t step, std::uint64_t data_step);
  void begin_graph();
  void launch_graph();
  /// True while issued work has not been given to the device, or none of it has been seen to end.
  [[nodiscard]] bool in_graph() const;
  void issue(const OpRun&, std::uint64_t data_step, TailHistory<After>&, std::vector<After>& in_block);
  void wait_on(Queue&, const After&);
  void compute(Queue&, const Compute&);
  void compute_on_host(Queue&, const Kernel&, const KernelContext&);
  void collective(Queue&, const Collective&, DeviceEvent& start);
  void exchange(Queue&, const Exchange&, DeviceEvent& start);
  void copy(Queue&);
  [[nodiscard]] Tier tier_of(std::uint32_t view) const;
  [[nodiscard]] std::byte* staging(Queue&, std::uint64_t bytes);
  /// Waits until the device has done all of the list.
  void drain();
  /// Counts ops that have ended since, and tells the recorder.
  void report_done(Queue&);
  /// The device has been in an op for too long.
  [[noreturn]] void give_up_on(const Queue&, OpId);
  [[nodiscard]] std::optional<Rank> partner_in(OpId) const;
  [[nodiscard]] static std::optional<Rank> next_member(const GroupHere&);
  [[nodiscard]] std::optional<Rank> first_peer(const Block&, const Exchange&) const;
  void say_in(OpId);
  void say_waits_for(std::optional<Rank>);
  /// Times of an op that has ended.
  [[nodiscard]] OpTimes times_of(OpId);

  Device& device_;
  DeviceNotes& notes_;
  const Program& program_;
  const Workload& workload_;
  const DataSource& data_;
  World& world_;
  Communicator& communicator_;
  Rank rank_;
  RankOptions options_;
  Seconds watchdog_;
  bool graphs_;
  enum class Graph : std::uint8_t { none, gathers, launched } now_ = Graph::none;  ///< of this list
  std::unique_ptr<DeviceGraph> graph_;
  std::unique_ptr<DeviceEvent> graph_end_;
  Seconds list_time_{};  ///< that the last list took
  std::vector<GroupHere> groups_;
  std::array<ArenaPool*, tier_count> pools_{};
  Storage storage_;
  Issuer issuer_;
  std::unique_ptr<DeviceTransport> transport_;
  std::vector<Queue> queues_;
  std::array<std::uint32_t, lane_count> queue_of_{};  ///< by lane_number
  RankProgress progress_;
  std::unique_ptr<DeviceEvent> base_;
  std::int64_t base_time_ = 0;  ///< time of that event, nanoseconds of the clock that ranks share
  std::vector<std::unique_ptr<DeviceEvent>> starts_, ends_;  ///< by OpId
  std::vector<OpTimes> times_;
  IssuedOp op_;
  std::vector<Operand> operands_;
  std::vector<std::byte*> old_staging_;  ///< still in use by the list
  std::uint64_t sent_bytes_ = 0;
  std::mutex failure_mutex_;
  std::string failure_;  ///< of a kernel on the host
  struct Found {
    std::byte* at = nullptr;
    std::vector<std::byte> now, before;
  };
  std::map<Instance, Found> found_;
};

}  // namespace orrery
