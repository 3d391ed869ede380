#include <catch2/catch.hpp>
#include <string>

#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/gathered_tokens.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

RandomRunLimits limits_of(std::uint64_t seed) {
  RandomRunLimits limits;
  limits.expert = seed % 3 == 0 ? 1 : seed % 5 == 0 ? 4 : 2;
  limits.max_ranks = seed % 5 == 0 ? 2 : 4;
  limits.tensor = TensorAlgorithm::one_d;
  limits.architectures = seed % 8 == 5;  // of those latent attention alone has experts
  return limits;
}

}  // namespace

// Every rank has the tokens of all, and the rows for its own experts among them. So sums over experts are sums over
// ranks, in results, gradients of tokens and gradients of gates.
TEST_CASE("Plans whose ranks gather all tokens compute what a single device computes", "[oracle][numerics][mixture]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 1200; ++seed) {
    PlannedRun run = random_run(60000 + seed, limits_of(seed));
    if (!gather_tokens(run, seed)) continue;
    const Plan& p = run.plan;
    const Workload& w = run.workload;
    const Mixture& m = *run.model.mixture;
    const bool learned = w.routing.kind == Routing::Kind::learned, tensor = p.mesh.size(Axis::tensor) > 1;
    Coverage::Kinds kinds;
    kinds["folded over " + std::string(name_of(p.expert_folding))] = true;
    kinds["tensor"] = tensor && !p.sequence_parallel;
    kinds["tensor, positions cut"] = tensor && p.sequence_parallel && !folds_tensor(p);
    kinds["context"] = p.mesh.size(Axis::context) > 1;
    kinds["zigzag"] = p.mesh.size(Axis::context) > 1 && p.zigzag;
    kinds["data ranks"] = p.mesh.size(Axis::data) > 1;
    kinds["stages"] = p.mesh.size(Axis::pipeline) > 1;
    kinds["4 expert ranks"] = p.mesh.size(Axis::expert) == 4;
    kinds["split backward"] = splits_backward(p);
    kinds["learned"] = learned;
    kinds["learned, tensor"] = learned && tensor;
    kinds["learned, folded"] = learned && p.expert_folding != ExpertFolding::none;
    kinds["learned, auxiliary loss"] = learned && w.routing.auxiliary_loss > 0.0;
    kinds["learned, capacity"] = learned && w.routing.capacity.has_value();
    for (const Routing::Kind kind : {Routing::Kind::balanced, Routing::Kind::skewed, Routing::Kind::recorded}) {
      kinds["routing " + std::to_string(static_cast<int>(kind))] = w.routing.kind == kind;
    }
    kinds["capacity"] = !learned && w.routing.capacity.has_value();
    kinds["shared experts"] = m.shared_ffn > 0;
    kinds["shared experts, tensor"] = m.shared_ffn > 0 && tensor;
    kinds["shared experts, folded"] = m.shared_ffn > 0 && p.expert_folding != ExpertFolding::none;
    kinds["groups of experts"] = m.groups > 1;
    kinds["latent attention"] = run.model.latent.has_value();
    kinds["recompute " + std::string(name_of(p.recompute))] = true;
    kinds["precision " + std::string(name_of(w.precision))] = true;
    kinds["ZeRO-3"] = p.zero_stage == 3 && p.mesh.size(Axis::data) > 1;
    kinds["clipping"] = w.clip_norm.has_value();
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

}  // namespace orrery::test
