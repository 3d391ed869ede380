#include <catch2/catch.hpp>

#include "core/plan/schedule_rules.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/attention_kinds.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

/// What a run has of the kinds of attention, under each way to cut it.
Coverage::Kinds kinds_of(const PlannedRun& run) {
  const ModelSpec& m = run.model;
  const Plan& p = run.plan;
  const bool local = m.local && m.local->size < run.workload.sequence_length;
  const bool mixed = local && !m.local->global.empty();
  const bool context = p.mesh.size(Axis::context) > 1;
  const bool flash = p.attention == AttentionKernel::flash;
  Coverage::Kinds kinds{
      {"window", local && m.local->span == LocalAttention::Span::window},
      {"chunks", local && m.local->span == LocalAttention::Span::chunk},
      {"local and global", mixed},
      {"local and global, rotating by different angles", mixed && m.local->rope_theta > 0.0},
      {"local and global, mixtures and dense", mixed && mixes_kinds(m)},
      {"layers that do not rotate", !m.unrotated.empty()},
      {"alibi, several ranks of heads", m.positions == PositionEncoding::alibi && p.mesh.size(Axis::tensor) > 1},
      {"no positions", m.positions == PositionEncoding::none},
      {"scale", m.attention_scale > 0.0}};
  const auto cut = [&](const std::string& kind, bool has) {
    kinds[kind + ", flash"] = has && !context && flash;
    kinds[kind + ", unfused"] = has && !context && !flash;
    kinds[kind + ", all-gather"] = has && context && p.context == ContextAlgorithm::all_gather;
    kinds[kind + ", ring"] = has && context && p.context == ContextAlgorithm::ring;
    kinds[kind + ", zigzag"] = has && p.zigzag;
    kinds[kind + ", grid"] = has && p.tensor != TensorAlgorithm::one_d;
    kinds[kind + ", stages"] = has && p.mesh.size(Axis::pipeline) > 1;
    kinds[kind + ", zero 3"] = has && p.zero_stage == 3 && p.mesh.size(Axis::data) > 1;
    kinds[kind + ", recomputation"] = has && p.recompute != Recompute::none;
    kinds[kind + ", split backward"] = has && splits_backward(p);
    kinds[kind + ", activations on the host"] = has && p.offload_activations != 0U;
    kinds[kind + ", weights on the host"] = has && p.offload_parameters != 0U;
  };
  cut("local", local);
  cut("several kinds", mixed);
  cut("sinks", m.sinks);
  cut("cap", m.attention_softcap > 0.0);
  kinds["local, ulysses"] = local && context && p.context == ContextAlgorithm::ulysses;
  kinds["alibi, ring self-attention"] =
      m.positions == PositionEncoding::alibi && context && p.context == ContextAlgorithm::ring_self_attention;
  return kinds;
}

}  // namespace

// Windows, chunks, layers of several kinds, ALiBi, sinks, scales and caps, under every way to cut them: loss, gradients
// and weights equal those of a single device.
TEST_CASE("Random plans of models with kinds of attention compute what a single device computes",
          "[oracle][numerics]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 900; ++seed) {
    RandomRunLimits limits;
    limits.double_ring = seed % 9 == 0;
    limits.cut_positions = seed % 3 == 0;
    PlannedRun run = random_run(seed, limits);
    add_attention_kinds(seed, run);
    if (coverage.takes(kinds_of(run))) check_run(run, seed, sweep_options(seed));
  }
  coverage.check(0);
}

}  // namespace orrery::test
