#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/parity/event_log.hpp"
#include "tests/parity/supervised_plans.hpp"
#include "tests/support/signalled_run.hpp"

using namespace orrery;
using nlohmann::json;
using test::EventLog;
using test::SignalledRun;
using test::SupervisedPlan;

namespace {

/// A supervised run with more steps than it will ever do, so that it cannot end before the test ends it.
std::vector<std::string> words(const SupervisedPlan& s, const std::string& log, std::vector<std::string> more) {
  std::vector<std::string> all{ORRERY_PROGRAM, "run",           s.plan(),     "--warmup", "0",
                               "--steps",      "1000000000",    "--json",     "--log",    log,
                               "--checkpoint", s.file("saved"), "--supervise"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

json undisturbed(const SupervisedPlan& s, std::size_t steps) {
  const test::Ran ran = test::run(ORRERY_PROGRAM, "run " + s.plan() + " --warmup 0 --json --steps " +
                                                      std::to_string(steps) + " --checkpoint " + s.file("whole"));
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  return json::parse(ran.out);
}

/// Kills one rank after the first checkpoint that comes after `failures` failures.
void kill_a_rank(EventLog& log, const SignalledRun& run, std::ptrdiff_t failures, std::size_t rank) {
  REQUIRE(log.eventually([&] { return log.count("restart") == failures; }));
  const std::ptrdiff_t saved = log.count("checkpoint");
  REQUIRE(log.eventually([&] { return log.count("checkpoint") > saved; }));
  CHECK(log.count("failure") == failures);
  const std::vector<pid_t> ranks = run.children();
  REQUIRE(ranks.size() > rank);
  kill(ranks[rank], SIGKILL);
}

/// Lets the run go on for a step after it has recovered so many times, and ends it; returns its output.
json ended(EventLog& log, SignalledRun& run, std::ptrdiff_t recoveries) {
  REQUIRE(log.eventually([&] { return log.count("recovery") == recoveries; }));
  REQUIRE(log.a_step_ends());
  kill(run.process(), SIGTERM);
  const int status = log.wait(run);
  CAPTURE(run.err());
  REQUIRE(status == 143);
  return json::parse(run.out());
}

/// Whether a process has been stopped by a signal.
bool is_stopped(pid_t process) {
  const std::string stat = test::contents("/proc/" + std::to_string(process) + "/stat");
  return stat.find(") T ") != std::string::npos;
}

}  // namespace

TEST_CASE("a supervised run goes on after kills, and ends with the bits and losses of an undisturbed one",
          "[processes][supervise]") {
  const SupervisedPlan s("0.01", "64");
  EventLog log(s.file("log"));
  SignalledRun run(words(s, log.path(), {"--every", "20"}));
  kill_a_rank(log, run, 0, 5);
  kill_a_rank(log, run, 1, 0);
  const json got = ended(log, run, 2);
  const std::size_t steps = got["losses"].size();
  REQUIRE(steps > 40);
  const json whole = undisturbed(s, steps);
  CHECK(got["losses"] == whole["losses"]);
  CHECK(test::newest_state(s.file("saved")) == test::newest_state(s.file("whole")));
  CHECK(!test::newest_state(s.file("saved")).empty());

  const json& told = got["supervision"];
  REQUIRE(told["failures"].size() == 2);
  CHECK(told["failures"][0]["what"] == "rank 5 was killed by signal 9 (Killed)");
  CHECK(told["failures"][1]["what"] == "rank 0 was killed by signal 9 (Killed)");
  CHECK(told["kept_steps"] == steps);
  // The parts of the wall time are what they say, and fill it.
  double lost = 0.0;
  for (const auto& [cause, seconds] : told["lost_s"].items()) {
    CAPTURE(cause);
    CHECK(seconds.get<double>() >= 0.0);
    lost += seconds.get<double>();
  }
  CHECK(told["kept_s"].get<double>() + lost == Approx(told["wall_s"].get<double>()).epsilon(1e-9));
  CHECK(told["trained_steps"].get<std::size_t>() >= steps);

  // Every event stands in the log: two failures, each with a restart that goes on from a checkpoint.
  const std::vector<json> restarts = log.of("restart"), recoveries = log.of("recovery");
  CHECK(log.count("failure") == 2);
  REQUIRE(restarts.size() == 2);
  REQUIRE(recoveries.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(restarts[i]["restart"] == i + 1);
    CHECK(restarts[i]["ranks"] == 8);
    CHECK(restarts[i]["step"] == recoveries[i]["step"]);
    CHECK(restarts[i]["step"] == told["failures"][i]["went_on_after"]);
    CHECK(restarts[i]["step"].get<int>() % 20 == 0);
  }
  CHECK(run.left_behind() == 0);
}

// With a rate of learning that moves no weight, all plans keep them equal to the bit. With the other one sums come in
// another order, in double: 1e-9 is a million times their rounding.
TEST_CASE("on fewer ranks a run goes on under the planner's plan, with equal weights and losses",
          "[processes][supervise]") {
  const std::string rate = GENERATE(as<std::string>(), "0.0", "0.01");
  CAPTURE(rate);
  const SupervisedPlan s(rate, "64");
  EventLog log(s.file("log"));
  SignalledRun run(words(s, log.path(), {"--restart", "fewer", "--every", "20"}));
  kill_a_rank(log, run, 0, 3);
  const json got = ended(log, run, 1);
  const std::size_t steps = got["losses"].size();
  REQUIRE(steps > 20);
  const json whole = undisturbed(s, steps);
  REQUIRE(whole["losses"].size() == steps);
  for (std::size_t i = 0; i < steps; ++i) {
    CAPTURE(i);
    CHECK(got["losses"][i].get<double>() == Approx(whole["losses"][i].get<double>()).epsilon(1e-9));
  }
  const std::vector<json> restarts = log.of("restart");
  REQUIRE(restarts.size() == 1);
  const int ranks = restarts[0]["ranks"];
  CHECK(ranks >= 4);
  CHECK(ranks <= 7);
  CHECK(run.err().find("restart 1 goes on after step ") != std::string::npos);
  if (rate == "0.01") return;
  // Cut for the first plan again, its weights are those of the undisturbed run.
  const std::string back = s.file("back");
  REQUIRE(test::run(ORRERY_PROGRAM, "checkpoint " + s.file("saved") + " --to " + s.plan() + " -o " + back).status == 0);
  const auto weights = test::parts_of(back, "weights");
  CHECK(!weights.empty());
  CHECK(weights == test::parts_of(s.file("whole"), "weights"));
}

TEST_CASE("a run that fails before its first checkpoint is started --tries times again, and then ends with status 3",
          "[processes][supervise]") {
  const SupervisedPlan s;
  EventLog log(s.file("log"));
  SignalledRun run(words(s, log.path(), {"--every", "1000000000", "--tries", "2"}));
  for (std::ptrdiff_t failures = 0; failures < 3; ++failures) {
    REQUIRE(log.eventually([&] {
      return log.count("restart") == failures && log.count("init") == failures + 1 && run.children().size() == 8;
    }));
    kill(run.children()[1], SIGKILL);
    REQUIRE(log.eventually([&] { return log.count("failure") == failures + 1; }));
  }
  CHECK(log.wait(run) == 3);
  CHECK(json::parse(run.out())["errors"][0]["code"] == "world");
  CHECK(run.err().find("warning: rank 1 was killed by signal 9 (Killed); restart 1 goes on after step 0\n") == 0);
  CHECK(run.err().find("error: rank 1 was killed by signal 9 (Killed)") != std::string::npos);
  CHECK(run.err().find("2 restarts (--tries) brought no new checkpoint after step 0.") != std::string::npos);
  CHECK(log.count("failure") == 3);
  CHECK(log.count("restart") == 2);
}

TEST_CASE("a line that a failure has torn hides no event", "[processes][supervise]") {
  const SupervisedPlan s;
  const std::string log = s.file("log");
  SignalledRun run(words(s, log, {"--every", "1000000000", "--heartbeat", "60"}));
  REQUIRE(SignalledRun::eventually([&] { return run.children().size() == 8 && !test::contents(log).empty(); }));
  // What a process would leave that is killed while it writes, the others being unable to write after it.
  const std::vector<pid_t> ranks = run.children();
  REQUIRE(ranks.size() == 8);
  for (const pid_t rank : ranks) kill(rank, SIGSTOP);
  for (const pid_t rank : ranks) REQUIRE(SignalledRun::eventually([&] { return is_stopped(rank); }));
  std::ofstream(log, std::ios::app) << R"({"event":"opera)";
  kill(ranks[2], SIGKILL);
  REQUIRE(SignalledRun::eventually([&] { return run.err().find("restart 1") != std::string::npos; }));
  kill(run.process(), SIGTERM);
  CHECK(run.wait() != -1);
  const std::string text = test::contents(log);
  CHECK(text.find("{\"event\":\"opera\n{\"event\":\"failure\",\"what\":\"rank 2 was killed by signal 9 (Killed)") !=
        std::string::npos);
}

TEST_CASE("a resumed run whose checkpoint is damaged goes back to before its own first step",
          "[processes][supervise]") {
  const SupervisedPlan s;
  REQUIRE(
      test::run(ORRERY_PROGRAM, "run " + s.plan() + " --warmup 0 --steps 4 --every 2 --checkpoint " + s.file("saved"))
          .status == 0);
  EventLog log(s.file("log"));
  SignalledRun run(words(s, log.path(), {"--resume", "--every", "1000000000"}));
  REQUIRE(log.a_step_ends());
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(s.file("saved"))) {
    newest = std::max(newest, entry.path().string());
  }
  std::filesystem::resize_file(newest + "/rank-00003.bin", 10);
  kill(run.children().at(1), SIGKILL);
  const json got = ended(log, run, 2);
  const json& told = got["supervision"];
  REQUIRE(told["failures"].size() == 1);
  CHECK(told["failures"][0]["went_on_after"] == 2);
  CHECK(told["failures"][0]["kept_s"] == 0.0);
  const std::size_t kept = told["kept_steps"];
  REQUIRE(kept > 0);
  CHECK(got["checkpoint"]["saved"].back()["step"] == 2 + kept);
  const json whole = undisturbed(s, 2 + kept);
  CHECK(got["losses"] == json(std::vector<json>(whole["losses"].begin() + 2, whole["losses"].end())));
  CHECK(test::newest_state(s.file("saved")) == test::newest_state(s.file("whole")));
}

TEST_CASE("a signal ends a supervised run with a checkpoint and its status, after a failure, too",
          "[processes][supervise][signal]") {
  const SupervisedPlan s;
  EventLog log(s.file("log"));
  SignalledRun run(words(s, log.path(), {"--mean-time-between-failures", "5 s"}));
  kill_a_rank(log, run, 0, 2);
  const json got = ended(log, run, 1);
  CHECK(got["complete"] == false);
  CHECK(got["supervision"]["mean_time_is_stated"] == true);
  CHECK(got["supervision"]["mean_time_between_failures_s"] == 5.0);
  const std::uint64_t kept = got["supervision"]["kept_steps"];
  CHECK(got["losses"].size() == kept);
  CHECK(got["checkpoint"]["saved"].back()["step"] == kept);
  CHECK(run.left_behind() == 0);
}

TEST_CASE("checkpoints come at the best interval by what steps and saves take", "[processes][supervise]") {
  const SupervisedPlan s;
  EventLog log(s.file("log"));
  SignalledRun run(words(s, log.path(), {"--mean-time-between-failures", "1 s"}));
  // However long steps and saves take here: no interval is longer than M.
  REQUIRE(log.eventually([&] { return log.count("checkpoint") >= 15; }));
  const json told = ended(log, run, 0)["supervision"];
  const double m = 1.0, c = told["save_s"], step = told["step_s"];
  const auto kept = [&](double n) { return n * step / std::expm1((n * step + c) / m); };
  const double n = told["interval_steps"];
  CHECK(kept(n) >= kept(n + 1.0));
  if (n > 1.0) CHECK(kept(n) >= kept(n - 1.0));
  // Those times are means of the whole run. The interval followed them as they changed; the first and the last are
  // short; and a single save that takes long at the end moves the mean, but no interval.
  const double mean = told["trained_steps"].get<double>() / told["saves"].get<double>();
  CHECK(mean > n / 3.0);
  CHECK(mean < n * 3.0);
}
