#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/units.hpp"
#include "exec/comm/world.hpp"

namespace orrery {

/// A socket, closed with the object.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int number) : number_(number) {}
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Socket();
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_ = -1;
};

/// Raises the limit to as many sockets as the system lets this process have; many ranks need more than it begins with.
void raise_socket_limit();

/// A connected stream socket between every two ranks, by rank and then by peer (a rank has none with itself). They are
/// made before the ranks' processes are: each keeps its own row and drops the rest.
///
/// Throws Error where the system gives no more sockets.
[[nodiscard]] std::vector<std::vector<Socket>> connected_sockets(std::uint32_t ranks);

/// How a process's waits are watched.
struct WaitOptions {
  /// Longest wait for a partner while no op of any rank ends.
  Seconds watchdog = Seconds::of(60);
  std::uint32_t ends = 1;  ///< threads of the rank that communicate
  bool crowded = true;     ///< more threads communicate on this host than it has cores
  /// The time at which an op of any known rank ended last, in nanoseconds of this host's steady clock; may be empty.
  std::function<std::int64_t()> last_end;
  /// Called when a wait goes on, and (with nothing) when it has ended; may be empty.
  std::function<void(std::optional<Rank>)> waiting;
};

/// One rank's view of ranks that are processes, over sockets: on this machine, or over TCP on several.
///
/// A message travels as soon as it is sent. It goes into the receiver's views where the receive has been posted,
/// otherwise beside them, and is acknowledged when it meets its receive. A sender waits for that, so at most one
/// exchange of each of the partner's threads lies beside the views.
class SocketWorld final : public ProcessWorld {
 public:
  /// `peers` has a socket by rank; that of this rank is empty.
  SocketWorld(Rank, std::vector<Socket> peers, WaitOptions);
  /// Sends what is left to send, unless the run was aborted.
  ~SocketWorld() override;

  [[nodiscard]] Communicator& communicator(Rank, std::uint32_t end = 0) override;
  [[nodiscard]] Communicator& control() override;
  void abort(const std::string& reason) override;
  [[nodiscard]] bool aborted() const override { return aborted_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string reason() const override;
  void look() override;
  [[nodiscard]] bool crowded() const override { return options_.crowded; }
  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const override { return static_cast<std::uint32_t>(peers_.size()); }
  [[nodiscard]] std::int64_t clock_offset() const override { return clock_offset_; }
  /// Finds the clock offset of ranks on several hosts, before the first message of a list; all must call it. `hosts`
  /// has the host of each rank.
  void find_clock_offset(const std::vector<std::uint64_t>& hosts);

 private:
  class Endpoint;
  struct Posted;
  struct Peer;

  void post(Posted&);
  void acknowledge(Peer&, const Posted&);
  static void finish(Posted&);
  void move_data(int timeout_ms, std::unique_lock<std::mutex>&);
  void write_to(Peer&);
  void read_from(Peer&);
  void begin_frame(Peer&);
  void make_room(Peer&);
  void give_up_on(Peer&, const std::string& what);
  void end_frame(Peer&);

  Rank rank_;
  WaitOptions options_;
  mutable std::mutex mutex_;  ///< guards all that follows, and what is posted
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  ///< by end; the last is for control
  std::atomic<bool> aborted_{false};
  std::string reason_;
  std::int64_t clock_offset_ = 0;
};

}  // namespace orrery
