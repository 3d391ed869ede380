#include <catch2/catch.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/program_run.hpp"
#include "tests/support/signal_rank.hpp"

using namespace orrery;

TEST_CASE("a run of processes prints what a run on threads prints, and the same losses", "[processes]") {
  const std::string arguments = "run demo-2x2x2 --steps 2 --warmup 0 --json";
  const test::Ran processes = test::run(ORRERY_PROGRAM, arguments + " --ranks 8");
  CAPTURE(processes.err);
  REQUIRE(processes.status == 0);
  const test::Ran threads = test::run(ORRERY_PROGRAM, arguments);
  REQUIRE(threads.status == 0);
  const auto a = nlohmann::json::parse(processes.out);
  const auto b = nlohmann::json::parse(threads.out);
  for (const char* same : {"losses", "sent_bytes", "peak_memory_bytes", "recorded_steps", "complete"}) {
    CAPTURE(same);
    CHECK(a.at(same) == b.at(same));
  }
  CHECK(a.at("origin") == "run processes");
  for (const auto& [key, value] : b.items()) {
    CAPTURE(key);
    CHECK(a.contains(key));
  }
}

TEST_CASE("a killed process is named on standard error, in the log and by status 3; records are kept", "[processes]") {
  const test::TemporaryFolder folder;
  const test::TemporaryFolder elsewhere;
  const Rank victim{6};
  std::thread killer([&] { test::signal_rank(folder.file(""), victim, SIGKILL); });
  const test::Ran ended = test::run(ORRERY_PROGRAM, "run demo-2x2x2 --ranks 8 --steps 1000000 --records " +
                                                        folder.file("") + " --log " + elsewhere.file("log"));
  killer.join();
  CAPTURE(ended.err);
  CHECK(ended.status == 3);
  CHECK(ended.out.empty());
  CHECK(ended.err.find("error: rank 6 was killed by signal 9 (Killed), in step ") == 0);
  int kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file(""))) {
    CHECK(ended.err.find(entry.path().string() + ".") != std::string::npos);
    for (std::uint32_t r = 0; r < 8; ++r) {
      CHECK(Recorder(Recorder::file(entry.path(), Rank{r})).read().completed.size() > 0);
      ++kept;
    }
  }
  CHECK(kept == 8);
  std::vector<std::string> events;
  std::istringstream log(test::contents(elsewhere.file("log")));
  for (std::string line; std::getline(log, line);) events.push_back(nlohmann::json::parse(line).at("event"));
  REQUIRE(events.size() > 2);
  CHECK(events.front() == "init");
  CHECK(events.back() == "failure");
  CHECK(std::count(events.begin(), events.end(), "step") > 0);
}

// Runs one process, processes started here, and one that others have started, whose partners do not come.
TEST_CASE("what fails before the first step stands in the log, once", "[processes]") {
  const test::TemporaryFolder folder;
  const test::TemporaryFolder saved;
  REQUIRE(
      test::run(ORRERY_PROGRAM, "run demo-2x2x2 --warmup 0 --steps 1 --checkpoint " + saved.file("training")).status ==
      0);
  const std::vector<std::tuple<std::string, int, std::string>> cases = {
      {"run demo-2x2x2 --ranks 4", 2, "--ranks is 4, but the plan has 8 ranks"},
      {"run demo-2x2x2 --ranks 8 --checkpoint " + saved.file("training"), 2, saved.file("training")},
      {"run demo-2x2x2 --checkpoint " + saved.file("training"), 2, saved.file("training")},
      {"run demo-2x2x2 --backend cuda --rank 0 --world-size 8 --watchdog 1 --rendezvous " + folder.file("place"), 3,
       "rank 0 has waited 1 s for ranks 1, 2, 3, 4, 5, 6, 7"},
  };
  for (const auto& [arguments, status, why] : cases) {
    const test::Ran ended = test::run(ORRERY_PROGRAM, arguments + " --log " + folder.file("log"));
    CAPTURE(arguments, ended.err);
    CHECK(ended.status == status);
    std::istringstream log(test::contents(folder.file("log")));
    std::string line, more;
    REQUIRE(std::getline(log, line));
    const auto event = nlohmann::json::parse(line);
    CHECK(event.at("event") == "failure");
    CHECK(event.at("what").get<std::string>().find(why) != std::string::npos);
    CHECK(ended.err.find(why) != std::string::npos);
    CHECK_FALSE(std::getline(log, more));
  }
}

TEST_CASE("run and simulate log the same operations of a step", "[processes]") {
  const test::TemporaryFolder folder;
  REQUIRE(
      test::run(ORRERY_PROGRAM, "run demo-2x2x2 --ranks 8 --warmup 0 --steps 1 --log " + folder.file("run")).status ==
      0);
  REQUIRE(test::run(ORRERY_PROGRAM, "simulate demo-2x2x2 --log " + folder.file("simulate")).status == 0);
  const auto names = [&](const std::string& file) {
    std::vector<std::string> all;
    std::istringstream log(test::contents(folder.file(file)));
    for (std::string line; std::getline(log, line);) {
      const auto json = nlohmann::json::parse(line);
      std::string what = json.at("event");
      for (const char* key : {"rank", "op", "name", "pass", "layer", "microbatch"}) {
        if (json.contains(key)) what += " " + json.at(key).dump();
      }
      all.push_back(what);
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  CHECK(names("run") == names("simulate"));
}
