#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/run/issue.hpp"

namespace orrery {

/// The lanes of one rank, each with a thread that carries out its ops in the
/// order of issue; an op starts when those that it waits for have ended.
///
/// Ops that are not ordered by a lane or a wait touch no common element (verify
/// proves it of a Program), so lanes share memory without locks.
class Lanes {
 public:
  /// An op waits until this many ops of the lane have ended.
  struct After {
    std::uint32_t lane = 0;
    std::uint64_t count = 0;
  };
  struct Hooks {
    std::function<void(std::uint32_t lane, const IssuedOp&)> carry_out;
    std::function<bool()> aborted;  ///< asked while waiting: whether the run has ended
    bool spin = false;              ///< waits begin without the kernel's help, because threads have cores to themselves
  };
  /// `issue` waits while this many ops are unfinished. Far more than any lane is ahead of another in practice; it
  /// bounds the memory that a queue takes.
  static constexpr std::uint64_t most_unfinished = 1024;

  /// Throws std::system_error when a thread cannot be started.
  Lanes(std::uint32_t count, Hooks);
  /// Drops ops that have not begun, and waits for the threads, so the partners that these wait for must end.
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Queues an op; returns its number on its lane, counting from 1. Throws what a lane threw, or Aborted. Called by one
  /// thread, as is drain.
  std::uint64_t issue(std::uint32_t lane, IssuedOp, std::vector<After>);
  /// Waits until all issued ops have ended.  Throws like issue.
  void drain();

 private:
  struct Queued {
    IssuedOp op;
    std::vector<After> after;
  };
  struct Queue {
    std::deque<Queued> ops;  ///< guarded by mutex_
    std::atomic<std::uint64_t> issued{0};
    std::atomic<std::uint64_t> ended{0};
    std::condition_variable one_issued;  ///< what the lane's own thread sleeps on
    std::condition_variable one_ended;   ///< lanes whose next op waits for this lane sleep on it
  };
  void work(std::uint32_t lane);
  [[nodiscard]] Queued take(Queue&, std::uint64_t number);
  [[nodiscard]] std::uint64_t unfinished() const;
  /// The issuing thread waits until fewer than `limit` ops are unfinished.
  void wait_below(std::uint64_t limit);
  /// Wakes the threads that sleep on it. Each change wakes only the threads that it concerns, because ranks have many
  /// lanes.
  void tell(std::condition_variable& change);
  void stop();
  /// Waits until `ready` is true, which `change` announces.
  template <class Ready>
  void wait(std::condition_variable& change, Ready ready);
  /// Throws when lanes can do no more.
  void look() const;

  Hooks hooks_;
  std::vector<Queue> queues_;
  std::mutex mutex_;
  std::condition_variable fewer_unfinished_;   ///< what the issuing thread sleeps on
  std::atomic<std::uint64_t> issue_below_{0};  ///< waits until so few are unfinished; 0: it does not sleep
  std::atomic<bool> stopped_{false};
  std::exception_ptr failure_;  ///< the first; written before stopped_
  std::vector<std::thread> threads_;
};

}  // namespace orrery
