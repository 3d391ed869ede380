#include "planner/explain.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <set>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "planner/describe.hpp"
#include "planner/search.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

PlannedRun run(Bytes memory) {
  PlannedRun r;
  r.model = test::tiny_gpt({.layers = 6, .hidden = 128, .heads = 8, .vocabulary = 2000, .positions = 128});
  r.workload.global_batch = 8;
  r.workload.sequence_length = 128;
  r.workload.clip_norm = 1.0;
  r.cluster = test::small_cluster(2, 4, memory);
  r.plan.mesh.axes = {{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}};
  r.plan.microbatch_size = 2;
  return r;
}

Calibration calibration() {
  Calibration c;
  c.launch = 2.0 * microsecond;
  return c;
}

PlannedRun with_plan(PlannedRun r, const Plan& plan) {
  r.plan = plan;
  return r;
}

Report estimated(const PlannedRun& r, const Plan& plan) {
  const PlannedRun there = with_plan(r, plan);
  return estimate(there, lower(r.model, r.workload, plan),
                  CostModel(*r.cluster, calibration(), plan.mesh, plan.placement, plan.collective_algorithm));
}

std::uint64_t peak(const PlannedRun& r, const Plan& plan) { return estimated(r, plan).peak_memory_bytes; }

bool fits(const PlannedRun& r, const Plan& plan) {
  return static_cast<double>(peak(r, plan)) <= r.cluster->device.memory.base();
}

Plan resolved(const PlannedRun& r) { return resolve(r.plan, r.model, r.workload, *r.cluster, calibration()).plan; }

}  // namespace

TEST_CASE("resolve gives every auto a value and says why", "[unit][planner]") {
  const PlannedRun r = run(gibibyte);
  const ResolvedPlan out = resolve(r.plan, r.model, r.workload, *r.cluster, calibration());
  REQUIRE(is_resolved(out.plan));
  CHECK(out.plan.attention == AttentionKernel::flash);
  CHECK(out.plan.overlap_gradients == true);
  CHECK(out.plan.gradient_bucket->base() == 160e6);  // 40 million gradients of 4 bytes
  REQUIRE(out.resolved.size() == 4);
  CHECK(out.resolved[0].key == "stage_layers");
  CHECK(out.resolved[1].key == "gradient_bucket");
  CHECK(out.resolved[1].value == "160 MB");
  CHECK(out.resolved[2].key == "overlap_gradients");
  CHECK(out.resolved[3].key == "attention");
  // Set values stay, and a resolved plan is its own resolution.
  const ResolvedPlan again = resolve(out.plan, r.model, r.workload, *r.cluster, calibration());
  CHECK(again.plan == out.plan);
  CHECK(again.resolved.empty());
}

TEST_CASE("resolve respects what selective recomputation and kept scores need", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  r.plan.recompute = Recompute::selective;
  CHECK(resolved(r).attention == AttentionKernel::unfused);
  r.plan.recompute = Recompute::none;
  r.workload.attention_dropout = 0.1;
  CHECK(resolved(r).attention == AttentionKernel::flash);
  r.plan.mesh.axes = {{Axis::data, 2}, {Axis::context, 2}, {Axis::tensor, 2}};
  r.plan.context = ContextAlgorithm::ring_self_attention;
  CHECK(resolved(r).attention == AttentionKernel::unfused);
}

// The last stage has the head, which weighs 2000 x 128 of a layer's 12 x 128^2 weights, about 1.3 layers. So an even
// split leaves the last stage longer.
TEST_CASE("resolve gives the stage with the head fewer layers", "[unit][planner]") {
  const PlannedRun r = run(gibibyte);
  const Plan best = resolved(r);
  REQUIRE(best.stage_layers->size() == 2);
  CHECK((*best.stage_layers)[0] > (*best.stage_layers)[1]);
  // And no other split is faster.
  for (std::uint32_t first = 1; first < 6; ++first) {
    Plan other = best;
    other.stage_layers = {{first, 6 - first}};
    CHECK(estimated(r, best).step_time <= estimated(r, other).step_time);
  }
}

TEST_CASE("the terms of an explanation add up to the step", "[unit][planner]") {
  const Explanation e = explain(run(gibibyte), calibration());
  double sum = 0.0;
  for (const TimeTerm& t : e.terms) sum += t.time.in(second);
  // These are sums of picoseconds in double: far below 1e-9 of the step.
  CHECK(sum == Approx(e.report.step_time.in(second)).epsilon(1e-9));
  CHECK(e.report.fits);
  CHECK_FALSE(e.smallest_fix);
  CHECK(e.text.find("Does not fit") == std::string::npos);
}

TEST_CASE("eighths in host memory are tried where the cluster says what its hosts hold", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  const auto eighths = [&](const char* key) {
    const auto all = single_changes(with_plan(r, resolved(r)));
    return std::count_if(all.begin(), all.end(), [&](const PlanChange& c) { return c.dimension == key; });
  };
  CHECK(eighths("offload_states") == 0);
  r.cluster->host_memory = gibibyte;
  r.cluster->host_link = 20.0 * gigabyte_per_second;
  r.cluster->host_bandwidth = 50.0 * gigabyte_per_second;
  CHECK(eighths("offload_states") == 8);
  CHECK(eighths("offload_activations") == 8);
  CHECK(eighths("offload_parameters") == 8);  // states follow, where there are fewer
  r.plan.offload_states = 3;
  CHECK(eighths("offload_states") == 8);
  CHECK(eighths("offload_parameters") == 8);
}

// Lists every dimension that the plan without counts, or without chunks, changes.
TEST_CASE("counts of recomputed layers and chunks of parameters leave out no change", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  const auto changed = [&] {
    std::set<std::string> dimensions;
    for (const PlanChange& c : single_changes(with_plan(r, resolved(r)))) dimensions.insert(c.dimension);
    return dimensions;
  };
  r.plan.recompute = Recompute::full;
  r.plan.stage_layers = {{3, 3}};
  const auto all = changed();
  CHECK(all.contains("recompute_layers"));
  r.plan.recompute_layers = {{3, 1}};
  CHECK(changed() == all);
  r.plan.recompute_layers.reset();
  r.plan.zero_stage = 3;
  r.workload.gradient_dtype = DType::bf16;
  const auto sharded = changed();
  CHECK(sharded.contains("parameter_chunk"));
  r.plan.parameter_chunk.reset();
  CHECK(changed() == sharded);
}

TEST_CASE("single changes are valid and resolved, and say what is changed", "[unit][planner]") {
  const PlannedRun r = run(gibibyte);
  const Plan plan = resolved(r);
  const auto changes = single_changes(with_plan(r, plan));
  REQUIRE(changes.size() > 10);
  std::vector<std::string> dimensions;
  for (const PlanChange& c : changes) {
    CAPTURE(describe(c));
    Diagnostics wrong;
    check(c.plan, r.model, r.workload, &*r.cluster, wrong);
    CHECK(wrong.empty());
    CHECK(is_resolved(c.plan));
    CHECK_FALSE(c.plan == plan);
    CHECK(c.from != c.to);
    dimensions.push_back(c.dimension);
  }
  for (const char* wanted : {"recompute", "sequence_parallel", "zero_stage", "overlap_gradients", "schedule",
                             "microbatch_size", "stage_layers", "order of mesh axes", "mesh"}) {
    CHECK(std::count(dimensions.begin(), dimensions.end(), wanted) > 0);
  }
}

namespace {

/// Values that single changes of one dimension lead to.
std::vector<std::string> values_of(const PlannedRun& r, const Plan& plan, const std::string& dimension) {
  std::vector<std::string> values;
  for (const PlanChange& c : single_changes(with_plan(r, plan))) {
    if (c.dimension == dimension) values.push_back(c.to);
  }
  return values;
}

}  // namespace

TEST_CASE("single changes try every stage of ZeRO and the choices of its third", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  r.plan.zero_stage = 1;
  CHECK(values_of(r, resolved(r), "zero_stage") == std::vector<std::string>{"0", "2", "3"});
  CHECK(values_of(r, resolved(r), "prefetch").empty());
  r.plan.zero_stage = 3;
  r.plan.prefetch = 0;
  r.plan.reshard_after_forward = false;
  // Choices that only the third ZeRO stage has go with it.
  CHECK(values_of(r, resolved(r), "zero_stage") == std::vector<std::string>{"0", "1", "2"});
  CHECK(values_of(r, resolved(r), "prefetch") == std::vector<std::string>{"1"});
  CHECK(values_of(r, resolved(r), "reshard_after_forward") == std::vector<std::string>{"on"});
}

// The list of those schedules is not repeated here: each is written into the plan by hand and checked.
TEST_CASE("single changes try every schedule that check accepts", "[unit][planner]") {
  const PlannedRun r = run(gibibyte);
  const Plan plan = resolved(r);
  const auto found = values_of(r, plan, "schedule");
  int tried = 0;
  for (std::size_t s = 0; s < pipeline_schedule_names().size(); ++s) {
    Plan p = plan;
    p.schedule = static_cast<ScheduleName>(s);
    if (p.schedule == plan.schedule || p.schedule == ScheduleName::custom) continue;
    if (rules_of(p.schedule).least_chunks > 1) {
      p.chunks = rules_of(p.schedule).least_chunks;
      p.stage_layers.reset();
    }
    Diagnostics wrong;
    check(p, r.model, r.workload, &*r.cluster, wrong);
    CAPTURE(name_of(p.schedule), found);
    if (!wrong.empty()) continue;
    CHECK(std::count(found.begin(), found.end(), std::string(name_of(p.schedule))) == 1);
    ++tried;
  }
  CHECK(tried >= 7);
  CHECK(values_of(r, plan, "chunks").empty());
  // From two chunks it goes back to one, and to three, with six layers on two ranks.
  PlannedRun chunked = run(gibibyte);
  chunked.plan.schedule = ScheduleName::interleaved;
  chunked.plan.chunks = 2;
  const auto schedules = values_of(chunked, resolved(chunked), "schedule");
  CHECK(std::count(schedules.begin(), schedules.end(), "1f1b") == 1);
  CHECK(values_of(chunked, resolved(chunked), "chunks") == std::vector<std::string>{"3"});
}

TEST_CASE("single changes try every way to cut attention over the context axis", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  r.plan.mesh.axes = {{Axis::data, 2}, {Axis::context, 2}, {Axis::tensor, 2}};
  r.plan.context = ContextAlgorithm::ring;
  r.plan.zigzag = true;
  const Plan plan = resolved(r);
  const auto ways = values_of(r, plan, "context");
  for (const char* way : {"all_gather", "ulysses"}) CHECK(std::count(ways.begin(), ways.end(), way) == 1);
  CHECK(values_of(r, plan, "zigzag") == std::vector<std::string>{"off"});
  CHECK(values_of(r, plan, "inner_ring").empty());  // of a ring of two
  r.plan.mesh.axes = {{Axis::data, 2}, {Axis::context, 4}};
  CHECK(values_of(r, resolved(r), "inner_ring") == std::vector<std::string>{"2"});
  r.plan.mesh.axes = {{Axis::data, 2}, {Axis::context, 2}, {Axis::tensor, 2}};
  // The factor goes to other axes, and the choices of the axis go with it.
  const auto meshes = values_of(r, plan, "mesh");
  CHECK(std::count(meshes.begin(), meshes.end(), "data 4 x tensor 2") == 1);
  const Explanation e = explain(r, calibration());
  CHECK(e.report.fits);
}

TEST_CASE("the smallest change that fits is the fastest single change that fits", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  r.plan = resolved(r);
  // The memory is just too small for the plan as it is.
  r.cluster->device.memory = Bytes::of(static_cast<double>(peak(r, r.plan) - 1));
  const Explanation e = explain(r, calibration());
  REQUIRE_FALSE(e.report.fits);
  REQUIRE(e.smallest_fix);
  CHECK(e.smallest_fix->memory.fits);
  CHECK(fits(r, e.smallest_fix->plan));
  CHECK(e.text.find("Smallest single change that fits: " + describe(*e.smallest_fix)) != std::string::npos);
  for (const PlanChange& c : single_changes(with_plan(r, r.plan))) {
    if (!fits(r, c.plan)) continue;
    const Program program = lower(r.model, r.workload, c.plan);
    CAPTURE(describe(c));
    CHECK(e.smallest_fix->step_time <=
          Estimator().step_time(program, CostModel(*r.cluster, calibration(), c.plan.mesh)));
  }
}

// Hosts hold next to nothing, and there are two kinds of nodes, of which the second is smaller. So the fit on a device
// of the first kind says nothing about either.
TEST_CASE("changes that are offered fit in every host and on every node", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  r.plan = resolved(r);
  const double whole = static_cast<double>(peak(r, r.plan));
  r.cluster->host_link = 50.0 * gigabyte_per_second;
  r.cluster->host_bandwidth = 100.0 * gigabyte_per_second;
  std::size_t offered = 0, refused = 0;
  for (const double host : {0.1, 40.0}) {
    for (const double second_node : {0.6, 0.8, 1.0}) {
      r.cluster->host_memory = host * mebibyte;
      r.cluster->device.memory = Bytes::of(1.05 * whole);
      OtherNodes other;
      other.first = 1;
      other.count = 1;
      other.device = r.cluster->device;
      other.device.memory = Bytes::of(second_node * whole);
      r.cluster->other_nodes = {other};
      Calibration both = calibration();
      both.others = {calibration()};
      const Explanation e = explain(r, both);
      std::vector<PlanChange> fitting = e.faster;
      if (e.smallest_fix && e.smallest_fix->memory.fits) fitting.push_back(*e.smallest_fix);
      for (const PlanChange& c : fitting) {
        CAPTURE(host, second_node, describe(c));
        const PlannedRun changed = with_plan(r, c.plan);
        const Program program = lower(r.model, r.workload, c.plan);
        CHECK(fits_memory(changed, program, both));
        ++offered;
      }
      refused += e.faster_if_it_fitted.size();
    }
  }
  CHECK(offered > 0);
  CHECK(refused > 0);
}

TEST_CASE("where no single change fits, the one that needs least is shown", "[unit][planner]") {
  const PlannedRun r = run(mebibyte);
  const Explanation e = explain(r, calibration());
  REQUIRE(e.smallest_fix);
  CHECK_FALSE(e.smallest_fix->memory.fits);
  CHECK(e.text.find("No single change fits") != std::string::npos);
  for (const PlanChange& c : single_changes(with_plan(r, e.plan))) {
    CHECK(e.smallest_fix->memory.need <= peak(r, c.plan));
  }
}

TEST_CASE("what binds the best plan is not a better choice", "[unit][planner]") {
  PlannedRun r = run(mebibyte * 12);
  SearchOptions options;
  options.top = 1;
  options.limits = plainest_limits();
  const SearchResult found = search(r.model, r.workload, *r.cluster, calibration(), options);
  REQUIRE(found.plans.size() == 1);
  r.plan = found.plans.front().plan;
  const Explanation e = explain(r, calibration());
  // The space holds every single change of a plan in it, except stage splits that resolve reaches further for, and the
  // decisions that it does not search.
  for (const PlanChange& c : e.faster) {
    CAPTURE(describe(c));
    const bool searched = options.limits.allow(with_plan(r, c.plan), dimensions());
    CHECK((c.dimension == "mesh" || !searched));
  }
  for (const PlanChange& c : e.faster_if_it_fitted) {
    CHECK(c.step_time < e.report.step_time);
    CHECK_FALSE(fits(r, c.plan));
  }
  if (e.binding == Binding::memory) CHECK(e.text.find("Memory binds: ") != std::string::npos);
}

TEST_CASE("a worse choice is named as one", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  r.plan.recompute = Recompute::full;  // with memory to spare
  const Explanation e = explain(r, calibration());
  CHECK(e.binding == Binding::choice);
  REQUIRE_FALSE(e.faster.empty());
  CHECK(std::any_of(e.faster.begin(), e.faster.end(),
                    [](const PlanChange& c) { return describe(c) == "recompute full -> none"; }));
}

TEST_CASE("why not that one: the first violated rule", "[unit][planner]") {
  const PlannedRun r = run(gibibyte);
  Plan other = r.plan;
  other.mesh.axes = {{Axis::pipeline, 8}, {Axis::data, 1}, {Axis::tensor, 1}};
  const Difference d = explain_difference(r, with_plan(r, other), calibration());
  CHECK_FALSE(d.valid);
  CHECK(d.first_violation.find("there are more pipeline stages than layers [plan.pipeline-layers]") !=
        std::string::npos);
  CHECK(d.text.find("That plan breaks a rule.") == 0);
}

TEST_CASE("why not that one: the terms that are longer, which add up", "[unit][planner]") {
  const PlannedRun r = run(gibibyte);
  Plan other = r.plan;
  other.recompute = Recompute::full;
  const Difference d = explain_difference(r, with_plan(r, other), calibration());
  REQUIRE(d.valid);
  CHECK(d.decisions == std::vector<std::string>{"recompute: none | full"});
  REQUIRE_FALSE(d.terms.empty());
  CHECK(d.terms.front().name == "recompute");
  double sum = 0.0;
  for (const TermDifference& t : d.terms) sum += (t.other - t.reference).in(second);
  CHECK(sum == Approx((d.other_report.step_time - d.reference.step_time).in(second)).epsilon(1e-6));
  CHECK(d.text.find("more.") != std::string::npos);
}

// The device has the room of each choice's own peak, so that choice, and no smaller one, fits.
TEST_CASE("auto offloads as few eighths of the states as let the plan fit", "[unit][planner]") {
  PlannedRun r;
  r.model = test::tiny_gpt();
  r.model.layers = 8;
  r.workload.global_batch = 2;
  r.workload.sequence_length = 8;
  r.workload.precision = Precision::bf16;
  r.plan.stage_layers = std::vector<std::uint32_t>{8};
  r.plan.gradient_bucket = 1e9 * byte;
  r.plan.overlap_gradients = false;
  r.plan.attention = AttentionKernel::flash;
  ClusterSpec cluster;
  const auto peak = [&](std::uint32_t eighths) {
    Plan plan = r.plan;
    plan.offload_states = eighths;
    return totals_of(lower(r.model, r.workload, plan), 0).peak[index(Tier::device)];
  };
  Plan open = r.plan;
  open.offload_states.reset();
  CHECK(!is_resolved(open));
  for (std::uint32_t eighths = 0; eighths <= 8; ++eighths) {
    cluster.device.memory = Bytes::of(static_cast<double>(peak(eighths)));
    const ResolvedPlan out = resolve(open, r.model, r.workload, cluster, {});
    CHECK(is_resolved(out.plan));
    CHECK(out.plan.offload_states == eighths);
    CHECK(out.resolved.back().key == "offload_states");
  }
  cluster.device.memory = Bytes::of(static_cast<double>(peak(8) - 1));
  CHECK(resolve(open, r.model, r.workload, cluster, {}).plan.offload_states == 8U);
}

// A chunk has the layer's own size, so its table is that of the plan without chunks.
TEST_CASE("auto makes a chunk of each layer, without padding", "[unit][planner]") {
  PlannedRun r;
  r.model = test::tiny_gpt();
  r.workload.global_batch = 2;
  r.workload.sequence_length = 8;
  r.workload.precision = Precision::fp32;
  r.plan.mesh = Mesh{{{Axis::data, 2}}};
  r.plan.zero_stage = 3;
  r.plan.stage_layers = std::vector<std::uint32_t>{static_cast<std::uint32_t>(r.model.layers)};
  const ResolvedPlan whole = resolve(r.plan, r.model, r.workload, ClusterSpec(), {});
  r.plan.parameter_chunk.reset();
  CHECK(!is_resolved(r.plan));
  const ResolvedPlan out = resolve(r.plan, r.model, r.workload, ClusterSpec(), {});
  REQUIRE(is_resolved(out.plan));
  CHECK(out.resolved.back().key == "parameter_chunk");
  Diagnostics none;
  check(out.plan, r.model, r.workload, nullptr, none);
  CHECK(none.empty());
  const Program chunks = lower(r.model, r.workload, out.plan), plain = lower(r.model, r.workload, whole.plan);
  CHECK(chunks.parameter_tables == plain.parameter_tables);
  CHECK(totals_of(chunks, 0).peak[index(Tier::device)] < totals_of(plain, 0).peak[index(Tier::device)]);
}

TEST_CASE("why not that one: it does not fit", "[unit][planner]") {
  PlannedRun r = run(gibibyte);
  r.plan.recompute = Recompute::full;
  r.plan.zero_stage = 1;
  Plan other = r.plan;
  other.recompute = Recompute::none;
  other.zero_stage = 0;
  r.cluster->device.memory = Bytes::of(static_cast<double>(peak(r, resolved(r))));
  const Difference d = explain_difference(r, with_plan(r, other), calibration());
  CHECK(d.valid);
  CHECK_FALSE(d.fits);
  CHECK(d.text.find("That plan does not fit: it needs ") != std::string::npos);
}

// Among choices none of which can be less, the quickest is taken. The test compares with brute force over all.
TEST_CASE("auto takes the quickest of the least places for states, parameters and activations", "[unit][planner]") {
  PlannedRun r;
  r.model = test::tiny_gpt();
  r.model.layers = 4;
  r.workload.global_batch = 4;
  r.workload.sequence_length = 16;
  r.workload.precision = Precision::bf16;
  r.plan.microbatch_size = 4;
  r.plan.stage_layers = std::vector<std::uint32_t>{4};
  r.plan.gradient_bucket = 1e9 * byte;
  r.plan.overlap_gradients = false;
  r.plan.attention = AttentionKernel::flash;
  ClusterSpec cluster = test::small_cluster(1, 1, gibibyte);
  struct Place {
    std::uint32_t states, parameters, activations;
    double peak;
    Seconds time;
  };
  const CostModel costs(cluster, calibration(), r.plan.mesh, {}, {});
  std::vector<Place> all;
  for (std::uint32_t s = 0; s <= 8; ++s) {
    for (std::uint32_t i = 0; i < 9 * (s + 1); ++i) {
      const std::uint32_t p = i / 9, a = i % 9;
      r.plan.offload_states = s;
      r.plan.offload_parameters = p;
      r.plan.offload_activations = a;
      const Program program = lower(r.model, r.workload, r.plan);
      all.push_back({s, p, a, static_cast<double>(totals_of(program, 0).peak[index(Tier::device)]),
                     estimate(r, program, costs).step_time});
    }
  }
  r.plan.offload_states.reset();
  r.plan.offload_parameters.reset();
  r.plan.offload_activations.reset();
  CHECK(!is_resolved(r.plan));
  std::size_t several = 0;
  for (std::size_t i = 0; i < all.size(); i += 7) {
    const Place& room = all[i];
    const auto fits = [&](const Place& p) { return p.peak <= room.peak; };
    const auto minimal = [&](const Place& p) {
      return fits(p) && std::none_of(all.begin(), all.end(), [&](const Place& q) {
               const bool less = q.states <= p.states && q.parameters <= p.parameters && q.activations <= p.activations;
               const bool same = q.states == p.states && q.parameters == p.parameters && q.activations == p.activations;
               return less && !same && fits(q);
             });
    };
    std::vector<Place> least;
    std::copy_if(all.begin(), all.end(), std::back_inserter(least), minimal);
    several += least.size() > 1 ? 1 : 0;
    const Place best =
        *std::min_element(least.begin(), least.end(), [](const Place& p, const Place& q) { return p.time < q.time; });
    cluster.device.memory = Bytes::of(room.peak);
    const Plan plan = resolve(r.plan, r.model, r.workload, cluster, calibration()).plan;
    CHECK(is_resolved(plan));
    CHECK(plan.offload_states == best.states);
    CHECK(plan.offload_parameters == best.parameters);
    CHECK(plan.offload_activations == best.activations);
  }
  CHECK(several > 5);
}
