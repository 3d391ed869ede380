#include "planner/space.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "core/base/random.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "planner/resolve.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

ModelSpec model(std::uint64_t layers, std::uint64_t kv_heads) {
  return test::tiny_gpt(
      {.layers = layers, .hidden = 64, .heads = 8, .kv_heads = kv_heads, .vocabulary = 1000, .positions = 64});
}

Workload workload(std::uint64_t batch, double attention_dropout = 0.0) {
  Workload w;
  w.global_batch = batch;
  w.sequence_length = 32;
  w.attention_dropout = attention_dropout;
  return w;
}

ClusterSpec cluster(std::uint32_t nodes, std::uint32_t per_node) {
  ClusterSpec c;
  c.name = "test";
  c.nodes = nodes;
  c.devices_per_node = per_node;
  c.device.peak[Precision::bf16] = 100.0 * teraflop_per_second;
  c.levels = {{"inner", per_node, 300.0 * gigabyte_per_second, microsecond},
              {"outer", nodes, 25.0 * gigabyte_per_second, 5.0 * microsecond}};
  return c;
}

using Split = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("uneven stages follow the stated family", "[unit][planner]") {
  // One stage takes all.
  CHECK(uneven_stages(7, 1, 3) == std::vector<Split>{{7}});
  // Two stages, 5 layers: q = 2, r = 1, reach 1: first from 1 to 4.
  CHECK(uneven_stages(5, 2, 1) == std::vector<Split>{{1, 4}, {2, 3}, {3, 2}, {4, 1}});
  // No reach, even: the one balanced split.
  CHECK(uneven_stages(12, 4, 0) == std::vector<Split>{{3, 3, 3, 3}});
  // 10 over 4: q = 2, r = 2, no reach: ends of 2 or 3, the middle shares the rest.
  CHECK(uneven_stages(10, 4, 0) == std::vector<Split>{{2, 3, 3, 2}, {2, 3, 2, 3}, {3, 3, 2, 2}, {3, 2, 2, 3}});
  // As many stages as layers: one each.
  CHECK(uneven_stages(6, 6, 2) == std::vector<Split>{{1, 1, 1, 1, 1, 1}});
}

TEST_CASE("every uneven split holds all layers and no empty stage", "[unit][planner]") {
  for (std::uint64_t layers = 1; layers <= 30; ++layers) {
    for (std::uint32_t stages = 1; stages <= layers; ++stages) {
      for (std::uint32_t reach = 0; reach <= 4; ++reach) {
        const auto splits = uneven_stages(layers, stages, reach);
        CAPTURE(layers, stages, reach);
        REQUIRE_FALSE(splits.empty());
        CHECK(std::set<Split>(splits.begin(), splits.end()).size() == splits.size());
        for (const Split& split : splits) {
          CHECK(split.size() == stages);
          CHECK(std::accumulate(split.begin(), split.end(), std::uint64_t{0}) == layers);
          CHECK(*std::min_element(split.begin(), split.end()) >= 1);
        }
      }
    }
  }
}

TEST_CASE("every plan of the space is valid and stands at its own number", "[unit][planner]") {
  const auto run = GENERATE(0, 1, 2, 3, 4);
  const ModelSpec m = run == 0 ? model(3, 8) : run == 1 ? model(6, 2) : model(5, 4);
  const Workload w = run == 3 ? workload(12, 0.1) : workload(12);
  const ClusterSpec c = run == 0 ? cluster(1, 1) : run == 1 ? cluster(2, 4) : run == 2 ? cluster(3, 2) : cluster(2, 2);
  const Space space = make_space(m, w, c, run == 4 ? SpaceLimits{} : basic_limits());
  CAPTURE(run, space.count);
  REQUIRE(space.count > 0);
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < space.count; ++i) {
    const Plan plan = plan_at(space, i);
    Diagnostics wrong;
    check(plan, m, w, &c, wrong);
    if (!wrong.empty()) FAIL(render(wrong));
    REQUIRE(is_resolved(plan));
    REQUIRE(number_of(space, plan) == i);
    seen.insert(describe(plan));
  }
  CHECK(seen.size() == space.count);  // no plan stands twice
}

TEST_CASE("a sample of a space with every dimension is valid and stands at its own number", "[unit][planner]") {
  ModelSpec m =
      test::tiny_llama({.layers = 12, .hidden = 64, .heads = 16, .kv_heads = 8, .ffn = 128, .vocabulary = 1000});
  Workload w = workload(96);
  w.gradient_dtype = weight_dtype(w);
  const ClusterSpec c = cluster(8, 8);
  // With and without what most searches do not need.
  SpaceLimits limits;
  limits.grid_context = limits.zero_chunks = limits.parameter_chunks = limits.zero_split = GENERATE(false, true);
  const Space space = make_space(m, w, c, limits);
  CAPTURE(space.count, limits.zero_chunks);
  REQUIRE(space.count > 1'000'000);
  int cut_grids = 0, sharded_chunks = 0, parameter_chunks = 0, sharded_splits = 0;
  std::set<TensorAlgorithm> tensor;
  std::set<ScheduleName> schedules;
  std::set<ContextAlgorithm> context;
  std::set<std::uint32_t> zero, inner_rings;
  std::set<std::pair<TensorAlgorithm, bool>> splits;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::uint64_t number = random_bits(7, 7, i) % space.count;
    const Plan plan = plan_at(space, number);
    Diagnostics wrong;
    check(plan, m, w, &c, wrong);
    if (!wrong.empty()) FAIL(describe(plan) + render(wrong));
    REQUIRE(number_of(space, plan) == number);
    tensor.insert(plan.tensor);
    schedules.insert(plan.schedule);
    if (plan.mesh.size(Axis::context) > 1) context.insert(plan.context);
    inner_rings.insert(plan.inner_ring);
    splits.insert({plan.tensor, splits_backward(plan)});
    zero.insert(plan.zero_stage);
    cut_grids += plan.tensor != TensorAlgorithm::one_d && plan.mesh.size(Axis::context) > 1 ? 1 : 0;
    const bool split = splits_backward(plan) || rules_of(plan.schedule).placement == StagePlacement::two_way;
    (split ? sharded_splits : sharded_chunks) += (split || plan.chunks > 1) && plan.zero_stage >= 2 ? 1 : 0;
    if (plan.parameter_chunk == Bytes()) continue;
    ++parameter_chunks;
    // The chunk of the rule, and no other.
    Plan open = plan;
    open.parameter_chunk.reset();
    REQUIRE(resolve(open, m, w, c, {}).plan == plan);
    Plan larger = plan;
    larger.parameter_chunk = 2.0 * *plan.parameter_chunk;
    REQUIRE(number_of(space, larger) == space.count);
  }
  CHECK((cut_grids > 100) == limits.grid_context);
  CHECK((sharded_chunks > 100) == limits.zero_chunks);
  CHECK((parameter_chunks > 100) == limits.parameter_chunks);
  CHECK((describe(space).find("parameter chunks  none, one for each layer") != std::string::npos) ==
        limits.parameter_chunks);
  CHECK((sharded_splits > 100) == limits.zero_split);
  CHECK(tensor.size() == 4);
  CHECK(schedules.size() == 13);
  CHECK(context.size() == 4);
  CHECK(inner_rings == std::set<std::uint32_t>{0, 2, 4, 8});
  CHECK(splits.size() == 8);
  CHECK(zero.size() == 4);
}

TEST_CASE("eighths of recomputed layers beside activations in host memory stand once each", "[unit][planner]") {
  const ModelSpec m = model(10, 4);
  const Workload w = workload(4);
  ClusterSpec c = cluster(1, 2);
  c.host_memory = gibibyte;
  c.host_link = c.host_bandwidth = 20.0 * gigabyte_per_second;
  Diagnostics wrong;
  const char* small = "tensor=1d schedule=1f1b,interleaved zero=0 context=off replica=off chunks=2 offload_beside=on";
  SpaceLimits limits = limits_of(small, wrong);
  REQUIRE(wrong.empty());
  const Space space = make_space(m, w, c, limits);
  int listed = 0, repeated = 0;
  for (std::uint64_t i = 0; i < space.count; ++i) {
    const Plan plan = plan_at(space, i);
    check(plan, m, w, &c, wrong);
    if (!wrong.empty()) FAIL(describe(plan) + render(wrong));
    const std::uint64_t number = number_of(space, plan);
    if (!plan.recompute_layers || has_open_counts(plan)) {
      REQUIRE(number == i);
      continue;
    }
    REQUIRE(plan.offload_activations == 1U);
    // The plan with the fewest eighths that make these counts stands for the others.
    REQUIRE(number <= i);
    REQUIRE(plan_at(space, number) == plan);
    (number == i ? listed : repeated) += 1;
  }
  CHECK(listed > 1000);
  CHECK(repeated > 1000);
  CHECK_FALSE(repeats_other_counts({16, 16}, 3));
  CHECK(repeats_other_counts({4, 4}, 2));
  CHECK_FALSE(repeats_other_counts({4, 5}, 2));
  CHECK(repeats_other_counts({1, 7}, 7));  // all of them
  // They go with counts.
  limits.recompute_layers = false;
  const Space without = make_space(m, w, c, limits);
  for (std::uint64_t i = 0; i < without.count; i += 5) REQUIRE_FALSE(plan_at(without, i).recompute_layers);
}

TEST_CASE("limits leave out what they say", "[unit][planner]") {
  Diagnostics wrong;
  const SpaceLimits limits =
      limits_of("tensor=1d zero=0,3 schedule=1f1b,zb-h1 chunks=2 replica=off context=off recompute_layers=off", wrong);
  REQUIRE(wrong.empty());
  const ModelSpec m = model(6, 8);
  const Space space = make_space(m, workload(12), cluster(2, 4), limits);
  REQUIRE(space.count > 0);
  for (std::uint64_t i = 0; i < space.count; i += 7) {
    const Plan plan = plan_at(space, i);
    CHECK(plan.tensor == TensorAlgorithm::one_d);
    CHECK((plan.zero_stage == 0 || plan.zero_stage == 3));
    CHECK((plan.schedule == ScheduleName::one_f_one_b || plan.schedule == ScheduleName::zb_h1));
    CHECK(plan.mesh.size(Axis::context) * plan.mesh.size(Axis::replica) == 1);
    CHECK_FALSE(plan.recompute_layers);
  }
  const SpaceLimits rings = limits_of("context=ring inner_ring=off", wrong);
  REQUIRE(wrong.empty());
  const Space ring = make_space(m, workload(4), cluster(2, 4), rings);
  int cut = 0;
  for (std::uint64_t i = 0; i < ring.count; i += 7) {
    const Plan plan = plan_at(ring, i);
    if (plan.mesh.size(Axis::context) == 1) continue;
    CHECK(plan.context == ContextAlgorithm::ring);
    CHECK(plan.inner_ring == 0);
    ++cut;
  }
  CHECK(cut > 100);
  static_cast<void>(limits_of("tensor=4d", wrong));
  CHECK(render(wrong) ==
        "error: --only does not know \"tensor=4d\" [cli.only]\n"
        "  Known: sizes as in tensor=8, pipeline=2, dp=4, cp=1, ep=8, microbatch_size=1; tensor=1d,2d,2.5d,3d;\n"
        "  schedule=1f1b,... of those in the space; zero=0,1,2,3; chunks=N, at most N;\n"
        "  replica=off; context=off or all_gather,ulysses,ring,ring_self_attention; inner_ring=off; expert=off;\n"
        "  recompute_layers=off; offload=off; disks=off; offload_beside=off; grid_context=off; zero_chunks=off;\n"
        "  parameter_chunks=off; zero_split=off.  Separate settings by spaces.\n");
}

TEST_CASE("chunks of parameters are in the space where check accepts them", "[unit][planner]") {
  const ModelSpec m = model(6, 8);
  Workload w = workload(12);
  const auto chunked = [&](const char* text) {
    Diagnostics wrong;
    const Space space = make_space(m, w, cluster(2, 2), limits_of(text, wrong));
    REQUIRE(wrong.empty());
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < space.count; ++i) {
      const Plan plan = plan_at(space, i);
      if (plan.parameter_chunk == Bytes()) continue;
      ++count;
      CHECK((plan.zero_stage == 3 && plan.reshard_after_forward && !splits_backward(plan)));
    }
    return std::pair(count, space.count);
  };
  const char* all = "tensor=1d schedule=1f1b,zb-h1 context=off replica=off recompute_layers=off";
  // Gradients in fp32 beside weights in bf16.
  const auto [none, fewer] = chunked(all);
  CHECK(none == 0);
  w.gradient_dtype = weight_dtype(w);
  const auto [some, more] = chunked(all);
  CHECK(some > 0);
  CHECK(more == fewer + some);
  CHECK(chunked("tensor=1d schedule=1f1b,zb-h1 context=off replica=off recompute_layers=off parameter_chunks=off") ==
        std::pair(none, fewer));
  CHECK(chunked("tensor=1d zero=0,1,2 context=off replica=off recompute_layers=off").first == 0);
}

// Against the rules of check(): every mesh, microbatch size and choice that is
// valid is in the space, or is a form of a listed plan that makes no difference.
TEST_CASE("the space leaves out no valid plan", "[unit][planner]") {
  const ModelSpec m = model(4, 2);
  const Workload w = workload(12);
  const ClusterSpec c = cluster(2, 3);
  const Space space = make_space(m, w, c, basic_limits());
  const Axis axes[] = {Axis::pipeline, Axis::data, Axis::tensor};
  std::uint64_t valid = 0;
  for (std::uint32_t p = 1; p <= 6; ++p) {
    for (std::uint32_t d = 1; d <= 6; ++d) {
      if (6 % (p * d) != 0) continue;
      const std::uint32_t sizes[] = {p, d, 6 / (p * d)};
      std::vector<int> order = {0, 1, 2};
      do {
        for (std::uint32_t b = 1; b <= 12; ++b) {
          for (std::uint32_t choice = 0; choice < 96; ++choice) {
            Plan plan;
            for (const int a : order) plan.mesh.axes.push_back({axes[a], sizes[a]});
            plan.microbatch_size = b;
            plan.schedule = choice % 2 == 0 ? ScheduleName::gpipe : ScheduleName::one_f_one_b;
            plan.sequence_parallel = choice / 2 % 2 == 1;
            plan.zero_stage = choice / 4 % 2;
            plan.overlap_gradients = choice / 8 % 2 == 1;
            plan.attention = choice / 16 % 2 == 1 ? AttentionKernel::flash : AttentionKernel::unfused;
            plan.recompute = static_cast<Recompute>(choice / 32);
            if (p <= 4) plan.stage_layers = uneven_stages(4, p, 0).front();
            plan.gradient_bucket = mebibyte;
            Diagnostics wrong;
            check(plan, m, w, &c, wrong);
            if (!wrong.empty() || p > 4) continue;
            ++valid;
            CAPTURE(describe(plan));
            CHECK(number_of(space, plan) < space.count);
          }
        }
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
  CHECK(valid > 1000);
}

TEST_CASE("orders of axes that lie alike on the network are listed once", "[unit][planner]") {
  // 4 nodes of 8: tensor 8 innermost fills a node, so pipeline and data are both
  // outside and their order makes no difference; tensor in the middle or outside does.
  const ModelSpec m = model(4, 8);
  const Space space = make_space(m, workload(4), cluster(4, 8), basic_limits());
  std::set<std::vector<Axis>> orders;
  for (const ShapeSpace& shape : space.shapes) {
    if (shape.sizes[index(Axis::tensor)] != 8 || shape.sizes[index(Axis::pipeline)] != 2) continue;
    for (const Mesh& mesh : orders_of(space, shape)) {
      std::vector<Axis> order;
      for (const MeshAxis& a : mesh.axes) order.push_back(a.axis);
      orders.insert(order);
    }
  }
  using A = Axis;
  CHECK(orders == std::set<std::vector<Axis>>{{A::pipeline, A::data, A::tensor},
                                              {A::pipeline, A::tensor, A::data},
                                              {A::data, A::tensor, A::pipeline},
                                              {A::tensor, A::pipeline, A::data}});
}

TEST_CASE("a count of meshes that can be worked out by hand", "[unit][planner]") {
  // 2 devices, kv_heads 8, 3 layers, batch 2, no dropout; table 1000 x 64 over a
  // layer of 49984 elements: reach 2.
  //   data 2      1 microbatch size, 1 split, zero x overlap 4, kernels 5: 20
  //   pipeline 2  2 sizes, splits of 3 over 2 (1+2, 2+1): 2, gpipe and 1f1b 2, kernels 5: 40
  //   tensor 2    2 sizes, 1 split, sequence parallel 2, kernels 5: 20
  const Space space = make_space(model(3, 8), workload(2), cluster(1, 2), basic_limits());
  CHECK(stage_reach(model(3, 8)) == 2);
  REQUIRE(space.shapes.size() == 3);
  CHECK(space.count == 80);
  const std::string text = describe(space);
  CHECK(text.find("80 plans of 3 shapes") != std::string::npos);
  CHECK(text.find("tensor 2, 1d: plans 60 to 79") != std::string::npos);
}
