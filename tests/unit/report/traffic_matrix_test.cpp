#include "report/traffic_matrix.hpp"

#include <catch2/catch.hpp>

#include "core/program/lower/lower.hpp"
#include "core/record/traffic.hpp"
#include "tests/support/folded_experts.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

double sum(const TrafficMatrix& m) {
  double out = 0.0;
  for (const auto& row : m.bytes) {
    for (const double b : row) out += b;
  }
  return out;
}

/// What all ranks send, op by op and rank by rank.
double sent_by_all(const Program& program) {
  double out = 0.0;
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    for_each_op(program, program.classes[class_of(program, Rank{r})].step, [&](const OpRun& run) {
      out += static_cast<double>(sent_bytes(program, *run.block, *run.op, Rank{r}));
    });
  }
  return out;
}

/// Ops of all ranks that are collectives or exchanges: each may end in the uneven last bytes of a ring.
double communications(const Program& program) {
  double out = 0.0;
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    for_each_op(program, program.classes[class_of(program, Rank{r})].step,
                [&](const OpRun& run) { out += std::holds_alternative<Collective>(run.op->action) ? 1.0 : 0.0; });
  }
  return out;
}

}  // namespace

// Chunks of a ring differ by one element (8 bytes at most), and a rank leaves out two of them at most. Reductions to a
// root are sent by all but one; the representative of a class may be that one.
TEST_CASE("the matrix sums to the bytes that all ranks send", "[property][report]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (PlannedRun folded = run; test::fold_experts(folded, seed)) run = std::move(folded);
    const Program program = lower(run.model, run.workload, run.plan);
    CAPTURE(seed, test::describe(run));
    const double all = sent_by_all(program);
    CHECK(sum(traffic_matrix(program)) == Approx(all).margin(16.0 * communications(program)));
    CHECK(sum(traffic_matrix(program, 2)) == Approx(sum(traffic_matrix(program))));
    CHECK(traffic_matrix(program, 2).bytes.size() <= 2);
    double groups = 0.0;
    for (const GroupTraffic& g : group_traffic(program)) groups += g.bytes;
    CHECK(groups == Approx(sum(traffic_matrix(program))));
  }
}

TEST_CASE("no rank sends to itself, and a lone rank sends nothing", "[unit][report]") {
  test::RandomRunLimits lone;
  lone.max_ranks = 1;
  const PlannedRun one = test::random_run(3, lone);
  CHECK(sum(traffic_matrix(lower(one.model, one.workload, one.plan))) == 0.0);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const PlannedRun run = test::random_run(seed);
    const TrafficMatrix m = traffic_matrix(lower(run.model, run.workload, run.plan));
    REQUIRE(m.ranks_in_cell == 1);
    for (std::size_t r = 0; r < m.bytes.size(); ++r) CHECK(m.bytes[r][r] == 0.0);
  }
}
