#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "exec/comm/world.hpp"
#include "exec/run/recorder.hpp"

namespace orrery {

struct LaunchOptions {
  std::uint32_t ranks = 1;
  std::uint32_t ends = 1;               ///< threads of a rank that communicate
  Seconds watchdog = Seconds::of(60);   ///< longest wait for a partner while no op of any rank ends
  Seconds heartbeat = Seconds::of(5);   ///< longest time in which a process gives no sign of life
  std::filesystem::path records = ".";  ///< folder of the ranks' records; it must exist
  /// Returns a signal by which the launcher was asked to end, 0 for none. Rank 0's process gets it once, and is to end
  /// the run by itself. May be empty.
  std::function<int()> own_signal;
  /// Whether all processes are to end at once, with no rank to blame. May be empty.
  std::function<bool()> end_now;
};

/// Why a run of processes ended early, and by whose fault.
struct RankFailure {
  enum class Kind : std::uint8_t {
    killed,  ///< by a signal
    failed,  ///< it said so itself
    left,    ///< its process ended before the run did
    silent,  ///< no sign of life: it was stopped, or got no processor time
    stalled  ///< it lives and waits for no other rank, but others have waited for it too long
  };
  Kind kind = Kind::failed;
  Rank rank{};
  std::string what;  ///< "rank 2 was killed by signal 9 (Killed)"
};

/// How the processes ended.
struct LaunchOutcome {
  int status = 0;                      ///< what rank 0's work returned
  std::optional<RankFailure> failure;  ///< then all other processes were killed
  std::vector<Recording> recordings;   ///< of a failed run, by rank
  bool ended_now = false;              ///< as `end_now` asked: all processes were killed
};

/// Starts a process for every rank as a copy of this one, which does `work` and exits with its result; waits for all.
/// Only rank 0 should write to standard output.
///
/// Every process beats its record, and this process watches their beats and their ends. The first rank that is killed,
/// fails, leaves, falls silent or stalls ends the run: all others are killed, so that nothing hangs. They also die with
/// this process. Throws Error where processes cannot be started.
///
/// This process should have no other threads that `work` relies on.
[[nodiscard]] LaunchOutcome launch(const LaunchOptions&, const std::function<int(ProcessWorld&, Recorder&)>& work);

}  // namespace orrery
