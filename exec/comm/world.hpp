#pragma once

#include <cstdint>
#include <string>

#include "exec/comm/communicator.hpp"

namespace orrery {

/// How ranks meet: as threads of one process (ThreadWorld), or as processes,
/// where an object stands for one rank's view (ProcessWorld).
///
/// The first failure ends the run for all: the rank that notices it states the reason, and every wait ends with
/// Aborted.
class World {
 public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  /// An end of a rank: each thread that communicates for it has its own.
  [[nodiscard]] virtual Communicator& communicator(Rank, std::uint32_t end = 0) = 0;
  /// Ends the run.  The first reason stands.
  virtual void abort(const std::string& reason) = 0;
  [[nodiscard]] virtual bool aborted() const = 0;
  /// The reason for the end; empty while the run goes well.
  [[nodiscard]] virtual std::string reason() const = 0;
  /// Called now and then by a rank that waits for something else than a message. Notices a partner that is gone, and
  /// then ends the run.
  virtual void look() {}
  /// Whether more threads communicate than there are cores; waits then let others run.
  [[nodiscard]] virtual bool crowded() const = 0;
};

/// A world whose ranks are processes: only this process's rank has ends here.
class ProcessWorld : public World {
 public:
  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual std::uint32_t ranks() const = 0;
  /// The end for messages of ranks between steps. Its waits have no limit of time: rank 0 may be writing a file.
  [[nodiscard]] virtual Communicator& control() = 0;
  /// Nanoseconds to add to this host's steady clock for the clock that all ranks share.
  [[nodiscard]] virtual std::int64_t clock_offset() const = 0;
};

/// The text of a wait that has been too long: "rank 1 has waited 0.5 s for rank 2".
[[nodiscard]] std::string waited_text(Rank who, Rank whom, double seconds);
/// The text "rank 1 waits for rank 2, which has ended".
[[nodiscard]] std::string ended_text(Rank who, Rank whom);

}  // namespace orrery
