#include "cli/interrupt.hpp"

#include <signal.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

#include "cli/hosted_command.hpp"
#include "cli/status.hpp"

namespace orrery {
namespace {

// A signal handler can write only to these.
std::atomic<bool> flag{false}, again{false}, watched{false};
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_at{0};  ///< nanoseconds; 0: none has come
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<std::int64_t>::is_always_lock_free);

constexpr std::int64_t one_wish_ns = 100'000'000;

std::int64_t steady_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void on_signal(int signal) {
  const int before = errno;
  interrupt(signal);
  errno = before;
}

void handle(int signal) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, s);
  sigaction(signal, &action, nullptr);
}

}  // namespace

// Another program's signals are its own.
void catch_interrupt() {
  if (HostedCommand::here() == nullptr) handle(SIGINT);
}

void catch_end_signals(SecondSignal second) {
  if (HostedCommand::here() != nullptr) return;
  watched = second == SecondSignal::is_watched;
  handle(SIGINT);
  handle(SIGTERM);
  struct sigaction now {};
  if (sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) handle(SIGHUP);
}

void interrupt(int signal) {
  // A signal handler may do only this.
  const std::int64_t now = steady_ns();
  std::int64_t before = 0;
  if (first_at.compare_exchange_strong(before, now)) {
    first_signal = signal;
    flag = true;
  } else if (now - before >= one_wish_ns) {
    again = true;
    if (watched) return;
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
}

const std::atomic<bool>& interrupted() {
  const HostedCommand* hosted = HostedCommand::here();
  return hosted != nullptr ? hosted->stopped() : flag;
}
int interrupting_signal() { return first_signal; }
bool interrupted_again() { return again; }

int interrupted_status() {
  return HostedCommand::here() != nullptr || first_signal == SIGINT ? status_no : interrupted_again_status();
}
int interrupted_again_status() { return 128 + first_signal; }

}  // namespace orrery
