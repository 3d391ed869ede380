#include <catch2/catch.hpp>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "tests/support/gathered_tokens.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/recomputed_experts.hpp"

namespace orrery {
namespace {

test::RandomRunLimits limits_of(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.max_ranks = 8;
  limits.expert = seed % 2 == 0 ? 2 : 4;
  limits.tensor = TensorAlgorithm::one_d;
  if (seed % 2 == 0) limits.zero_stage = 0;
  return limits;
}

}  // namespace

// A layer gathers tokens and their gates from the ranks that share its experts, and scatters sums over them; backward
// it gathers gradients of the sums, and scatters those of tokens and gates. Whatever the routing, a rank sends its T
// tokens to each of the e - 1 others, and as much of each sum. Without ZeRO nothing else is gathered over these ranks.
TEST_CASE("Gathered tokens' messages are those of the closed form", "[property][mixture]") {
  int compared = 0, learned = 0, recomputed = 0, folded = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    PlannedRun run = test::random_run(70000 + seed, limits_of(seed));
    run.model.prediction_modules = 0;
    if (!test::gather_tokens(run, seed)) continue;
    CAPTURE(seed, test::describe(run));
    const Program p = lower(run.model, run.workload, run.plan);
    const Mixture& m = *run.model.mixture;
    const Workload& w = run.workload;
    const AxisList axes = expert_axes(run.plan);
    const std::uint64_t e = size(run.plan.mesh, axes);
    const std::uint64_t tokens = run.plan.microbatch_size * w.sequence_length / run.plan.mesh.size(Axis::context);
    const std::uint64_t rows = tokens * run.model.hidden * size_of(weight_dtype(w));
    const std::uint64_t gates = tokens * m.per_token * size_of(wide_dtype(w));
    const bool scores = w.routing.kind == Routing::Kind::learned;
    const std::uint64_t numbers = scores ? tokens * m.per_token * 4 : 0;
    for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
      const std::uint64_t layers = test::mixtures_on(run, c) * p.microbatches / stage_map(run.plan).pipes();
      const std::uint64_t again = test::recomputed_layers(p, c);
      std::uint64_t gathered = 0, scattered = 0, exchanged = 0;
      for (const CollectiveTotal& t : totals_of(p, c).collectives) {
        if (p[t.group].axes != axes) continue;
        if (t.kind == Collective::Kind::all_gather) gathered += t.sent;
        if (t.kind == Collective::Kind::reduce_scatter) scattered += t.sent;
        if (t.kind == Collective::Kind::all_to_all) exchanged += t.sent;
      }
      CHECK(exchanged == (run.plan.context == ContextAlgorithm::ulysses ? exchanged : 0));
      if (run.plan.zero_stage > 0 || run.plan.expert_folding != ExpertFolding::none) continue;
      CHECK(gathered == (e - 1) * (layers * (2 * rows + gates + numbers) + again * (rows + gates + numbers)));
      CHECK(scattered == (e - 1) * (layers * (2 * rows + gates) + again * rows));
      compared += layers > 0 ? 1 : 0, learned += scores ? 1 : 0, recomputed += again > 0 ? 1 : 0;
    }
    folded += run.plan.expert_folding != ExpertFolding::none ? 1 : 0;
    if (seed % 3 != 0 && seed % 5 != 0) continue;
    for (const Violation& v : verify(p)) {
      CAPTURE(v.code, v.message);
      CHECK(v.code.empty());
    }
    Diagnostics none;
    CHECK(read_program(write_program(p), "memory", none) == p);
  }
  CHECK(compared > 30);
  CHECK(learned > 5);
  CHECK(recomputed > 5);
  CHECK(folded > 10);
}

}  // namespace orrery
