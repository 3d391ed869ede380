#include <catch2/catch.hpp>

#include "core/plan/head_shares.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/attention_kinds.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

bool tensor_shares(const PlannedRun& run) {
  return run.plan.tensor == TensorAlgorithm::one_d && run.plan.mesh.size(Axis::tensor) > run.model.kv_heads;
}

bool ulysses_shares(const PlannedRun& run) {
  const std::uint64_t ranks = run.plan.mesh.size(Axis::tensor) * run.plan.mesh.size(Axis::column);
  const std::uint64_t context = run.plan.mesh.size(Axis::context);
  return context > 1 && run.plan.context == ContextAlgorithm::ulysses &&
         held_kv_heads(run.model, ranks) / ranks < context;
}

RandomRunLimits limits_of(std::uint64_t seed) {
  RandomRunLimits limits;
  limits.shared_kv_heads = true;
  limits.cut_positions = seed % 2 == 0;
  limits.chunks = seed % 5 == 0;
  limits.predictions = seed % 9 == 1;
  limits.adapters = seed % 9 == 2;
  limits.few_bits = limits.adapters && seed % 2 == 0;
  if (seed % 4 == 1) limits.expert = 1 + seed / 4 % 2;
  if (seed % 7 == 0) limits.schedule = seed % 2 == 0 ? ScheduleName::chimera : ScheduleName::zb_v;
  limits.tensor = seed % 6 == 5 ? TensorAlgorithm::two_d : TensorAlgorithm::one_d;
  if (seed % 6 == 5) limits.cut_positions = true;
  // Where gradients jump, rounding to fewer digits may change them by much.
  if (seed % 3 == 0 || seed % 4 == 2) limits.precision = Precision::fp64;
  if (limits.adapters || limits.predictions) limits.mixture = false, limits.expert.reset();
  return limits;
}

/// Norms of each head, biases of projections, or one of the kinds of attention.
void add_kinds(std::uint64_t seed, PlannedRun& run) {
  ModelSpec& m = run.model;
  if (run.plan.tensor != TensorAlgorithm::one_d) return;
  if (seed % 3 == 0 && m.norm == Norm::rms_norm) m.query_key_norm = QueryKeyNorm::head;
  if (seed % 3 == 1 && !run.workload.adapters) m.biases.qkv = true;
  if (seed % 4 == 2) m.qkv_clip = 0.05;
  if (seed % 5 == 3) add_attention_kinds(seed, run);
}

/// Matrices whose adapters are not cut by heads that ranks share.
std::uint8_t adapted(std::uint64_t seed) {
  using M = AdaptedMatrix;
  return static_cast<std::uint8_t>(Adapters::bit(M::o) | Adapters::bit(seed % 4 < 2 ? M::up : M::down));
}

}  // namespace

// Ranks hold an even part of the weights and a copy of keys and values. The single device knows nothing of either.
TEST_CASE("Plans whose ranks share key-value heads compute what a single device computes",
          "[oracle][numerics][shared-heads]") {
  Coverage coverage(2);
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 900; ++seed) {
    PlannedRun run = random_run(30000 + seed, limits_of(seed));
    const bool tensor = tensor_shares(run), ulysses = ulysses_shares(run);
    if (!tensor && !ulysses) continue;
    add_kinds(seed, run);
    if (run.workload.adapters && tensor) run.workload.adapters->matrices = adapted(seed);
    Diagnostics diagnostics;
    check(run.plan, run.model, run.workload, nullptr, diagnostics);
    INFO(seed << " " << describe(run) << "\n" << render(diagnostics));
    if (!diagnostics.empty()) {
      ++refused;
      // Adapters and predictions are drawn without regard to the rest of the plan.
      REQUIRE((limits_of(seed).adapters || limits_of(seed).predictions));
      continue;
    }
    const Plan& p = run.plan;
    const ModelSpec& m = run.model;
    const Workload& w = run.workload;
    const bool stages = p.mesh.size(Axis::pipeline) > 1, several = p.mesh.size(Axis::data) > 1;
    const bool context = p.mesh.size(Axis::context) > 1;
    Coverage::Kinds kinds;
    kinds["tensor"] = tensor;
    kinds["Ulysses"] = ulysses;
    kinds["both"] = tensor && ulysses;
    kinds["Ulysses on a grid"] = ulysses && p.tensor != TensorAlgorithm::one_d;
    if (tensor) {
      kinds["several heads, each shared"] = m.kv_heads > 1;
      kinds["one head for all"] = m.kv_heads == 1;
      kinds["sequence parallel"] = p.sequence_parallel;
      kinds["ring"] = context && p.context == ContextAlgorithm::ring;
      kinds["all-gather"] = context && p.context == ContextAlgorithm::all_gather;
      kinds["ring self-attention"] = context && p.context == ContextAlgorithm::ring_self_attention;
      for (std::uint32_t zero = 1; zero <= 3; ++zero)
        kinds["ZeRO-" + std::to_string(zero)] = several && p.zero_stage == zero;
      kinds["chunks of parameters"] = several && p.parameter_chunk > Bytes();
      kinds["stages"] = stages;
      kinds["split backward"] = splits_backward(p);
      kinds["two pipes"] = stage_map(p).two_way();
      kinds["recompute full"] = p.recompute == Recompute::full;
      kinds["recompute selective"] = p.recompute == Recompute::selective;
      kinds["offloaded activations"] = p.offload_activations != 0U;
      kinds["offloaded states"] = p.offload_states != 0U;
      kinds["mixture"] = m.mixture.has_value();
      kinds["expert axis"] = p.mesh.size(Axis::expert) > 1;
      kinds["prediction modules"] = m.prediction_modules > 0;
      kinds["adapters"] = w.adapters.has_value();
      kinds["few bits"] = w.adapters && w.adapters->base != BaseWeights::unquantized;
      kinds["norms of each head"] = m.query_key_norm == QueryKeyNorm::head;
      kinds["biases"] = m.biases.qkv;
      kinds["clipped"] = m.qkv_clip > 0.0;
      kinds["ALiBi"] = m.positions == PositionEncoding::alibi;
      kinds["sinks"] = m.sinks;
      kinds["flash"] = *p.attention == AttentionKernel::flash;
      kinds["attention dropout"] = w.attention_dropout > 0.0;
      kinds["clipping"] = w.clip_norm.has_value();
      kinds["adafactor"] = w.optimizer.kind == OptimizerKind::adafactor;
      kinds["lamb"] = w.optimizer.kind == OptimizerKind::lamb;
      kinds["precision " + std::string(name_of(w.precision))] = true;
    }
    if (!coverage.takes(kinds)) continue;
    const NumericsResult result = check_run(run, seed, sweep_options(seed));
    CHECK(result.failures.empty());
  }
  coverage.check();
  CHECK(refused < 60);
}

}  // namespace orrery::test
