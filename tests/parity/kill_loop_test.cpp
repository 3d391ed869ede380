#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "forecast/checkpoint_interval.hpp"
#include "tests/parity/event_log.hpp"
#include "tests/parity/supervised_plans.hpp"
#include "tests/support/signalled_run.hpp"

using namespace orrery;
using nlohmann::json;
using test::EventLog;
using test::SignalledRun;
using test::SupervisedPlan;

namespace {

struct Kills {
  int all = 0;
  std::set<std::ptrdiff_t> starts;  ///< those of the run that were hit, by the restarts before them
};

/// Kills a random rank of the run at random moments, so many times or until the run has ended.
///
/// The time between two kills is exponential. They strike whatever the run does: it may train, save or start. Where no
/// process is there to be killed, the next one is, and the time until the kill after that begins then. (On a machine
/// so busy that processes take long to go, kills that are overdue would strike every start at once, without end.)
Kills kill_ranks(SignalledRun& run, EventLog& log, int most, double mean_s, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> waits(1.0 / mean_s);
  Kills kills;
  while (kills.all < most) {
    const auto next = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                             std::chrono::duration<double>(waits(random)));
    const double who = std::uniform_real_distribution<double>(0.0, 1.0)(random);
    for (;;) {
      if (run.has_ended()) return kills;
      const std::vector<pid_t> ranks = run.children();
      log.read();
      if (std::chrono::steady_clock::now() >= next && !ranks.empty() &&
          kill(ranks[static_cast<std::size_t>(who * static_cast<double>(ranks.size()))], SIGKILL) == 0) {
        // The process was there, so its start had not been given up: every restart before it has been read, none after.
        ++kills.all;
        kills.starts.insert(log.count("restart"));
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return kills;
}

struct Share {
  double observed, forecast, error;  ///< error: one standard error of what is observed
};

/// The share of wall time that was kept work until the last failure, beside the closed form of docs/formulas/runs.md.
/// Each cycle ends with a failure and is independent of others, so the share is a ratio of means (Cochran, Sampling
/// Techniques, 1977, 2.9).
Share share_of(const json& told, double mean_s) {
  const double c = told["save_s"], r = told["restart_s"];
  // Every save keeps the steps since the one before.
  const double tau = told["kept_s"].get<double>() / told["saves"].get<double>();
  Share s{};
  s.forecast =
      saved_efficiency(Seconds::of(tau), Seconds::of(c), Seconds(), Seconds::of(mean_s), std::exp(-r / mean_s));
  const json& failures = told["failures"];
  s.observed = failures.back()["kept_s"].get<double>() / failures.back()["at_s"].get<double>();
  double wall = 0.0, kept = 0.0, squares = 0.0;
  for (const json& f : failures) {
    const double w = f["at_s"].get<double>() - wall, k = f["kept_s"].get<double>() - kept;
    wall += w;
    kept += k;
    squares += (k - s.observed * w) * (k - s.observed * w);
  }
  const auto n = static_cast<double>(failures.size());
  s.error = std::sqrt(squares / (n - 1.0) / n) / (wall / n);
  return s;
}

/// Every failure stands in the log as in the report, with the restart that follows it, and every start that trains from
/// a checkpoint with its recovery.
void check_log(const EventLog& log, const json& failures) {
  std::size_t failed = 0, restarted = 0;
  std::uint64_t from = 0;
  bool recovered = true, in_order = true;
  for (const json& e : log.all()) {
    const std::string& kind = e["event"].get_ref<const std::string&>();
    if (kind == "failure") {
      REQUIRE(failed < failures.size());
      CHECK(e["what"].get<std::string>().find(failures[failed]["what"].get<std::string>()) == 0);
      ++failed;
    } else if (kind == "restart") {
      REQUIRE(++restarted == failed);
      CHECK(e["restart"] == restarted);
      from = e["step"];
      CHECK(failures[failed - 1]["went_on_after"] == from);
      recovered = from == 0;
    } else if (kind == "recovery") {
      CHECK(e["step"] == from);
      recovered = true;
    } else if (kind == "step") {
      in_order = in_order && recovered && failed == restarted;
    }
  }
  CHECK(failed == failures.size());
  CHECK(restarted == failures.size());
  CHECK(recovered);
  CHECK(in_order);
}

/// Trains while so many kills come, at least that far apart in the mean, and again undisturbed. With `points` the share
/// of kept work must be as forecast, within 3 standard errors and so much.
void survive_kills(int kills, double least_mean_s, const std::string& sequence, std::optional<double> points) {
  const SupervisedPlan s("0.01", sequence);
  // A look at what a start, a step and a save take here: kills leave time for them, so that the run gets on.
  const test::Ran look = test::run(ORRERY_PROGRAM, "run " + s.plan() + " --warmup 0 --steps 1 --json --supervise " +
                                                       "--checkpoint " + s.file("look"));
  CAPTURE(look.err);
  REQUIRE(look.status == 0);
  const double mean_s = std::max(least_mean_s, 4.0 * json::parse(look.out)["supervision"]["wall_s"].get<double>());
  const std::string mean = std::to_string(mean_s) + " s";
  EventLog log(s.file("log"));
  // It has more steps than it will ever do. Nothing but the kills is taken for a failure.
  SignalledRun run({ORRERY_PROGRAM,
                    "run",
                    s.plan(),
                    "--warmup",
                    "0",
                    "--steps",
                    "1000000000",
                    "--json",
                    "--log",
                    log.path(),
                    "--checkpoint",
                    s.file("saved"),
                    "--supervise",
                    "--tries",
                    "1000",
                    "--heartbeat",
                    "600",
                    "--watchdog",
                    "600",
                    "--mean-time-between-failures",
                    mean});
  const Kills killed = kill_ranks(run, log, kills, mean_s, 20261126);
  CAPTURE(run.err(), mean);
  REQUIRE(killed.all == kills);
  const std::ptrdiff_t starts = *killed.starts.rbegin() + 1;
  REQUIRE(log.eventually([&] { return log.count("restart") == starts; }));
  REQUIRE(log.a_step_ends());
  kill(run.process(), SIGTERM);
  REQUIRE(log.wait(run) == 143);

  const json got = json::parse(run.out()), told = got["supervision"];
  // Two kills of one start are one failure.
  CHECK(told["failures"].size() == killed.starts.size());
  check_log(log, told["failures"]);
  if (points) {
    const Share share = share_of(told, mean_s);
    std::cout << killed.all << " kills in " << told["wall_s"] << " s: kept work " << share.observed << ", forecast "
              << share.forecast << ", standard error " << share.error << "; step " << told["step_s"] << " s, save "
              << told["save_s"] << " s, restart " << told["restart_s"] << " s\n";
    CHECK(static_cast<double>(told["failures"].size()) >= 0.95 * killed.all);
    CHECK(std::abs(share.observed - share.forecast) <= 3.0 * share.error);
    CHECK(std::abs(share.observed - share.forecast) <= *points);
  }

  const std::size_t steps = got["losses"].size();
  CHECK(told["kept_steps"] == steps);
  REQUIRE(steps > 0);
  const test::Ran whole = test::run(ORRERY_PROGRAM, "run " + s.plan() + " --warmup 0 --json --steps " +
                                                        std::to_string(steps) + " --checkpoint " + s.file("whole"));
  CAPTURE(whole.err);
  REQUIRE(whole.status == 0);
  CHECK(got["losses"] == json::parse(whole.out)["losses"]);
  CHECK(!test::newest_state(s.file("saved")).empty());
  CHECK(test::newest_state(s.file("saved")) == test::newest_state(s.file("whole")));
}

}  // namespace

TEST_CASE("a run that is killed again and again loses no bit, and logs every failure", "[processes][kill-loop]") {
  survive_kills(30, 1.0, "8", std::nullopt);
}

TEST_CASE("600 kills, one in 10 s: what is kept is forecast within 3 standard errors and 3 points",
          "[.][kill-loop-long]") {
  survive_kills(600, 10.0, "64", 0.03);
}
