#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/des/event_queue.hpp"

namespace orrery {

/// The cores of one node, on which more ranks than cores take turns.
///
/// A rank that has work takes a free core, or queues, first come first served. It keeps its core from op to op until it
/// has nothing to do (it waits for another rank). While others queue it also loses the core when its slice is over, and
/// queues again. So an op takes its own time once it runs, as on a real scheduler whose slices are longer than ops, and
/// waiting lies between ops.
class Cores {
 public:
  struct Job {
    std::uint32_t actor = 0;
    std::uint32_t op = 0;
  };
  /// How long a rank keeps its core while others queue; looked at between ops. Linux lets a task run about this long;
  /// ops are mostly much shorter.
  static constexpr Picoseconds slice = 3'000'000'000;  // 3 ms

  /// `cores` 0 means one core for every actor.
  explicit Cores(std::uint32_t cores = 0, std::size_t actors = 0)
      : limited_(cores > 0), free_(cores), ranks_(cores > 0 ? actors : 0) {}

  /// Starts a job of `alone` picoseconds: it runs at once where its actor has a core or gets one.
  void start(Picoseconds now, Picoseconds alone, Job job);
  /// Called after a job's end, when the actor has started what it could: gives the core back if that is nothing.
  void rest(Picoseconds now, std::uint32_t actor);

  [[nodiscard]] bool idle() const { return running_.empty(); }
  /// Requires running jobs.
  [[nodiscard]] Picoseconds next_end() const { return running_.next_time(); }
  /// The job that ends at next_end().
  Job finish();
  /// Jobs that began to run since this list was last cleared.
  [[nodiscard]] std::vector<Job>& started() { return started_; }

 private:
  struct Rank {
    bool has_core = false;
    std::uint32_t jobs = 0;  ///< running
    Picoseconds since = 0;   ///< when it got its core
  };
  struct Waiting {
    Job job;
    Picoseconds alone;
  };
  void run(Picoseconds now, Picoseconds alone, Job job);
  void serve(Picoseconds now);

  bool limited_;
  std::uint32_t free_;
  std::vector<Rank> ranks_;
  std::deque<Waiting> queue_;
  EventQueue<Job> running_;
  std::vector<Job> started_;
};

}  // namespace orrery
