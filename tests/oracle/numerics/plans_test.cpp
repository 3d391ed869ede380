#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "core/plan/schedule_rules.hpp"
#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

/// The embedding's chunk and the head's lie on one rank, or on two with a copy each.
bool tied_in_two_chunks(const PlannedRun& run) {
  const StageMap map = stage_map(run.plan);
  return run.plan.zero_stage >= 2 && run.plan.mesh.size(Axis::data) > 1 && run.model.tied_embeddings &&
         map.chunks > 1 && (map.two_way() || map.rank(map.stages() - 1) == 0);
}

/// The dimensions of a plan that a run uses.
std::map<std::string, bool> kinds_of(const PlannedRun& run) {
  const Plan& p = run.plan;
  const Workload& w = run.workload;
  const bool stages = p.mesh.size(Axis::pipeline) > 1;
  const bool context = p.mesh.size(Axis::context) > 1;
  return {{"tensor", p.mesh.size(Axis::tensor) > 1},
          {"sequence parallel", p.sequence_parallel},
          {"2d", p.tensor == TensorAlgorithm::two_d},
          {"3d", p.tensor == TensorAlgorithm::three_d && !p.save_gathered},
          {"3d, gathered kept", p.save_gathered},
          {"2.5d", p.tensor == TensorAlgorithm::two_half_d},
          {"data", p.mesh.size(Axis::data) > 1},
          {"zero 1", p.zero_stage == 1 && p.mesh.size(Axis::data) > 1},
          {"zero 2", p.zero_stage == 2 && p.mesh.size(Axis::data) > 1},
          {"zero 3", p.zero_stage == 3 && p.mesh.size(Axis::data) > 1 && p.reshard_after_forward},
          {"zero 3, weights kept", p.zero_stage == 3 && p.mesh.size(Axis::data) > 1 && !p.reshard_after_forward},
          {"zero 3 without prefetch", p.zero_stage == 3 && p.mesh.size(Axis::data) > 1 && p.prefetch == 0},
          {"zero 3 with stages", p.zero_stage == 3 && p.mesh.size(Axis::data) > 1 && stages},
          {"replicas", p.mesh.size(Axis::replica) > 1},
          {"hybrid sharding", p.mesh.size(Axis::replica) > 1 && p.mesh.size(Axis::data) > 1 && p.zero_stage >= 1},
          {"all-gather context", context && p.context == ContextAlgorithm::all_gather},
          {"ulysses", context && p.context == ContextAlgorithm::ulysses},
          {"ring", context && p.context == ContextAlgorithm::ring && p.inner_ring == 0},
          {"double ring", context && p.inner_ring != 0},
          {"ring self-attention", context && p.context == ContextAlgorithm::ring_self_attention},
          {"context with attention dropout", context && w.attention_dropout > 0},
          {"zigzag", p.zigzag},
          {"context with tensor", context && p.mesh.size(Axis::tensor) > 1},
          {"context with stages", context && stages},
          {"context with data", context && p.mesh.size(Axis::data) > 1},
          {"context with recomputation", context && p.recompute == Recompute::full},
          {"experts", run.model.mixture.has_value()},
          {"expert axis", p.mesh.size(Axis::expert) > 1},
          {"gpipe", stages && p.schedule == ScheduleName::gpipe},
          {"1f1b", stages && p.schedule == ScheduleName::one_f_one_b},
          {"eager 1f1b", p.schedule == ScheduleName::eager_one_f_one_b},
          {"interleaved", p.schedule == ScheduleName::interleaved},
          {"breadth-first", p.schedule == ScheduleName::breadth_first},
          {"zero bubble, H1", p.schedule == ScheduleName::zb_h1},
          {"zero bubble, H2", p.schedule == ScheduleName::zb_h2},
          {"zero bubble, V", p.schedule == ScheduleName::zb_v},
          {"V-Half", p.schedule == ScheduleName::v_half},
          {"V-Min", p.schedule == ScheduleName::v_min},
          {"DualPipeV", p.schedule == ScheduleName::dualpipe_v},
          {"zero bubble, V, for given times", p.action_times != ActionTimes{}},
          {"chimera", p.schedule == ScheduleName::chimera},
          {"dualpipe", p.schedule == ScheduleName::dualpipe},
          {"two pipes with a tied table", stage_map(p).two_way() && run.model.tied_embeddings},
          {"two pipes, ZeRO-1", stage_map(p).two_way() && p.zero_stage == 1 && p.mesh.size(Axis::data) > 1},
          {"two pipes, ZeRO-2 or 3", stage_map(p).two_way() && p.zero_stage >= 2 && p.mesh.size(Axis::data) > 1},
          {"split backward, ZeRO-2", splits_backward(p) && p.zero_stage == 2 && p.mesh.size(Axis::data) > 1},
          {"split backward, ZeRO-3", splits_backward(p) && p.zero_stage == 3 && p.mesh.size(Axis::data) > 1},
          {"ZeRO-2 or 3, tied table in two chunks", tied_in_two_chunks(run)},
          {"custom", p.schedule == ScheduleName::custom},
          {"custom, split", p.schedule == ScheduleName::custom && splits_backward(p)},
          {"custom on a V", p.order_placement == StagePlacement::v},
          {"zero 2 or 3 with chunks", p.zero_stage >= 2 && p.mesh.size(Axis::data) > 1 && p.chunks > 1},
          {"split backward on a grid", p.tensor != TensorAlgorithm::one_d && splits_backward(p)},
          {"zero 2 on a grid", p.tensor != TensorAlgorithm::one_d && p.zero_stage == 2 && p.mesh.size(Axis::data) > 1},
          {"zero 3 on a grid", p.tensor != TensorAlgorithm::one_d && p.zero_stage == 3 && p.mesh.size(Axis::data) > 1},
          {"context on a grid", p.tensor != TensorAlgorithm::one_d && context},
          {"chunks with stages", stages && p.chunks > 1},
          {"three axes", stages && p.mesh.size(Axis::data) > 1 && p.mesh.size(Axis::tensor) > 1},
          {"recompute selective", p.recompute == Recompute::selective},
          {"recompute full", p.recompute == Recompute::full},
          {"offloaded states", p.offload_states != 0U},
          {"states on disk", p.states_tier == OffloadTier::disk},
          {"offloaded parameters", p.offload_parameters != 0U},
          {"parameters on disk", p.parameters_tier == OffloadTier::disk},
          {"activations on disk", p.activations_tier == OffloadTier::disk},
          {"offloaded parameters, ZeRO-1 or 2",
           p.offload_parameters != 0U && p.zero_stage > 0 && p.mesh.size(Axis::data) > 1},
          {"offloaded parameters, some of the states",
           p.offload_parameters != 0U && *p.offload_parameters < *p.offload_states},
          {"offloaded activations", p.offload_activations != 0U},
          {"offloaded activations, recomputed", p.offload_activations != 0U && p.recompute == Recompute::full},
          {"offloaded activations, split backward", p.offload_activations != 0U && splits_backward(p)},
          {"offloaded activations, ZeRO-3",
           p.offload_activations != 0U && p.zero_stage == 3 && p.mesh.size(Axis::data) > 1},
          {"recompute some layers", p.recompute_layers.has_value()},
          {"accumulation", microbatches(p, w) > 1},
          {"overlap", *p.overlap_gradients},
          {"flash", p.attention == AttentionKernel::flash},
          {"tied across stages", stages && run.model.tied_embeddings},
          {"gpt", run.model.activation == Activation::gelu},
          {"llama", run.model.activation == Activation::swiglu},
          {"grouped queries", run.model.kv_heads < run.model.heads},
          {"clipping", w.clip_norm.has_value()},
          {"dropout", w.hidden_dropout > 0},
          {"attention dropout", w.attention_dropout > 0},
          {"lamb, offloaded states", w.optimizer.kind == OptimizerKind::lamb && p.offload_states != 0U},
          {"lars, offloaded states", w.optimizer.kind == OptimizerKind::lars && p.offload_states != 0U},
          {"adafactor, offloaded states", has_factored_moments(w) && p.offload_states != 0U},
          {"adam", w.optimizer.kind == OptimizerKind::adam},
          {"sgd", w.optimizer.kind == OptimizerKind::sgd},
          {"lamb", w.optimizer.kind == OptimizerKind::lamb},
          {"lamb, sharded states", w.optimizer.kind == OptimizerKind::lamb && p.zero_stage >= 1},
          {"16-bit moments", moment_dtype(w) == DType::bf16},
          {"8-bit moments", moment_dtype(w) == DType::f8},
          {"moments in codes", moment_dtype(w) == DType::u8},
          {"no masters", !w.master_weights},
          {"adafactor", w.optimizer.kind == OptimizerKind::adafactor},
          {"adafactor, sharded states", w.optimizer.kind == OptimizerKind::adafactor && p.zero_stage >= 1},
          {"lars", w.optimizer.kind == OptimizerKind::lars},
          {"lars, clipped", w.optimizer.kind == OptimizerKind::lars && w.clip_norm.has_value()},
          {"fp64", w.precision == Precision::fp64},
          {"fp32", w.precision == Precision::fp32},
          {"bf16", w.precision == Precision::bf16},
          {"fp8", w.precision == Precision::fp8},
          {"3d with biases", p.tensor == TensorAlgorithm::three_d && run.model.biases.in_layers()},
          {"fp16", w.precision == Precision::fp16}};
}

}  // namespace

TEST_CASE("Random plans compute what a single device computes", "[oracle][numerics]") {
  Coverage coverage(2);
  const auto check = [&](std::uint64_t seed, const RandomRunLimits& limits) {
    const PlannedRun run = random_run(seed, limits);
    if (coverage.takes(kinds_of(run))) check_run(run, seed, sweep_options(seed));
  };
  for (std::uint64_t seed = 1; seed <= 290; ++seed) check(seed, {});
  // Only a few of those are cubes, because they need 8 ranks and a model without biases.
  RandomRunLimits cubes;
  cubes.tensor = TensorAlgorithm::three_d;
  for (std::uint64_t seed = 361; seed <= 390; ++seed) check(seed, cubes);
  // Custom orders that lie on a V are rare, too.
  RandomRunLimits custom;
  custom.schedule = ScheduleName::custom;
  for (std::uint64_t seed = 391; seed <= 530; ++seed) check(seed, custom);
  std::uint64_t next = 541;
  for (const ScheduleName name :
       {ScheduleName::zb_v, ScheduleName::v_half, ScheduleName::v_min, ScheduleName::dualpipe_v}) {
    RandomRunLimits one;
    one.schedule = name;
    for (int i = 0; i < 16; ++i) check(next++, one);
  }
  for (const ScheduleName name : {ScheduleName::chimera, ScheduleName::dualpipe}) {
    RandomRunLimits one;  // half of them have an odd number of ranks, and run GPipe
    one.schedule = name;
    for (std::uint32_t i = 0; i < 48; ++i) {
      if (i == 24) one.zero_stage = 1;
      if (i >= 34) one.zero_stage = 2 + i % 2;
      check(next++, one);
    }
  }
  for (const ScheduleName name : {ScheduleName::interleaved, ScheduleName::breadth_first}) {
    for (std::uint32_t zero = 2; zero <= 3; ++zero) {
      RandomRunLimits one;
      one.schedule = name;
      one.zero_stage = zero;
      for (int i = 0; i < 10; ++i) check(next++, one);
    }
  }
  RandomRunLimits rings;
  rings.double_ring = true;
  for (int i = 0; i < 24; ++i) check(next++, rings);
  for (const TensorAlgorithm tensor : {TensorAlgorithm::two_d, TensorAlgorithm::two_half_d, TensorAlgorithm::three_d}) {
    for (const ScheduleName name : {ScheduleName::zb_h1, ScheduleName::v_min}) {
      RandomRunLimits one;
      one.tensor = tensor;
      one.schedule = name;
      for (int i = 0; i < 4; ++i) check(next++, one);
    }
  }
  for (std::uint32_t zero = 2; zero <= 3; ++zero) {
    for (const TensorAlgorithm tensor :
         {TensorAlgorithm::two_d, TensorAlgorithm::two_half_d, TensorAlgorithm::three_d}) {
      RandomRunLimits one;
      one.tensor = tensor;
      one.zero_stage = zero;
      for (int i = 0; i < 8; ++i) check(next++, one);
    }
  }
  for (const TensorAlgorithm tensor : {TensorAlgorithm::two_d, TensorAlgorithm::two_half_d, TensorAlgorithm::three_d}) {
    RandomRunLimits one;
    one.tensor = tensor;
    one.cut_positions = true;
    for (int i = 0; i < 20; ++i) check(next++, one);
  }
  coverage.check();
}

// bf16 weights are all there is: the update reads and rounds them, on the device or on the host. Gradients and moments
// are of every type that they may have.
TEST_CASE("Plans without master weights compute what a single device computes", "[oracle][numerics]") {
  Coverage coverage(2);
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    RandomRunLimits limits;
    limits.precision = seed % 4 == 0 ? Precision::fp8 : Precision::bf16;
    if (seed % 3 == 0) limits.zero_stage = static_cast<std::uint32_t>(seed / 3 % 4);
    if (seed % 7 == 0) limits.tensor = TensorAlgorithm::two_d;
    PlannedRun run = random_run(seed, limits);
    Workload& w = run.workload;
    Plan& p = run.plan;
    w.master_weights = false;
    if (optimizer_moments(w) == 0 && !has_factored_moments(w)) {  // no states that the host could have
      p.offload_states = p.offload_parameters = 0;
      p.states_tier = p.parameters_tier = OffloadTier::host;
    }
    const OptimizerKind kind = w.optimizer.kind;
    const bool shared = p.mesh.size(Axis::data) > 1;
    const Coverage::Kinds kinds = {{"bf16", w.precision == Precision::bf16},
                                   {"fp8", w.precision == Precision::fp8},
                                   {"bf16 gradients", gradient_dtype(w) == DType::bf16},
                                   {"f32 gradients", gradient_dtype(w) == DType::f32},
                                   {"bf16 moments", moment_dtype(w) == DType::bf16},
                                   {"f32 moments", moment_dtype(w) == DType::f32 && kind == OptimizerKind::adam},
                                   {"f8 moments", moment_dtype(w) == DType::f8},
                                   {"u8 moments", moment_dtype(w) == DType::u8},
                                   {"adam", kind == OptimizerKind::adam},
                                   {"sgd", kind == OptimizerKind::sgd && optimizer_moments(w) == 0},
                                   {"sgd with momentum", kind == OptimizerKind::sgd && optimizer_moments(w) == 1},
                                   {"lamb", kind == OptimizerKind::lamb},
                                   {"lars", kind == OptimizerKind::lars},
                                   {"adafactor", kind == OptimizerKind::adafactor},
                                   {"zero 0", shared && p.zero_stage == 0},
                                   {"zero 1", shared && p.zero_stage == 1},
                                   {"zero 2", shared && p.zero_stage == 2},
                                   {"zero 3", shared && p.zero_stage == 3},
                                   {"tensor", p.mesh.size(Axis::tensor) > 1},
                                   {"2d", p.tensor == TensorAlgorithm::two_d},
                                   {"stages", p.mesh.size(Axis::pipeline) > 1},
                                   {"tied, stages", p.mesh.size(Axis::pipeline) > 1 && run.model.tied_embeddings},
                                   {"context", p.mesh.size(Axis::context) > 1},
                                   {"experts", run.model.mixture.has_value()},
                                   {"clipping", w.clip_norm.has_value()},
                                   {"offloaded states", p.offload_states != 0U},
                                   {"states on disk", p.states_tier == OffloadTier::disk},
                                   {"offloaded parameters", p.offload_parameters != 0U}};
    if (coverage.takes(kinds)) check_run(run, seed, sweep_options(seed));
  }
  coverage.check();
}

// The plans cut pipeline, data, tensor and two of replica, context and experts at once, on up to 64 ranks.
TEST_CASE("Plans over five axes at once compute what a single device computes", "[oracle][numerics]") {
  std::map<Axis, int> cut;
  RandomRunLimits limits;
  limits.max_ranks = 64;
  limits.five_axes = true;
  for (std::uint64_t seed = 1; seed <= (long_tests() ? 16U : 8U); ++seed) {
    const PlannedRun run = random_run(seed, limits);
    int axes = 0;
    for (const MeshAxis& a : run.plan.mesh.axes) {
      axes += a.size > 1 ? 1 : 0;
      cut[a.axis] += a.size > 1 ? 1 : 0;
    }
    CAPTURE(seed, describe(run));
    CHECK(axes == 5);
    NumericsOptions options = sweep_options(seed);
    options.concurrent_lanes = false;  // a thread for each lane of 64 ranks is too many
    check_run(run, seed, options);
  }
  for (const Axis axis : {Axis::replica, Axis::context, Axis::expert}) {
    CAPTURE(name_of(axis));
    CHECK(cut[axis] >= 2);
  }
}

// Seven steps: the rate rises over three, then falls along a cosine. Each step's update is compared with the rule at
// the rate of its number.
TEST_CASE("Weights follow warm-up and decay of the learning rate", "[oracle][numerics]") {
  for (std::uint64_t seed = 2001; seed <= 2008; ++seed) {
    RandomRunLimits limits;
    limits.max_ranks = 8;
    limits.precision = Precision::fp64;
    PlannedRun run = random_run(seed, limits);
    run.workload.schedule = {ScheduleKind::cosine, 3, 7, 0.1};
    NumericsOptions options;
    options.steps = 7;
    check_run(run, seed, options);
  }
}

// 2^28 times gradients of about 1e-3 is beyond 65504, so the first steps
// overflow and halve the scale; after every good step (window 1) it doubles and
// soon overflows again.  Skipped steps must leave weights, moments and the
// count of steps alone.
TEST_CASE("fp16 plans skip overflowed steps and find a loss scale", "[oracle][numerics]") {
  for (std::uint64_t seed = 3001; seed <= (long_tests() ? 3005U : 3003U); ++seed) {
    RandomRunLimits limits;
    limits.max_ranks = 8;
    limits.precision = Precision::fp16;
    PlannedRun run = random_run(seed, limits);
    run.workload.loss_scale = 0x1p28;
    run.workload.loss_scale_window = 1;
    NumericsOptions options;
    options.steps = 24;
    const NumericsResult result = check_run(run, seed, options);
    CAPTURE(seed, describe(run), result.skipped);
    CHECK(result.skipped > 0);
    CHECK(result.skipped < options.steps);
  }
}

}  // namespace orrery::test
