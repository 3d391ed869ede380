#include <catch2/catch.hpp>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

struct Moved {
  std::uint64_t count = 0, payload = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
};

/// Collectives of one kind over the tensor axis.
Moved over_tensor(const Program& program, std::uint32_t stage, Collective::Kind kind) {
  Moved m;
  for (const CollectiveTotal& c : totals_of(program, stage).collectives) {
    if (c.kind == kind && program[c.group] == Group{{Axis::tensor}, {}}) m.count += c.count, m.payload += c.payload;
  }
  return m;
}

}  // namespace

// Without sequence parallelism and experts nothing else is gathered or scattered over tensor ranks. Per layer and
// microbatch, with w bytes per element and a + 2 k heads of size d: w T (a + 2 k) d gathered in each forward pass, and
// as much scattered in each backward pass.
TEST_CASE("ranks that share key-value heads gather projections as the closed form says", "[property][totals]") {
  int runs = 0;
  test::RandomRunLimits limits;
  limits.shared_kv_heads = true;
  limits.mixture = false;
  limits.tensor = TensorAlgorithm::one_d;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    PlannedRun run = test::random_run(seed, limits);
    const ModelSpec& m = run.model;
    Plan& p = run.plan;
    if (p.mesh.size(Axis::tensor) <= m.kv_heads) continue;
    p.sequence_parallel = false;
    ++runs;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(m, run.workload, p);
    const auto found = verify(program);
    INFO(render(found));
    REQUIRE(found.empty());
    const std::uint64_t tokens =
        run.workload.sequence_length / p.mesh.size(Axis::context) * std::uint64_t{p.microbatch_size};
    const std::uint64_t bytes = size_of(weight_dtype(run.workload)) * tokens * (m.heads + 2 * m.kv_heads) * m.head_dim;
    for (std::uint32_t stage = 0; stage < program.classes.size(); ++stage) {
      CAPTURE(stage);
      const std::uint64_t count = program.microbatches / stage_map(p).pipes();
      const std::uint64_t layers = test::layers_on(p, stage) * count;
      const std::uint64_t again = p.recompute == Recompute::full ? test::recomputed_on(p, stage) * count : 0;
      CHECK(over_tensor(program, stage, Collective::Kind::all_gather) ==
            Moved{layers + again, (layers + again) * bytes});
      CHECK(over_tensor(program, stage, Collective::Kind::reduce_scatter) == Moved{layers, layers * bytes});
    }
  }
  CHECK(runs > 60);
}

// Every weight is on one tensor rank, so ranks together hold as many as the model has.
TEST_CASE("ranks that share key-value heads hold each weight of their projections once", "[property][totals]") {
  test::RandomRunLimits limits;
  limits.shared_kv_heads = true;
  limits.tensor = TensorAlgorithm::one_d;
  int runs = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    const ModelSpec& m = run.model;
    const std::uint64_t tensor = run.plan.mesh.size(Axis::tensor);
    if (tensor <= m.kv_heads) continue;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(m, run.workload, run.plan);
    for (const ParameterTable& table : program.parameter_tables) {
      for (const ParameterSlice& s : table.slices) {
        if (s.name != "attention.qkv.weight") continue;
        CHECK(local_count(s.shard, program.mesh) * tensor == m.hidden * (m.heads + 2 * m.kv_heads) * m.head_dim);
        ++runs;
      }
    }
  }
  CHECK(runs > 40);
}
