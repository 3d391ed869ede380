// States lowered for one order of axes, priced on another: as those that are lowered for it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "sim/bound/state_costs.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/sim/cost/clusters.hpp"

using namespace orrery;

namespace {

bool same(const ModuleState& a, const ModuleState& b) {
  return a.persistent_bytes == b.persistent_bytes && a.state_bytes == b.state_bytes &&
         a.weight_bytes == b.weight_bytes && a.whole_weight_bytes == b.whole_weight_bytes &&
         a.whole_gradient_bytes == b.whole_gradient_bytes && a.clear == b.clear && a.clear_copy == b.clear_copy &&
         a.gather_weights == b.gather_weights && a.norm == b.norm && a.update == b.update;
}

bool same(std::span<const LanePrice> a, std::span<const LanePrice> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const LanePrice& x, const LanePrice& y) { return x.lane == y.lane && x.price == y.price; });
}

bool same(const BucketCosts& a, const BucketCosts& b) {
  return a.head == b.head && a.embedding == b.embedding && a.layers == b.layers && a.dense == b.dense &&
         same(a.gather, b.gather) && same(a.reduce, b.reduce) && same(a.combine, b.combine);
}

}  // namespace

TEST_CASE("states lowered for one order of axes cost on another what those lowered for it do", "[property][bound]") {
  ClusterSpec cluster = round_cluster(4, 4);
  cluster.host_memory = 64.0 * gibibyte;
  cluster.host_bandwidth = 100.0 * gigabyte_per_second;
  const ModelSpec m = test::tiny_gpt({.layers = 8, .hidden = 64, .heads = 8, .vocabulary = 64, .positions = 16});
  Workload w;
  w.global_batch = 8;
  w.sequence_length = 16;
  w.clip_norm = 1.0;
  int differ = 0;
  for (const std::uint32_t zero : {0U, 1U, 2U, 3U}) {
    for (const bool sequence : {false, true}) {
      for (const double bucket : {1.0, 1e5, 1e9}) {
        Plan plan;
        plan.mesh.axes = {{Axis::pipeline, 2}, {Axis::data, 4}, {Axis::tensor, 2}};
        plan.stage_layers = std::vector<std::uint32_t>{4, 4};
        plan.microbatch_size = 1;
        plan.zero_stage = zero;
        plan.sequence_parallel = sequence;
        plan.attention = AttentionKernel::flash;
        plan.overlap_gradients = true;
        plan.gradient_bucket = Bytes::of(bucket);
        plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
        const CostModel here(cluster, {}, plan.mesh);
        const auto lowered = std::make_shared<LoweredStates>(m, w, plan, here);
        std::sort(plan.mesh.axes.begin(), plan.mesh.axes.end(),
                  [](const MeshAxis& a, const MeshAxis& b) { return a.axis < b.axis; });
        do {
          CAPTURE(zero, sequence, bucket, plan.mesh.axes.front().axis, plan.mesh.axes.back().axis);
          const CostModel costs(cluster, {}, plan.mesh);
          StateCosts shared(lowered, costs), own(m, w, plan, costs), other(lowered, here);
          CHECK(same(shared.embedding(), own.embedding()));
          CHECK(same(shared.layer(), own.layer()));
          CHECK(same(shared.head(), own.head()));
          CHECK(shared.scalar_bytes() == own.scalar_bytes());
          CHECK(shared.zero() == own.zero());
          CHECK(shared.factor() == own.factor());
          CHECK(shared.head_apart() == own.head_apart());
          CHECK(shared.norm_reduction() == own.norm_reduction());
          CHECK(shared.tied_reduction() == own.tied_reduction());
          for (const bool first : {true, false}) {
            StageShare stage;
            stage.layers = {0, 0, 0, 4};
            stage.first = first;
            stage.last = !first;
            // Whether the lowering is at hand or made again.
            if (first) lowered->rest();
            const auto &a = shared.buckets(stage, costs), &b = own.buckets(stage, costs);
            CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end(),
                             [](const BucketCosts& x, const BucketCosts& y) { return same(x, y); }));
            const auto& c = other.buckets(stage, here);
            differ += std::equal(a.begin(), a.end(), c.begin(), c.end(),
                                 [](const BucketCosts& x, const BucketCosts& y) { return same(x, y); })
                          ? 0
                          : 1;
          }
          const HostUpdate &a = shared.host_updates(costs).layer, &b = own.host_updates(costs).layer;
          CHECK(a.down == b.down);
          CHECK(a.update == b.update);
          CHECK(a.up == b.up);
          CHECK(a.gather == b.gather);
        } while (std::next_permutation(plan.mesh.axes.begin(), plan.mesh.axes.end(),
                                       [](const MeshAxis& a, const MeshAxis& b) { return a.axis < b.axis; }));
      }
    }
  }
  CHECK(differ > 50);  // orders that do cost something else are among them
}
