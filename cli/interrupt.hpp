#pragma once

#include <atomic>

namespace orrery {

// Signals that ask the program to end. The first asks for an orderly end. A second one, a tenth of a second later or
// more, asks for an end at once. (One wish may be two signals: timeout(1) and job managers send one to a process and
// one to its group.)

/// From now on SIGINT sets `interrupted()`.  A second one ends the program.
void catch_interrupt();

/// Who acts when a second signal has come.
enum class SecondSignal : unsigned char {
  ends,       ///< the signal itself ends this process
  is_watched  ///< the caller asks `interrupted_again()`, and has folders or processes to remove first
};
/// From now on SIGINT, SIGTERM and SIGHUP set `interrupted()`. A SIGHUP that is ignored, as by nohup, stays ignored.
void catch_end_signals(SecondSignal);

/// Does what the handler does, for a wish that came in another way.
void interrupt(int signal);

[[nodiscard]] const std::atomic<bool>& interrupted();
/// The first signal; 0 where none has come.
[[nodiscard]] int interrupting_signal();
[[nodiscard]] bool interrupted_again();

/// Exit status of a run that has ended after the step in which a signal came. For SIGINT it is `status_no`, as for
/// everything that a person at a terminal breaks off. Otherwise it is 128 + the signal, as for a process that the
/// signal has killed.
[[nodiscard]] int interrupted_status();
/// Exit status of a run that a second signal has ended: 128 + the first.
[[nodiscard]] int interrupted_again_status();

}  // namespace orrery
