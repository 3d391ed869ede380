#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "tests/support/signalled_run.hpp"

using namespace orrery;
using test::SignalledRun;

namespace {

struct Case {
  bool processes;  ///< or threads
  int signal, status;
  enum class To { launcher, group, one_rank } to = To::launcher;
};

std::vector<std::string> words_of(bool processes, const std::string& log, const std::string& saved) {
  std::vector<std::string> words{ORRERY_PROGRAM, "run", "demo-2x2x2",  "--steps", "1000000",
                                 "--log",        log,   "--heartbeat", "60"};
  if (processes) words.insert(words.end(), {"--ranks", "8"});
  if (!saved.empty()) words.insert(words.end(), {"--checkpoint", saved});
  return words;
}

void wait_for_steps(const std::string& log) {
  REQUIRE(
      SignalledRun::eventually([&] { return test::contents(log).find("\"event\":\"step\"") != std::string::npos; }));
}

}  // namespace

// The status is 128 + the signal, as for a process that the signal has killed; for SIGINT it is 1 (docs/running.md).
TEST_CASE("a signal ends a run after its step, with a checkpoint, and leaves no folder behind", "[processes][signal]") {
  const Case c = GENERATE(Case{false, SIGTERM, 143}, Case{false, SIGHUP, 129}, Case{true, SIGINT, 1},
                          Case{true, SIGTERM, 143}, Case{true, SIGTERM, 143, Case::To::group},
                          Case{true, SIGHUP, 129, Case::To::group}, Case{true, SIGTERM, 143, Case::To::one_rank});
  CAPTURE(c.processes, c.signal, static_cast<int>(c.to));
  const test::TemporaryFolder folder;
  SignalledRun run(words_of(c.processes, folder.file("log"), folder.file("saved")));
  wait_for_steps(folder.file("log"));
  switch (c.to) {
    case Case::To::launcher: kill(run.process(), c.signal); break;
    case Case::To::group: kill(-run.process(), c.signal); break;
    case Case::To::one_rank: {
      const std::vector<pid_t> ranks = run.children();
      REQUIRE(ranks.size() == 8);
      kill(ranks[5], c.signal);
    }
  }
  const int status = run.wait();
  CAPTURE(run.err());
  CHECK(status == c.status);
  CHECK(run.err().empty());
  CHECK(run.out().find("  Interrupted after ") != std::string::npos);
  CHECK(run.left_behind() == 0);
  CHECK(test::run(ORRERY_PROGRAM, "checkpoint " + folder.file("saved")).out.find(": whole, ") != std::string::npos);
}

// A stopped rank keeps the step from ending.
TEST_CASE("a second signal ends a run of processes at once, and leaves no folder behind either",
          "[processes][signal]") {
  const test::TemporaryFolder folder;
  SignalledRun run(words_of(true, folder.file("log"), ""));
  wait_for_steps(folder.file("log"));
  const std::vector<pid_t> ranks = run.children();
  REQUIRE(ranks.size() == 8);
  kill(ranks[3], SIGSTOP);
  kill(run.process(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(kill(run.process(), 0) == 0);  // it waits for the step
  kill(run.process(), SIGTERM);
  CHECK(run.wait() == 143);
  CHECK(run.err().empty());
  CHECK(run.left_behind() == 0);
  for (const pid_t rank : ranks) CHECK(kill(rank, 0) != 0);
}

TEST_CASE(
    "of two signals that are one wish the second ends nothing, and a SIGHUP that nohup has ignored does not either",
    "[processes][signal]") {
  const test::TemporaryFolder folder;
  std::vector<std::string> words = words_of(false, folder.file("log"), "");
  words.insert(words.begin(), "/usr/bin/nohup");
  SignalledRun run(words);
  wait_for_steps(folder.file("log"));
  kill(run.process(), SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(run.process(), SIGTERM);
  kill(run.process(), SIGTERM);
  CHECK(run.wait() == 143);
  CHECK(run.out().find("  Interrupted after ") != std::string::npos);
}
