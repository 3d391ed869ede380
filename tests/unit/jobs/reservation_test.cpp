#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

#include "tests/unit/jobs/job_examples.hpp"

// EASY's promise: whoever is first in line starts no later than it could if nobody else started from then on.

using namespace orrery;
using namespace orrery::test;

namespace {

/// The earliest promise to each job that was first in line.
std::map<JobNumber, Microseconds>& promises() {
  static std::map<JobNumber, Microseconds> all;
  return all;
}

/// Plays easy, and after each decision works out anew when the first in line could start, from the ends of those that
/// run and the nodes that they leave.
class Watched final : public JobPolicy {
 public:
  void submitted(const ClusterState& state, JobNumber j) override {
    policy_->submitted(state, j);
    last_ = j;
  }
  void ended(const ClusterState& state, JobNumber j) override { policy_->ended(state, j); }
  void decide(ClusterState& state) override {
    policy_->decide(state);
    while (first_ <= last_ && state.progress(first_).phase > JobPhase::waiting) ++first_;
    if (first_ > last_) return;
    std::map<Microseconds, std::vector<JobNumber>> ends;
    for (const JobNumber j : state.running()) ends[state.end_of(j)].push_back(j);
    NodePool pool = state.pool();
    for (const auto& [at, jobs] : ends) {
      for (const JobNumber j : jobs) pool.give_back(state.progress(j).places);
      if (pool.take(state.job(first_).gpus, state.rule()).empty()) continue;
      const auto known = promises().try_emplace(first_, at).first;
      known->second = std::min(known->second, at);
      return;
    }
    FAIL("the first in line could never start");
  }

 private:
  std::unique_ptr<JobPolicy> policy_ = backfill_policy();
  JobNumber first_ = 0, last_ = 0;
};

}  // namespace

TEST_CASE("easy starts the first in line when it was promised, scattered or consolidated", "[property][jobs]") {
  const JobPolicyRow watched = {"watched", "", false,
                                false,     "", [] { return std::unique_ptr<JobPolicy>(new Watched); }};
  std::size_t promised = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    JobWorkload w = random_workload(seed, 100);
    for (std::size_t j = 0; j < w.jobs.size(); j += 3) w.jobs[j].startup = 4 * microseconds_per_second;
    JobSimulation options;
    options.gpus_of_nodes = {4, 4, 3, 2};
    if (seed % 2 == 0) {
      options.places = PlaceRule::consolidated;
    } else {
      options.costs.scattered_speed = 6'001;
    }
    promises().clear();
    const JobHistory h = simulate_jobs(w, watched, options);
    for (const auto& [j, at] : promises()) {
      CAPTURE(seed, j);
      REQUIRE(h.jobs[j].first_start <= at);
    }
    promised += promises().size();
  }
  CHECK(promised > 1000);
}
