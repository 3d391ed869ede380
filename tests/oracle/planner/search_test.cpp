#include "planner/search.hpp"

#include <catch2/catch.hpp>

#include "tests/oracle/planner/brute_force.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

ModelSpec gpt() {
  return test::tiny_gpt({.layers = 4, .hidden = 128, .heads = 8, .vocabulary = 5000, .positions = 128});
}

ModelSpec llama() {
  return test::tiny_llama({.layers = 5,
                           .hidden = 128,
                           .heads = 8,
                           .kv_heads = 2,
                           .ffn = 352,
                           .vocabulary = 1000,
                           .positions = 128,
                           .tied = false});
}

Workload workload(std::uint64_t batch) {
  Workload w;
  w.global_batch = batch;
  w.sequence_length = 128;
  w.clip_norm = 1.0;
  return w;
}

Calibration calibration() {
  Calibration c;
  c.launch = 2.0 * microsecond;
  c.collective_launch = 5.0 * microsecond;
  return c;
}

struct Case {
  const char* name;
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  SpaceLimits limits = basic_limits();

  [[nodiscard]] Space space() const { return make_space(model, workload, cluster, limits); }
};

std::vector<Case> cases() {
  Workload dropout = workload(8);
  dropout.attention_dropout = 0.1;
  dropout.hidden_dropout = 0.1;
  Workload plain = workload(8);
  plain.clip_norm.reset();
  plain.optimizer.kind = OptimizerKind::sgd;
  ClusterSpec serial = test::small_cluster(2, 2, mebibyte * 24);
  serial.device.concurrent_lanes = false;
  return {
      {"one device", gpt(), workload(4), test::small_cluster(1, 1, gibibyte)},
      {"one node, tight memory", gpt(), workload(8), test::small_cluster(1, 4, mebibyte * 14)},
      {"two nodes of 3", llama(), workload(12), test::small_cluster(2, 3, mebibyte * 16)},
      {"dropout", gpt(), dropout, test::small_cluster(2, 4, mebibyte * 20)},
      {"no clipping, SGD", llama(), plain, test::small_cluster(4, 2, mebibyte * 16)},
      {"one op at a time", gpt(), plain, serial},
      {"16 devices", llama(), workload(8), test::small_cluster(2, 8, mebibyte * 8)},
  };
}

SearchOptions options(Objective objective, std::uint32_t top) {
  SearchOptions o;
  o.objective = objective;
  o.top = top;
  o.simulate = false;
  return o;
}

}  // namespace

namespace {

SpaceLimits only(const char* text) {
  Diagnostics wrong;
  SpaceLimits limits = limits_of(text, wrong);
  REQUIRE(wrong.empty());
  return limits;
}

/// Experts in every layer, as in Mixtral; or shared ones too, above a dense layer and under latent attention, as in
/// DeepSeek-V2.
ModelSpec mixture(bool deep) {
  ModelSpec m = llama();
  m.layers = 3;
  Mixture x;
  x.experts = 4;
  x.per_token = 2;
  x.ffn = 176;
  if (deep) {
    x.first_dense = 1;
    x.shared_ffn = 128;
    x.scores = Mixture::Scores::softmax_all;
    m.kv_heads = m.heads;
    m.latent = LatentAttention{32, 16, 8, 16};
  }
  m.mixture = x;
  return m;
}

Workload routed(Routing::Kind kind) {
  Workload w = workload(8);
  w.routing.kind = kind;
  w.routing.exponent = 0.5;
  if (kind == Routing::Kind::learned) w.routing.capacity = 1.5;
  return w;
}

/// Few devices and layers, but every other dimension.
std::vector<Case> wide_cases() {
  ModelSpec small = gpt();
  small.layers = 2;
  ModelSpec cube = llama();
  cube.layers = 2;
  ClusterSpec serial = test::small_cluster(1, 4, mebibyte * 24);
  serial.device.concurrent_lanes = false;
  return {
      {"everything on 2", small, workload(4), test::small_cluster(1, 2, mebibyte * 24), {}},
      {"replicas and ZeRO", small, workload(4), test::small_cluster(2, 2, mebibyte * 14),
       only("tensor=1d context=off schedule=1f1b")},
      {"context", small, workload(2), test::small_cluster(2, 2, mebibyte * 14),
       only("tensor=1d schedule=1f1b zero=0,3")},
      {"grids", small, workload(4), test::small_cluster(2, 4, mebibyte * 10), only("tensor=2d,2.5d zero=0,1")},
      {"cubes", cube, workload(8), test::small_cluster(2, 4, mebibyte * 12), only("tensor=3d")},
      {"schedules", gpt(), workload(8), test::small_cluster(1, 2, mebibyte * 24),
       only("tensor=1d context=off replica=off")},
      {"one op at a time", small, workload(4), serial, only("tensor=1d context=off zero=1,2,3")},
      {"some layers recomputed on 16", gpt(), workload(16), test::small_cluster(2, 8, mebibyte * 7),
       only("tensor=1d context=off replica=off schedule=1f1b zero=0,1")},
      {"experts", mixture(false), routed(Routing::Kind::skewed), test::small_cluster(2, 4, mebibyte * 10),
       only("schedule=1f1b zero=0,1 context=off replica=off")},
      {"experts, all else too", mixture(false), routed(Routing::Kind::learned),
       test::small_cluster(2, 2, mebibyte * 12), only("schedule=gpipe,zb-h1,interleaved")},
      {"experts above a dense layer", mixture(true), routed(Routing::Kind::balanced),
       test::small_cluster(2, 2, mebibyte * 8), only("schedule=1f1b,interleaved")},
  };
}

}  // namespace

TEST_CASE("the search finds what trying every plan finds", "[oracle][planner]") {
  std::vector<Case> all = cases();
  for (Case& c : wide_cases()) all.push_back(std::move(c));
  for (const Case& c : all) {
    const Space space = c.space();
    for (const Objective objective : {Objective::step_time, Objective::memory, Objective::cost}) {
      CAPTURE(c.name, name_of(objective), space.count);
      const auto exact = test::brute_force(space, c.model, c.workload, c.cluster, calibration(), objective);
      const SearchResult found = search(space, c.model, c.workload, c.cluster, calibration(), options(objective, 10));
      REQUIRE(found.complete);
      REQUIRE(found.plans.size() == std::min<std::size_t>(10, exact.size()));
      // A plan that is too slow anyway is left out whether it fits or not.
      CHECK(found.infeasible <= space.count - exact.size());
      CHECK(found.certified == !exact.empty());
      for (std::size_t i = 0; i < found.plans.size(); ++i) {
        CAPTURE(i);
        CHECK(found.plans[i].number == exact[i].number);
        CHECK(found.plans[i].report.step_time.base() == exact[i].step);
        CHECK(found.plans[i].report.peak_memory_bytes == exact[i].peak);
      }
      // Every plan is accounted for once.
      std::uint64_t others = 0;
      for (const PruneCount& p : found.pruned) others += p.reason == "bound" || p.reason == "same" ? p.count : 0;
      CHECK(found.evaluated + others + found.infeasible == space.count);
    }
  }
}

TEST_CASE("the memory of the cases leaves some plans out and some in", "[oracle][planner]") {
  // Guards the test above: without both kinds it would not see the memory rule.
  int both = 0;
  for (const Case& c : cases()) {
    const SearchResult r =
        search(c.space(), c.model, c.workload, c.cluster, calibration(), options(Objective::step_time, 1));
    both += r.infeasible > 0 && r.infeasible < r.space ? 1 : 0;
  }
  CHECK(both >= 5);
}

TEST_CASE("some of the plans found recompute some of their layers", "[oracle][planner]") {
  int some = 0;
  for (const Case& c : wide_cases()) {
    const SearchResult r =
        search(c.space(), c.model, c.workload, c.cluster, calibration(), options(Objective::step_time, 10));
    for (const FoundPlan& f : r.plans) some += f.plan.recompute_layers ? 1 : 0;
  }
  CHECK(some >= 10);
}

TEST_CASE("an order of axes that is left out costs what the listed one costs", "[oracle][planner]") {
  for (const Case& c : cases()) {
    const Space space = c.space();
    std::uint64_t left_out = 0;
    for (std::uint64_t i = 0; i < space.count; i += 37) {
      const Plan listed = plan_at(space, i);
      Plan other = listed;
      std::sort(other.mesh.axes.begin(), other.mesh.axes.end(),
                [](const MeshAxis& a, const MeshAxis& b) { return a.axis < b.axis; });
      do {
        if (other.mesh == listed.mesh || number_of(space, other) != i) continue;
        ++left_out;
        const auto time = [&](const Plan& plan) {
          const Program program = lower(c.model, c.workload, plan);
          return Estimator().step_time(program, CostModel(c.cluster, calibration(), plan.mesh));
        };
        CAPTURE(c.name, describe(listed), describe(other));
        CHECK(time(other) == time(listed));
      } while (std::next_permutation(other.mesh.axes.begin(), other.mesh.axes.end(),
                                     [](const MeshAxis& a, const MeshAxis& b) { return a.axis < b.axis; }));
    }
    if (std::string(c.name) == "16 devices") CHECK(left_out > 0);
  }
}

TEST_CASE("the result does not depend on the number of threads", "[oracle][planner]") {
  // The second has every schedule.
  const bool wide = GENERATE(false, true);
  const Case c = wide ? wide_cases()[5] : cases()[3];
  CAPTURE(c.name);
  SearchOptions o = options(Objective::step_time, 7);
  o.simulate = true;
  o.threads = 1;
  const SearchResult one = search(c.space(), c.model, c.workload, c.cluster, calibration(), o);
  REQUIRE(one.plans.size() == 7);
  for (const std::uint32_t threads : {2U, 3U, 8U}) {
    o.threads = threads;
    const SearchResult many = search(c.space(), c.model, c.workload, c.cluster, calibration(), o);
    CAPTURE(threads);
    CHECK(many.certificate == one.certificate);
    CHECK(many.evaluated == one.evaluated);
    REQUIRE(many.plans.size() == one.plans.size());
    for (std::size_t i = 0; i < one.plans.size(); ++i) {
      CHECK(many.plans[i].number == one.plans[i].number);
      CHECK(many.plans[i].report == one.plans[i].report);
      CHECK(many.plans[i].simulated == one.plans[i].simulated);
    }
  }
}

TEST_CASE("what is simulated is no faster than its estimate, and the certificate says what that proves",
          "[oracle][planner]") {
  const Case c = cases()[2];
  SearchOptions o = options(Objective::step_time, 3);
  o.simulate = true;
  const SearchResult r = search(c.space(), c.model, c.workload, c.cluster, calibration(), o);
  REQUIRE(r.plans.size() == 3);
  double best = 1e30;
  for (const FoundPlan& f : r.plans) {
    REQUIRE(f.simulated);
    CHECK(f.simulated->step_time >= f.report.step_time);
    best = std::min(best, f.simulated->step_time.base());
  }
  // Proven exactly when no plan that was left unsimulated is estimated below the
  // best simulated time (a bound below it would also do, and makes it unproven).
  const auto exact = test::brute_force(c.space(), c.model, c.workload, c.cluster, calibration(), Objective::step_time);
  if (r.simulated_certified) CHECK(exact.front().step >= std::min(best, r.plans.front().report.step_time.base()));
  CHECK((r.certificate.find("uncertified") != std::string::npos) == !r.simulated_certified);
}

TEST_CASE("a space in which nothing fits says so", "[oracle][planner]") {
  const Case c{"nothing", gpt(), workload(4), test::small_cluster(1, 2, mebibyte)};
  const SearchResult r =
      search(c.space(), c.model, c.workload, c.cluster, calibration(), options(Objective::step_time, 3));
  CHECK(r.plans.empty());
  CHECK(r.complete);
  CHECK_FALSE(r.certified);
  CHECK(r.infeasible == r.space);
  CHECK(r.certificate.find("None of the " + std::to_string(r.space) + " plans") == 0);
}

TEST_CASE("a cancelled search keeps what it has and claims nothing", "[oracle][planner]") {
  const Case c = cases()[3];
  const std::atomic<bool> cancelled{true};
  SearchOptions o = options(Objective::step_time, 3);
  o.cancel = &cancelled;
  const SearchResult r = search(c.space(), c.model, c.workload, c.cluster, calibration(), o);
  CHECK_FALSE(r.complete);
  CHECK_FALSE(r.certified);
  CHECK(r.certificate.find("stopped") != std::string::npos);

  // Cancelled as soon as the first plans have been estimated: those remain.
  std::atomic<bool> later{false};
  o.cancel = &later;
  o.prune = false;
  o.progress_every = {};
  o.progress = [&](const SearchProgress& p) { later = p.best.has_value(); };
  const SearchResult some = search(c.space(), c.model, c.workload, c.cluster, calibration(), o);
  CHECK_FALSE(some.complete);
  CHECK_FALSE(some.certified);
  CHECK(some.evaluated > 0);
  CHECK(some.evaluated < some.space - some.infeasible);
  CHECK(some.plans.size() == std::min<std::size_t>(3, some.evaluated));
}
