#pragma once

#include <atomic>

namespace orrery {

// Signals that ask the program to end.  The first asks for an end with all that belongs to it; a second one, a tenth of
// a second later or more, for an end at once.  (One wish may be two signals: timeout(1) and job managers send one to a
// process and one to its group.)

/// From now on SIGINT sets `interrupted()`.  A second one ends the program.
void catch_interrupt();

/// Who sees to the end when a second signal has come.
enum class SecondSignal : unsigned char {
  ends,       ///< the signal itself ends this process
  is_watched  ///< somebody asks `interrupted_again()`, and has folders or processes to remove first
};
/// SIGINT, SIGTERM and SIGHUP do.  A SIGHUP that is ignored, as by nohup, stays ignored.
void catch_end_signals(SecondSignal);

/// What the handler does, for a wish that came in another way.
void interrupt(int signal);

[[nodiscard]] const std::atomic<bool>& interrupted();
/// The first signal; 0 where none has come.
[[nodiscard]] int interrupting_signal();
[[nodiscard]] bool interrupted_again();

/// Exit status of a run that has ended after the step in which a signal came: `status_no` for SIGINT, as of all that
/// somebody at a terminal breaks off, and else 128 + the signal, as of a process that it had killed.
[[nodiscard]] int interrupted_status();
/// Exit status of a run that a second signal has ended: 128 + the first.
[[nodiscard]] int interrupted_again_status();

}  // namespace orrery
