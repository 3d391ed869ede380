#include "planner/search.hpp"

#include <catch2/catch.hpp>

#include <set>

#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/describe.hpp"
#include "planner/levels.hpp"
#include "planner/neighbours.hpp"
#include "planner/plan_key.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

struct Case {
  ModelSpec model = test::tiny_gpt({.layers = 6, .hidden = 128, .heads = 8, .vocabulary = 2000, .positions = 128});
  Workload workload;
  ClusterSpec cluster = test::small_cluster(2, 4, 16.0 * mebibyte);
  Calibration calibration;

  Case() {
    workload.global_batch = 8;
    workload.sequence_length = 128;
    calibration.launch = 2.0 * microsecond;
  }
  [[nodiscard]] SearchResult found(const SearchOptions& options) const {
    return search(model, workload, cluster, calibration, options);
  }
  [[nodiscard]] PlannedRun run(const Plan& plan) const { return {model, workload, cluster, plan, {}, {}}; }
  [[nodiscard]] Report estimated(const Plan& plan) const {
    const CostModel costs(cluster, calibration, plan.mesh, plan.placement, plan.collective_algorithm);
    return estimate(run(plan), lower(model, workload, plan), costs);
  }
};

SearchOptions estimates(std::uint32_t top = 5) {
  SearchOptions options;
  options.top = top;
  options.simulate = false;
  options.threads = 1;
  return options;
}

/// How long a message takes for which the order of a zero-bubble schedule is searched: a member of the plan with its
/// lowering and its price, for which the table has no row that a person turns.
std::uint64_t message_time(const PlannedRun& run) { return run.plan.action_times.message; }
bool put_message_time(PlannedRun& run, std::uint64_t value, std::string&) {
  run.plan.action_times.message = static_cast<std::uint32_t>(value);
  return true;
}

}  // namespace

TEST_CASE("plans that are found are valid, resolved, fit, differ, and come best first", "[unit][planner]") {
  const Case c;
  const SearchResult result = c.found(estimates(8));
  REQUIRE(result.complete);
  REQUIRE(result.plans.size() == 8);
  std::set<std::string> keys;
  std::set<std::uint64_t> ids;
  Seconds last;
  for (const FoundPlan& found : result.plans) {
    CAPTURE(describe(found.plan));
    const PlannedRun run = c.run(found.plan);
    Diagnostics wrong;
    check(found.plan, c.model, c.workload, &c.cluster, wrong);
    CHECK(render(wrong) == "");
    CHECK(is_resolved(found.plan));
    CHECK(fits_memory(run, lower(c.model, c.workload, found.plan), c.calibration));
    CHECK(found.report.fits);
    CHECK(found.report.step_time == c.estimated(found.plan).step_time);
    CHECK(found.report.step_time >= last);
    last = found.report.step_time;
    keys.insert(key_of(run));
    ids.insert(found.id);
    CHECK_FALSE(found.simulated);
  }
  CHECK(keys.size() == 8);
  CHECK(ids.size() == 8);
}

TEST_CASE("the number of threads does not change what is found", "[unit][planner]") {
  const Case c;
  SearchOptions options = estimates();
  const SearchResult one = c.found(options);
  options.threads = 4;
  const SearchResult four = c.found(options);
  REQUIRE(one.plans.size() == four.plans.size());
  for (std::size_t i = 0; i < one.plans.size(); ++i) {
    CHECK(one.plans[i].plan == four.plans[i].plan);
    CHECK(one.plans[i].id == four.plans[i].id);
  }
  CHECK(one.estimated == four.estimated);
  CHECK(one.changes == four.changes);
  CHECK(one.claim == four.claim);
}

// The claim is that no single change, no pair of changes and no factor of an axis makes the best plan better.
TEST_CASE("no neighbour of the best plan that fits is faster", "[unit][planner]") {
  const Case c;
  const SearchResult result = c.found(estimates(1));
  REQUIRE(result.plans.size() == 1);
  const FoundPlan& best = result.plans.front();
  for (const Reach reach : {Reach::plan, Reach::pairs, Reach::mesh}) {
    for (const Neighbour& n : neighbours(c.run(best.plan), reach)) {
      if (!is_resolved(n.plan)) continue;
      if (!fits_memory(c.run(n.plan), lower(c.model, c.workload, n.plan), c.calibration)) continue;
      CAPTURE(describe(best.plan), describe(n));
      CHECK(c.estimated(n.plan).step_time >= best.report.step_time);
    }
  }
}

TEST_CASE("what is found is within the limits", "[unit][planner]") {
  const Case c;
  Diagnostics wrong;
  SearchOptions options = estimates();
  options.limits = limits_of("pp=2 tensor=1,2 schedule=1f1b,gpipe zero=1,2 recompute=none,full context=off", wrong);
  REQUIRE(wrong.empty());
  const SearchResult result = c.found(options);
  REQUIRE_FALSE(result.plans.empty());
  for (const FoundPlan& found : result.plans) {
    CAPTURE(describe(found.plan));
    CHECK(options.limits.allow(c.run(found.plan)));
    CHECK(found.plan.mesh.size(Axis::pipeline) == 2);
  }
  // Fewer choices are never better.
  const SearchResult all = c.found(estimates(1));
  REQUIRE(all.plans.size() == 1);
  CHECK(result.plans.front().report.step_time >= all.plans.front().report.step_time);
}

TEST_CASE("the objective memory finds a plan that holds no more than the fastest", "[unit][planner]") {
  const Case c;
  SearchOptions options = estimates(1);
  const SearchResult fastest = c.found(options);
  options.objective = Objective::memory;
  const SearchResult leanest = c.found(options);
  REQUIRE(fastest.plans.size() == 1);
  REQUIRE(leanest.plans.size() == 1);
  CHECK(leanest.plans.front().report.peak_memory_bytes < fastest.plans.front().report.peak_memory_bytes);
  CHECK(leanest.plans.front().report.step_time >= fastest.plans.front().report.step_time);
}

TEST_CASE("less memory never makes the plan that is found faster", "[unit][planner]") {
  Case c;
  Seconds last;
  bool found = true;
  for (const double mib : {64.0, 16.0, 8.0, 6.0, 4.0, 1.0}) {
    c.cluster.device.memory = mib * mebibyte;
    const SearchResult result = c.found(estimates(1));
    CAPTURE(mib, result.claim);
    CHECK((found || result.plans.empty()));  // what fits in less fits in more
    found = !result.plans.empty();
    if (!found) continue;
    CHECK(result.plans.front().report.step_time >= last);
    last = result.plans.front().report.step_time;
  }
  CHECK_FALSE(found);
}

TEST_CASE("where no split is valid the search says so, and not that nothing fits", "[unit][planner]") {
  Case c;
  c.workload.global_batch = 6;  // on 8 devices
  Diagnostics wrong;
  SearchOptions options = estimates(1);
  options.limits = limits_of("pp=1 tensor=1 context=off", wrong);
  REQUIRE(wrong.empty());
  const SearchResult result = c.found(options);
  CHECK(result.plans.empty());
  CHECK(result.shapes == 0);
  CHECK(result.claim.find("nothing splits a batch of 6 over 8 devices") != std::string::npos);
}

TEST_CASE("where no plan fits the search ends, says so, and names the one that came nearest", "[unit][planner]") {
  Case c;
  c.cluster.device.memory = mebibyte;
  const SearchResult result = c.found(estimates());
  CHECK(result.complete);
  CHECK(result.plans.empty());
  CHECK(result.claim.starts_with("None of "));
  CHECK(result.rejected);
  SearchOptions unjudged = estimates(1);
  unjudged.judge_memory = false;
  CHECK(c.found(unjudged).plans.size() == 1);
}

TEST_CASE("each plan that is told of is better than the one before, and the last is the best", "[unit][planner]") {
  const Case c;
  std::vector<FoundPlan> told;
  SearchOptions options = estimates(1);
  options.found = [&](const FoundPlan& plan) { told.push_back(plan); };
  const SearchResult result = c.found(options);
  REQUIRE_FALSE(told.empty());
  for (std::size_t i = 1; i < told.size(); ++i) CHECK(told[i].report.step_time <= told[i - 1].report.step_time);
  CHECK(told.back().id == result.plans.front().id);
}

TEST_CASE("a cancelled search keeps what it has and says that it was interrupted", "[unit][planner]") {
  const Case c;
  std::atomic<bool> cancel{false};
  SearchOptions options = estimates(1);
  options.cancel = &cancel;
  options.found = [&](const FoundPlan&) { cancel = true; };
  const SearchResult result = c.found(options);
  CHECK_FALSE(result.complete);
  CHECK(result.claim.starts_with("Interrupted"));
  cancel = true;
  CHECK(c.found(options).plans.empty());
}

// With 8 ranks there are 1, 2, 4 and 8 of each axis, and at most 6 stages of 6 layers; 8 sequences leave microbatches
// of up to 8.
TEST_CASE("the levels of a search name what it decides", "[unit][planner]") {
  const Case c;
  const Levels all = levels_of(c.model, c.workload, c.cluster, {});
  const auto values = [](const std::vector<Level>& list, std::string_view key) {
    for (const Level& l : list) {
      if (l.key == key) return l.values;
    }
    return std::vector<std::string>{"absent"};
  };
  CHECK(values(all.coarse, "mesh.tensor") == std::vector<std::string>{"1", "2", "4", "8"});
  CHECK(values(all.coarse, "mesh.pipeline") == std::vector<std::string>{"1", "2", "4"});
  CHECK(values(all.coarse, "plan.microbatch_size") == std::vector<std::string>{"1", "2", "4", "8"});
  CHECK(values(all.changed, "plan.recompute") == std::vector<std::string>{"none", "selective", "full"});
  Diagnostics wrong;
  const Levels few = levels_of(c.model, c.workload, c.cluster, limits_of("tensor=2 recompute=full", wrong));
  CHECK(few.shapes < all.shapes);
  CHECK(values(few.coarse, "mesh.tensor") == std::vector<std::string>{"2"});
  CHECK(values(few.changed, "plan.recompute") == std::vector<std::string>{"absent"});  // decided
  CHECK(few.shapes > 0);
}

// docs/extending.md: a dimension is one row, its lowering and its price.
TEST_CASE("a row that is added to the table is searched", "[unit][planner]") {
  const Case c;
  Diagnostics wrong;
  SearchOptions options = estimates(1);
  options.limits = limits_of("pipeline=2 schedule=zb-v microbatch_size=1", wrong);
  REQUIRE(wrong.empty());
  const SearchResult without = c.found(options);
  std::vector<Dimension> table(dimensions().begin(), dimensions().end());
  table.push_back({.key = "plan.message_time",
                   .label = "Message time",
                   .help = "How long a message takes for which the order is made.",
                   .most = 4,
                   .get = message_time,
                   .put = put_message_time});
  options.dimensions = table;
  const SearchResult with = c.found(options);
  REQUIRE(with.plans.size() == 1);
  REQUIRE(without.plans.size() == 1);
  CHECK(without.plans.front().plan.action_times.message == 0);
  CHECK(with.plans.front().plan.action_times.message > 0);
  CHECK(with.plans.front().report.step_time < without.plans.front().report.step_time);
  CHECK(with.plans.front().report.step_time == c.estimated(with.plans.front().plan).step_time);
  CHECK(with.changes > without.changes);
}
