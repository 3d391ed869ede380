#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/parity/supervised_plans.hpp"
#include "tests/support/signalled_run.hpp"

using namespace orrery;
using nlohmann::json;
using test::SignalledRun;
using test::SupervisedPlan;

namespace {

std::vector<json> events(const std::string& log, const std::string& kind) {
  std::vector<json> found;
  std::istringstream lines(test::contents(log));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("{\"event\":\"" + kind + "\"") == 0 && line.back() == '}') found.push_back(json::parse(line));
  }
  return found;
}

std::vector<std::string> words(const SupervisedPlan& s, int steps, std::vector<std::string> more) {
  std::vector<std::string> all{
      ORRERY_PROGRAM, "run",         s.plan(),       "--warmup",     "0", "--steps", std::to_string(steps), "--json",
      "--log",        s.file("log"), "--checkpoint", s.file("saved")};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

json undisturbed(const SupervisedPlan& s, int steps) {
  const test::Ran ran = test::run(ORRERY_PROGRAM, "run " + s.plan() + " --warmup 0 --json --steps " +
                                                      std::to_string(steps) + " --checkpoint " + s.file("whole"));
  CAPTURE(ran.err);
  REQUIRE(ran.status == 0);
  return json::parse(ran.out);
}

/// Kills one rank after the first checkpoint that comes after `failures` failures.
void kill_a_rank(const SupervisedPlan& s, const SignalledRun& run, std::size_t failures, std::size_t rank) {
  const std::string log = s.file("log");
  std::size_t saved = 0;
  REQUIRE(SignalledRun::eventually([&] {
    saved = events(log, "checkpoint").size();
    return events(log, "failure").size() == failures && events(log, "restart").size() == failures && saved > failures;
  }));
  REQUIRE(SignalledRun::eventually([&] { return events(log, "checkpoint").size() > saved; }));
  const std::vector<pid_t> ranks = run.children();
  REQUIRE(ranks.size() > rank);
  kill(ranks[rank], SIGKILL);
}

}  // namespace

TEST_CASE("a supervised run goes on after kills, and ends with the bits and losses of an undisturbed one",
          "[processes][supervise]") {
  const SupervisedPlan s("0.01", "64");
  constexpr int steps = 400;
  SignalledRun run(words(s, steps, {"--supervise", "--every", "20"}));
  kill_a_rank(s, run, 0, 5);
  kill_a_rank(s, run, 1, 0);
  const int status = run.wait();
  CAPTURE(run.err());
  REQUIRE(status == 0);
  const json got = json::parse(run.out()), whole = undisturbed(s, steps);
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
  CHECK(told["trained_steps"].get<int>() >= steps);

  // Every event stands in the log: two failures, each with a restart that goes on from a checkpoint.
  const std::vector<json> restarts = events(s.file("log"), "restart");
  REQUIRE(restarts.size() == 2);
  CHECK(events(s.file("log"), "failure").size() == 2);
  const std::vector<json> recoveries = events(s.file("log"), "recovery");
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
  constexpr int steps = 200;
  SignalledRun run(words(s, steps, {"--supervise", "--restart", "fewer", "--every", "20"}));
  kill_a_rank(s, run, 0, 3);
  const int status = run.wait();
  CAPTURE(run.err());
  REQUIRE(status == 0);
  const json got = json::parse(run.out()), whole = undisturbed(s, steps);
  REQUIRE(got["losses"].size() == whole["losses"].size());
  for (std::size_t i = 0; i < steps; ++i) {
    CAPTURE(i);
    CHECK(got["losses"][i].get<double>() == Approx(whole["losses"][i].get<double>()).epsilon(1e-9));
  }
  const std::vector<json> restarts = events(s.file("log"), "restart");
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
  SignalledRun run(words(s, 1000000, {"--supervise", "--every", "1000000", "--tries", "2"}));
  for (std::size_t failures = 0; failures < 3; ++failures) {
    REQUIRE(SignalledRun::eventually([&] {
      return events(s.file("log"), "restart").size() == failures && run.children().size() == 8 &&
             events(s.file("log"), "init").size() == failures + 1;
    }));
    kill(run.children()[1], SIGKILL);
    REQUIRE(SignalledRun::eventually([&] { return events(s.file("log"), "failure").size() == failures + 1; }));
  }
  CHECK(run.wait() == 3);
  CHECK(json::parse(run.out())["errors"][0]["code"] == "world");
  CHECK(run.err().find("warning: rank 1 was killed by signal 9 (Killed); restart 1 goes on after step 0\n") == 0);
  CHECK(run.err().find("error: rank 1 was killed by signal 9 (Killed)") != std::string::npos);
  CHECK(run.err().find("2 restarts (--tries) brought no new checkpoint after step 0.") != std::string::npos);
  CHECK(events(s.file("log"), "failure").size() == 3);
  CHECK(events(s.file("log"), "restart").size() == 2);
}

TEST_CASE("a signal ends a supervised run with a checkpoint and its status, after a failure, too",
          "[processes][supervise][signal]") {
  const SupervisedPlan s;
  SignalledRun run(words(s, 1000000, {"--supervise", "--mean-time-between-failures", "5 s"}));
  kill_a_rank(s, run, 0, 2);
  REQUIRE(SignalledRun::eventually([&] { return events(s.file("log"), "recovery").size() == 1; }));
  const std::size_t before = events(s.file("log"), "step").size();
  REQUIRE(SignalledRun::eventually([&] { return events(s.file("log"), "step").size() > before; }));
  kill(run.process(), SIGTERM);
  CHECK(run.wait() == 143);
  const json got = json::parse(run.out());
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
  SignalledRun run(words(s, 300, {"--supervise", "--mean-time-between-failures", "2 s"}));
  const int status = run.wait();
  CAPTURE(run.err());
  REQUIRE(status == 0);
  const json told = json::parse(run.out())["supervision"];
  const double m = 2.0, c = told["save_s"], step = told["step_s"];
  const auto kept = [&](double n) { return n * step / std::expm1((n * step + c) / m); };
  const double n = told["interval_steps"];
  CHECK(kept(n) >= kept(n + 1.0));
  if (n > 1.0) CHECK(kept(n) >= kept(n - 1.0));
  // Those times are means of the whole run; the interval followed them as they changed.
  const double mean = told["trained_steps"].get<double>() / told["saves"].get<double>();
  CHECK(mean > n / 2.0);
  CHECK(mean < n * 2.0);
}
