#include <catch2/catch.hpp>

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "exec/device/told_by_child.hpp"

using namespace orrery;

TEST_CASE("a process of its own tells its text, however long, and leaves no trace here", "[device]") {
  static int changed = 0;
  const std::string text(300'000, 'x');  // more than a pipe holds
  CHECK(told_by_child([&] {
          changed = 1;
          return text;
        }) == text);
  CHECK(changed == 0);
}

TEST_CASE("signals while the answer is waited for do not lose it", "[device]") {
  struct sigaction counted {};
  static volatile sig_atomic_t signals = 0;
  counted.sa_handler = [](int) { signals = signals + 1; };  // without SA_RESTART: waits end with EINTR
  struct sigaction before {};
  sigaction(SIGALRM, &counted, &before);
  const itimerval often{{0, 2000}, {0, 2000}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  std::string told;
  try {
    told = told_by_child([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return std::string("8 GPUs");
    });
  } catch (const std::exception& e) {
    told = e.what();
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  CHECK(told == "8 GPUs");
  CHECK(signals > 0);
}

TEST_CASE("a process that ends without an answer is said", "[device]") {
  CHECK_THROWS_WITH(told_by_child([]() -> std::string { throw std::runtime_error("no"); }),
                    "the child process ended without an answer");
  CHECK_THROWS_WITH(told_by_child([]() -> std::string {
                      raise(SIGKILL);
                      return "never";
                    }),
                    "the child process ended without an answer (signal 9)");
}
