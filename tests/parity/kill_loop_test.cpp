#include <catch2/catch.hpp>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/parity/supervised_plans.hpp"
#include "tests/support/signalled_run.hpp"

using namespace orrery;
using nlohmann::json;
using test::SignalledRun;
using test::SupervisedPlan;

namespace {

/// Kills a random rank of the run at random moments, so many times or until the run has ended; returns the number of
/// kills.
///
/// The time between two kills is exponential. They strike whatever the run does: it may train, save or start. Where no
/// process is there to be killed, the next one is.
int kill_ranks(SignalledRun& run, int most, double mean_s, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> waits(1.0 / mean_s);
  int kills = 0;
  auto next = std::chrono::steady_clock::now();
  while (kills < most) {
    next += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(waits(random)));
    const double who = std::uniform_real_distribution<double>(0.0, 1.0)(random);
    for (;;) {
      if (run.has_ended()) return kills;
      const std::vector<pid_t> ranks = run.children();
      if (std::chrono::steady_clock::now() >= next && !ranks.empty()) {
        kill(ranks[static_cast<std::size_t>(who * static_cast<double>(ranks.size()))], SIGKILL);
        ++kills;
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

/// The share of wall time that was kept work until the last failure, beside the closed form of
/// docs/formulas/failures.md. Each cycle ends with a failure and is independent of others, so the share is a ratio of
/// means (Cochran, Sampling Techniques, 1977, 2.9).
Share share_of(const json& told, double mean_s) {
  const double c = told["save_s"], r = told["restart_s"];
  // Every save keeps the steps since the one before.
  const double tau = told["kept_s"].get<double>() / told["saves"].get<double>();
  Share s{};
  s.forecast = tau / (mean_s * std::exp(r / mean_s) * std::expm1((tau + c) / mean_s));
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

/// Trains while so many kills come, and again undisturbed.
void survive_kills(int kills, double mean_s, const std::string& sequence, double points, double longest_s) {
  const SupervisedPlan s("0.01", sequence);
  // A first look at what steps take here says how many the kills need; seven tenths of the time will be kept work.
  const test::Ran look = test::run(ORRERY_PROGRAM, "run " + s.plan() + " --ranks 8 --steps 100 --json");
  REQUIRE(look.status == 0);
  const double step = json::parse(look.out)["step_time_s"];
  const auto steps = static_cast<std::uint64_t>(0.7 * 1.15 * kills * mean_s / step);
  const std::string count = std::to_string(steps);
  const auto began = std::chrono::steady_clock::now();
  SignalledRun run({ORRERY_PROGRAM, "run", s.plan(), "--warmup", "0", "--steps", count, "--json", "--checkpoint",
                    s.file("saved"), "--supervise", "--tries", "1000", "--mean-time-between-failures",
                    std::to_string(mean_s) + " s"});
  const int killed = kill_ranks(run, kills, mean_s, 20261126);
  const int status = run.wait(std::chrono::seconds(static_cast<int>(longest_s)));
  CAPTURE(run.err(), steps);
  REQUIRE(status == 0);
  const json got = json::parse(run.out()), told = got["supervision"];
  const Share share = share_of(told, mean_s);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::cout << killed << " kills in " << took << " s: kept work " << share.observed << ", forecast " << share.forecast
            << ", standard error " << share.error << "; step " << told["step_s"] << " s, save " << told["save_s"]
            << " s, restart " << told["restart_s"] << " s\n";
  CHECK(killed == kills);
  // A kill of a process that has just ended well, or two at once, is no failure of its own.
  CHECK(told["failures"].size() <= static_cast<std::size_t>(killed));
  CHECK(static_cast<double>(told["failures"].size()) >= 0.95 * killed);
  CHECK(std::abs(share.observed - share.forecast) <= 3.0 * share.error);
  CHECK(std::abs(share.observed - share.forecast) <= points);
  CHECK(took < longest_s);

  const test::Ran whole = test::run(
      ORRERY_PROGRAM, "run " + s.plan() + " --warmup 0 --json --steps " + count + " --checkpoint " + s.file("whole"));
  REQUIRE(whole.status == 0);
  CHECK(got["losses"] == json::parse(whole.out)["losses"]);
  CHECK(!test::newest_state(s.file("saved")).empty());
  CHECK(test::newest_state(s.file("saved")) == test::newest_state(s.file("whole")));
}

}  // namespace

TEST_CASE("a run that is killed again and again loses as much as the closed form says, and no bit",
          "[processes][kill-loop]") {
  survive_kills(30, 1.0, "8", 0.15, 90.0);  // so few kills leave a standard error of some points
}

TEST_CASE("600 kills, one in 10 s: what is kept is forecast within 3 standard errors and 3 points",
          "[.][kill-loop-long]") {
  survive_kills(600, 10.0, "64", 0.03, 2.0 * 3600.0);
}
