#include "sim/bound/best_place.hpp"

#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "tests/support/software.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/sim/cost/clusters.hpp"

using namespace orrery;

// What the search leaves families of plans out by, whatever software makes of collectives along the tensor axis.
TEST_CASE("where it lies best a collective costs at most what it does on any mesh", "[property][bound]") {
  const ClusterSpec cluster = round_cluster(2, 4);
  const ModelSpec m = test::tiny_gpt({.layers = 2, .hidden = 64, .heads = 8, .vocabulary = 64, .positions = 16});
  Workload w;
  w.global_batch = 8;
  w.sequence_length = 16;
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Calibration c;
    c.software = test::random_software(seed);
    for (const bool outermost : {true, false}) {
      Plan plan;
      plan.mesh.axes = {{Axis::data, 2}, {Axis::tensor, 4}};
      if (outermost) std::swap(plan.mesh.axes[0], plan.mesh.axes[1]);
      plan.microbatch_size = 1;
      plan.stage_layers = std::vector<std::uint32_t>{2};
      plan.attention = AttentionKernel::flash;
      plan.overlap_gradients = true;
      plan.gradient_bucket = gigabyte;
      plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
      const Program program = lower(m, w, plan);
      const CostModel costs(cluster, c, plan.mesh);
      BestPlace best(costs);
      for (const Block& block : program.blocks) {
        for (const Op& op : block.ops) {
          if (!std::holds_alternative<Collective>(op.action)) continue;
          const Picoseconds here = picoseconds(costs.collective(program, block, op));
          const auto& sent = std::get<Collective>(op.action);
          const Group& group = program[sent.group];
          const Picoseconds there =
              best.price({sent.kind, Bytes::of(static_cast<double>(payload_bytes(program, block, op))), group,
                          sent.width, group_size(group, program.mesh)});
          CHECK(there <= here);
          if (!outermost && group.axes.axis[0] == Axis::tensor)
            CHECK(there == here);  // inside a node: no place is better
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 200);
}
