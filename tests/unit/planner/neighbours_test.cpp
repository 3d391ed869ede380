#include "planner/neighbours.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "core/plan/plan_check.hpp"
#include "planner/complete.hpp"
#include "planner/describe.hpp"
#include "planner/plan_key.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

std::string broken(const PlannedRun& run) {
  Diagnostics d;
  check(run.plan, run.model, run.workload, &*run.cluster, d);
  return render(d);
}

/// The run is completed, as a search changes it.
PlannedRun run_of(std::vector<MeshAxis> axes, std::uint64_t layers = 8) {
  PlannedRun r;
  r.model = test::tiny_llama({.layers = layers, .hidden = 64, .heads = 8, .vocabulary = 512, .positions = 64});
  r.workload.global_batch = 16;
  r.workload.sequence_length = 64;
  r.cluster = test::small_cluster(2, 4, 8.0 * gibibyte);
  r.plan.mesh.axes = std::move(axes);
  r.plan.microbatch_size = 2;
  complete(r.plan, r.model, r.workload);
  return r;
}

PlannedRun with_hosts(PlannedRun run) {
  run.cluster->host_memory = 64.0 * gibibyte;
  run.cluster->host_link = 20.0 * gigabyte_per_second;
  run.cluster->host_bandwidth = 100.0 * gigabyte_per_second;
  return run;
}

/// Plans of every kind: pipelines, replicas, context, experts, a grid, ZeRO-3, recomputed layers, hosts.
std::vector<PlannedRun> runs() {
  std::vector<PlannedRun> all{run_of({{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}}),
                              run_of({{Axis::pipeline, 4}, {Axis::tensor, 2}}),
                              run_of({{Axis::replica, 2}, {Axis::data, 4}}),
                              run_of({{Axis::data, 2}, {Axis::context, 4}}),
                              with_hosts(run_of({{Axis::data, 8}})),
                              with_hosts(run_of({{Axis::pipeline, 2}, {Axis::data, 4}}))};
  all[1].plan.schedule = ScheduleName::interleaved;
  all[1].plan.chunks = 2;
  all[1].plan.stage_layers = {{1, 1, 1, 1, 1, 1, 1, 1}};
  all[1].workload.global_batch = 32;
  all[2].plan.zero_stage = 3;
  all[3].plan.context = ContextAlgorithm::ring;
  all[4].plan.offload_states = 4;
  all[4].plan.offload_parameters = 2;
  all[5].plan.recompute = Recompute::full;
  all[5].plan.recompute_layers = {{2, 1}};
  PlannedRun mixture = run_of({{Axis::data, 2}, {Axis::expert, 4}});
  mixture.model.mixture.emplace();
  mixture.model.mixture->experts = 8;
  mixture.model.mixture->per_token = 2;
  mixture.model.mixture->ffn = 64;
  all.push_back(mixture);
  PlannedRun grid = run_of({{Axis::data, 2}, {Axis::row, 2}, {Axis::column, 2}});
  grid.plan.tensor = TensorAlgorithm::two_d;
  all.push_back(grid);
  for (const PlannedRun& run : all) {
    INFO(describe(run.plan));
    REQUIRE(broken(run) == "");
  }
  return all;
}

PlannedRun with_plan(PlannedRun run, const Plan& plan) {
  run.plan = plan;
  return run;
}

constexpr Reach reaches[] = {Reach::plan, Reach::pairs, Reach::mesh};

std::vector<Neighbour> turned_of(const PlannedRun& run, std::string_view word) {
  std::vector<Neighbour> list = neighbours(run, Reach::plan);
  std::erase_if(list, [&](const Neighbour& n) { return n.dimension != word; });
  return list;
}

std::set<std::string> values_of(const std::vector<Neighbour>& list) {
  std::set<std::string> out;
  for (const Neighbour& n : list) out.insert(n.to);
  return out;
}

}  // namespace

TEST_CASE("every neighbour is another valid plan on the same devices, and no two are alike", "[unit][planner]") {
  for (const PlannedRun& run : runs()) {
    CAPTURE(describe(run.plan));
    for (const Reach reach : reaches) {
      std::map<std::string, std::string> seen{{key_of(run), "the plan itself"}};
      for (const Neighbour& n : neighbours(run, reach)) {
        const PlannedRun there = with_plan(run, n.plan);
        CAPTURE(describe(n), describe(n.plan));
        CHECK(broken(there) == "");
        CHECK(n.plan.mesh.size() == run.cluster->devices());
        CHECK(n.plan != run.plan);
        const auto [at, is_new] = seen.emplace(key_of(there), describe(n));
        CAPTURE(at->second);
        CHECK(is_new);
      }
    }
  }
}

TEST_CASE("neighbours come in the same order every time", "[unit][planner]") {
  for (const PlannedRun& run : runs()) {
    for (const Reach reach : reaches) {
      const std::vector<Neighbour> once = neighbours(run, reach), again = neighbours(run, reach);
      REQUIRE(once.size() == again.size());
      for (std::size_t i = 0; i < once.size(); ++i) {
        CHECK(describe(once[i]) == describe(again[i]));
        CHECK(once[i].plan == again[i].plan);
      }
    }
  }
}

// Where only one choice or switch was changed, changing it back is a neighbour of the neighbour.
TEST_CASE("a choice that is turned alone can be turned back", "[unit][planner]") {
  int turned = 0;
  for (const PlannedRun& run : runs()) {
    for (const Dimension& d : dimensions()) {
      if (d.kind != DimensionKind::choice && d.kind != DimensionKind::toggle) continue;
      for (const Neighbour& n : turned_of(run, d.word())) {
        PlannedRun there = with_plan(run, n.plan);
        complete(there.plan, there.model, there.workload);
        PlannedRun back = there;
        std::string reason;
        if (!put(back, d, d.get(run), reason) || back.plan != run.plan) continue;
        ++turned;
        const std::vector<Neighbour> from_there = neighbours(there, Reach::plan);
        CAPTURE(describe(run.plan), describe(n));
        CHECK(
            std::any_of(from_there.begin(), from_there.end(), [&](const Neighbour& m) { return m.plan == run.plan; }));
      }
    }
  }
  CHECK(turned > 20);
}

// The plan has 8 layers on 2 stages, 1F1B, microbatches of 2 and ZeRO on 2 data ranks; the values are those of the
// enumerations.
TEST_CASE("a choice takes every other value that is valid, and a number the ones near it", "[unit][planner]") {
  const PlannedRun run = run_of({{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}});
  const std::vector<Neighbour> recomputing = turned_of(run, "recompute");
  CHECK(values_of(recomputing) == std::set<std::string>{"selective", "full"});
  CHECK(describe(recomputing.back()) == "recompute none -> full");
  CHECK(values_of(turned_of(run, "zero_stage")) == std::set<std::string>{"1", "2", "3"});
  CHECK(values_of(turned_of(run, "sequence_parallel")) == std::set<std::string>{"on"});
  CHECK(values_of(turned_of(run, "overlap_gradients")) == std::set<std::string>{"off"});
  CHECK(values_of(turned_of(run, "microbatch_size")) == std::set<std::string>{"1", "4", "8"});
  const std::set<std::string> schedules = values_of(turned_of(run, "schedule"));
  for (const char* name :
       {"gpipe", "eager-1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "interleaved of 4 chunks"}) {
    CAPTURE(name, schedules);
    CHECK(schedules.contains(name));
  }
  // Choices that do not apply are not changed.
  for (const char* word : {"prefetch", "zigzag", "inner_ring", "save_gathered", "parameters_tier"}) {
    CHECK(turned_of(run, word).empty());
  }
  // The first and last stage get one layer more or less.
  CHECK(values_of(turned_of(run, "stage_layers")) == std::set<std::string>{"[3, 5]", "[5, 3]"});
  CHECK(values_of(turned_of(run, "order of mesh axes")).size() == 5);  // 3! - 1
}

TEST_CASE("what begins to apply with a decision is tried with its other values at once", "[unit][planner]") {
  const PlannedRun run = run_of({{Axis::data, 8}});
  const std::vector<Neighbour> all = neighbours(run, Reach::plan);
  const auto has = [&](bool reshard, std::uint32_t prefetch) {
    return std::any_of(all.begin(), all.end(), [&](const Neighbour& n) {
      return n.plan.zero_stage == 3 && n.plan.reshard_after_forward == reshard && n.plan.prefetch == prefetch;
    });
  };
  CHECK(has(true, 1));
  CHECK(has(false, 1));
  CHECK(has(true, 0));
}

// Chunks have the size of a layer's part. With other ranks that size is another one, and kept weights have no chunks.
TEST_CASE("a plan whose weights are in chunks has the neighbours of one without", "[unit][planner]") {
  PlannedRun run = run_of({{Axis::data, 8}});
  run.workload.gradient_dtype = DType::bf16;
  run.plan.zero_stage = 3;
  PlannedRun chunked = run;
  chunked.plan.parameter_chunk.reset();
  complete(chunked.plan, run.model, run.workload);
  REQUIRE(broken(chunked) == "");
  REQUIRE(chunked.plan.parameter_chunk > Bytes());
  for (const Reach reach : {Reach::plan, Reach::mesh}) {
    std::set<std::string> without, with;
    for (const Neighbour& n : neighbours(run, reach)) {
      if (n.dimension != "parameter_chunk") without.insert(describe(n));
    }
    for (const Neighbour& n : neighbours(chunked, reach)) with.insert(describe(n));
    for (const std::string& name : without) {
      CAPTURE(name);
      CHECK(with.contains(name));
    }
  }
}

TEST_CASE("eighths go to hosts whose memory is known, in pairs too", "[unit][planner]") {
  const auto offloading = [](const PlannedRun& run, Reach reach) {
    const std::vector<Neighbour> all = neighbours(run, reach);
    return std::count_if(all.begin(), all.end(), [](const Neighbour& n) { return offloads(n.plan); });
  };
  const PlannedRun unknown = run_of({{Axis::data, 8}}), known = with_hosts(unknown);
  for (const Reach reach : reaches) CHECK(offloading(unknown, reach) == 0);
  CHECK(values_of(turned_of(known, "offload_states")).size() == 8);
  CHECK(values_of(turned_of(known, "offload_activations")).size() == 8);
  CHECK(turned_of(known, "offload_parameters").size() == 8);  // with as many states
  CHECK(offloading(known, Reach::pairs) > 64);
}

TEST_CASE("a factor of each axis goes to each other axis that takes it", "[unit][planner]") {
  const PlannedRun run = run_of({{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}});
  std::set<std::vector<std::uint32_t>> sizes;
  for (const Neighbour& n : neighbours(run, Reach::mesh)) {
    if (n.plan.tensor != TensorAlgorithm::one_d) continue;
    const Mesh& m = n.plan.mesh;
    sizes.insert({m.size(Axis::pipeline), m.size(Axis::data), m.size(Axis::tensor), m.size(Axis::context)});
  }
  // There are two each: from pipeline, data or tensor to the two others and to context.
  const std::set<std::vector<std::uint32_t>> expected{{1, 4, 2, 1}, {1, 2, 4, 1}, {1, 2, 2, 2},
                                                      {4, 1, 2, 1}, {2, 1, 4, 1}, {2, 1, 2, 2},
                                                      {4, 2, 1, 1}, {2, 4, 1, 1}, {2, 2, 1, 2}};
  CHECK(std::includes(sizes.begin(), sizes.end(), expected.begin(), expected.end()));
}

TEST_CASE("neighbours stay within the limits, and are those of all that do", "[unit][planner]") {
  Diagnostics d;
  const SearchLimits limits =
      limits_of("zero=0,1,3 schedule=1f1b,interleaved recompute=none,full tensor=1,2,4 context=off offload=off", d);
  REQUIRE(d.empty());
  for (const PlannedRun& run : runs()) {
    for (const Reach reach : reaches) {
      std::vector<Plan> all, within;
      for (const Neighbour& n : neighbours(run, reach)) {
        if (limits.allow(with_plan(run, n.plan))) all.push_back(n.plan);
      }
      for (const Neighbour& n : neighbours(run, reach, limits)) {
        CHECK(limits.allow(with_plan(run, n.plan)));
        within.push_back(n.plan);
      }
      CAPTURE(describe(run.plan));
      CHECK(std::all_of(all.begin(), all.end(), [&](const Plan& plan) {
        return std::find(within.begin(), within.end(), plan) != within.end();
      }));
    }
  }
}

namespace {

// A row that is a view of another: the microbatch in doublings.
std::uint64_t doublings_of(const PlannedRun& run) {
  std::uint64_t n = 0;
  while ((std::uint64_t{2} << n) <= run.plan.microbatch_size) ++n;
  return n;
}
bool put_doublings(PlannedRun& run, std::uint64_t value, std::string&) {
  run.plan.microbatch_size = std::uint32_t{1} << value;
  return true;
}

}  // namespace

TEST_CASE("a row that is added to the table has its neighbours", "[unit][planner]") {
  std::vector<Dimension> table(dimensions().begin(), dimensions().end());
  std::erase_if(table, [](const Dimension& d) { return d.key == "plan.microbatch_size"; });
  const PlannedRun run = run_of({{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}});
  const std::size_t without = neighbours(run, Reach::plan, {}, table).size();
  table.push_back({.key = "plan.microbatch_doublings",
                   .label = "Doublings",
                   .help = "How often a microbatch of one sequence is doubled.",
                   .most = 4,
                   .get = doublings_of,
                   .put = put_doublings});
  std::vector<Neighbour> all = neighbours(run, Reach::plan, {}, table);
  // 16 sequences over data 2 leave 8 to a rank: microbatches of 1, 4 and 8 beside the 2 that it has.
  CHECK(all.size() == without + 3);
  std::erase_if(all, [](const Neighbour& n) { return n.dimension != "microbatch_doublings"; });
  CHECK(values_of(all) == std::set<std::string>{"0", "2", "3"});
}
