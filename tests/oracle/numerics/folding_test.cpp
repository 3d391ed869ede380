#include <catch2/catch.hpp>
#include <string>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/folded_experts.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

RandomRunLimits limits_of(std::uint64_t seed) {
  RandomRunLimits limits;
  limits.expert = seed % 3 == 0 ? 2 : 1;
  limits.max_ranks = seed % 3 == 0 ? 4 : 8;
  limits.tensor = TensorAlgorithm::one_d;
  limits.architectures = seed % 8 == 5;  // of those latent attention alone has experts
  limits.chunks = seed % 8 == 6;
  return limits;
}

}  // namespace

// Each rank of a folded axis holds other experts and sends its own positions to them. So nothing of experts is summed
// over that axis, in gradients, norms and statistics, and nothing of them is a copy there.
TEST_CASE("Plans with folded experts compute what a single device computes", "[oracle][numerics][mixture]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    PlannedRun run = random_run(40000 + seed, limits_of(seed));
    if (!fold_experts(run, seed / 3)) continue;
    const Plan& p = run.plan;
    const Workload& w = run.workload;
    const Mixture& m = *run.model.mixture;
    const AxisList cut = expert_axes(p);
    const bool tensor = contains(cut, Axis::tensor), context = contains(cut, Axis::context);
    const bool several = p.mesh.size(Axis::data) > 1, shards = !shard_axes_of(p).empty() && p.zero_stage > 0;
    Coverage::Kinds kinds;
    kinds["tensor"] = tensor && !context;
    kinds["context"] = context && !tensor;
    kinds["context and tensor"] = context && tensor;
    kinds["expert axis and tensor"] = tensor && p.mesh.size(Axis::expert) > 1;
    kinds["expert axis and context"] = context && p.mesh.size(Axis::expert) > 1;
    kinds["context folded, tensor ranks cut experts"] = context && !tensor && p.mesh.size(Axis::tensor) > 1;
    kinds["tensor folded, context ranks share experts"] = tensor && !context && p.mesh.size(Axis::context) > 1;
    kinds["context and zigzag"] = context && p.zigzag;
    kinds["data ranks"] = several;
    kinds["replicas"] = p.mesh.size(Axis::replica) > 1;
    kinds["stages"] = p.mesh.size(Axis::pipeline) > 1;
    kinds["split backward"] = splits_backward(p);
    for (std::uint32_t zero = 0; zero <= 3; ++zero) {
      kinds["ZeRO-" + std::to_string(zero)] = several && p.zero_stage == zero;
    }
    kinds["ZeRO over the folded axis"] = context && shards;
    kinds["ZeRO-3 in chunks"] = several && p.parameter_chunk > Bytes();
    for (const Routing::Kind kind : {Routing::Kind::balanced, Routing::Kind::skewed, Routing::Kind::recorded}) {
      kinds["routing " + std::to_string(static_cast<int>(kind))] = w.routing.kind == kind;
    }
    const bool learned = w.routing.kind == Routing::Kind::learned;
    kinds["learned, tensor"] = learned && tensor;
    kinds["learned, context"] = learned && context;
    kinds["learned, auxiliary loss"] = learned && tensor && w.routing.auxiliary_loss > 0.0;
    kinds["capacity"] = w.routing.capacity.has_value();
    kinds["auxiliary loss"] = w.routing.auxiliary_loss > 0.0;
    kinds["shared experts"] = tensor && m.shared_ffn > 0;
    const bool side_by_side = sweep_options(seed).concurrent_lanes && p.mesh.size(Axis::pipeline) > 1;
    kinds["shared experts, stages, lanes side by side"] = tensor && m.shared_ffn > 0 && side_by_side;
    kinds["dense layers"] = mixes_kinds(run.model);
    kinds["groups of experts"] = m.groups > 1;
    kinds["latent attention"] = run.model.latent.has_value();
    kinds["recompute full"] = p.recompute == Recompute::full;
    kinds["recompute selective"] = p.recompute == Recompute::selective;
    kinds["clipping, tensor"] = tensor && w.clip_norm.has_value();
    kinds["clipping, context"] = context && w.clip_norm.has_value();
    kinds["clipping, context, no shards"] = context && w.clip_norm.has_value() && !shards;
    for (const OptimizerKind kind : {OptimizerKind::lamb, OptimizerKind::lars, OptimizerKind::adafactor}) {
      kinds["tensor, " + std::string(name_of(kind))] = tensor && w.optimizer.kind == kind;
      kinds["context, " + std::string(name_of(kind))] = context && w.optimizer.kind == kind;
    }
    kinds["offloaded states"] = p.offload_states != 0U;
    kinds["offloaded parameters"] = p.offload_parameters != 0U;
    kinds["offloaded activations"] = p.offload_activations != 0U;
    kinds["precision " + std::string(name_of(w.precision))] = true;
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

}  // namespace orrery::test
