#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "exec/comm/world.hpp"

namespace orrery {

/// Ranks as threads of one process, each with its own buffers; a rank may have
/// several ends, one for each thread that works for it.
///
/// A message is copied once, from the sender's memory to the receiver's, by
/// whichever of the two comes second.  A rank that fails, leaves or stalls ends
/// the run for all: the first to notice states why, and every waiting rank
/// wakes with Aborted.
class ThreadWorld final : public World {
 public:
  struct Options {
    /// Longest wait for a partner while no message of any rank ends; a receive may be posted long before its turn.
    Seconds watchdog = Seconds::of(60);
    /// Says what a rank is doing and has done, for messages; called on failure only.
    std::function<std::string(Rank)> describe;
    std::uint32_t ends = 1;  ///< threads of each rank that communicate
  };
  ThreadWorld(std::uint32_t ranks, Options options);
  ~ThreadWorld() override;

  [[nodiscard]] Communicator& communicator(Rank, std::uint32_t end = 0) override;
  void abort(const std::string& reason) override;
  /// The rank no longer sends or receives. A rank that waits for it ends the run.
  void leave(Rank);

  [[nodiscard]] bool crowded() const override { return crowded_; }
  [[nodiscard]] bool aborted() const override { return aborted_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string reason() const override;

 private:
  class Endpoint;
  friend class Endpoint;
  struct Inbox;

  Options options_;
  bool crowded_;
  bool thronged_;                                     ///< more than eight threads for every core
  std::vector<std::unique_ptr<Inbox>> inboxes_;       // by rank
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  // by rank, then end
  std::atomic<bool> aborted_{false};
  std::atomic<std::int64_t> last_met_{0};  // when a wait ended last, in ticks of the steady clock
  mutable std::mutex reason_mutex_;
  std::string reason_;
};

}  // namespace orrery
