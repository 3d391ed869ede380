#include "core/record/rates.hpp"

#include <catch2/catch.hpp>

#include <cmath>

#include "core/program/lower/lower.hpp"
#include "core/spec/routing.hpp"
#include "tests/support/attention_kinds.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {

// Korthikanti et al., MLSys 2023: 72 B L s h^2 (1 + s / 6h + V / 12hL) for GPT (ffn = 4 hidden).
// The closed form is algebraically equal; 1e-12 covers the order of additions.
TEST_CASE("Model FLOPs of GPT equal the published closed form", "[unit][record]") {
  ModelSpec m;
  m.layers = 96;
  m.hidden = 12288;
  m.heads = m.kv_heads = 96;
  m.head_dim = 128;
  m.ffn = 4 * m.hidden;
  m.vocabulary = 51200;
  Workload w;
  w.global_batch = 64;
  w.sequence_length = 2048;
  const double b = 64, l = 96, s = 2048, h = 12288, v = 51200;
  const double expected = 72 * b * l * s * h * h * (1 + s / (6 * h) + v / (12 * h * l));
  CHECK(model_flops(m, w) == Approx(expected).epsilon(1e-12));
}

// The term s / 6h is 12 B L s^2 h. A layer with a window has 12 B p h instead, where p is the pairs that a causal
// window leaves: w (w + 1) / 2 + (s - w) w = 512 x 513 / 2 + 1536 x 512 = 917,760. Chunks leave 4 x 131,328 = 525,312.
TEST_CASE("Model FLOPs of layers with windows or chunks count the pairs that these leave", "[unit][record]") {
  ModelSpec m;
  m.layers = 96;
  m.hidden = 12288;
  m.heads = m.kv_heads = 96;
  m.head_dim = 128;
  m.ffn = 4 * m.hidden;
  m.vocabulary = 51200;
  Workload w;
  w.global_batch = 64;
  w.sequence_length = 2048;
  const double b = 64, s = 2048, h = 12288;
  const double all = model_flops(m, w);
  const auto without = [&](double local, double pairs) { return all - local * 12 * b * h * (s * s - pairs); };
  m.local.emplace().size = 512;
  CHECK(model_flops(m, w) == Approx(without(96, 917760)).epsilon(1e-12));
  m.local->global.every = 4;
  CHECK(model_flops(m, w) == Approx(without(72, 917760)).epsilon(1e-12));
  m.local->global.layers = {0};
  m.local->span = LocalAttention::Span::chunk;
  CHECK(model_flops(m, w) == Approx(without(71, 525312)).epsilon(1e-12));
  // A window of the sequence or more hides nothing.
  m.local->size = 2048;
  CHECK(model_flops(m, w) == all);
}

/// Whether experts get tokens that capacity drops, or parts padded to the largest load.
bool uneven(const PlannedRun& run) {
  if (!run.model.mixture) return false;
  const Routing& routing = run.workload.routing;
  const std::uint64_t choices = routing_group(run.workload) * run.model.mixture->per_token;
  return routing.kind != Routing::Kind::balanced || choices % run.model.mixture->experts != 0 ||
         routing.capacity.value_or(1.0) < 1.0;
}

// Without recomputation and padding of vocabulary or experts a Program executes exactly the model's FLOPs, however it
// is cut. These are sums of products of whole numbers, so they agree up to rounding of doubles.
TEST_CASE("Programs without recomputation and padding execute the model's FLOPs", "[unit][record]") {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    test::RandomRunLimits limits;
    limits.recompute = Recompute::none;
    const PlannedRun run = test::random_run(seed, limits);
    if (padded_vocabulary(run.plan, run.model) != run.model.vocabulary || uneven(run)) continue;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    CHECK(program_flops(program) == Approx(model_flops(run.model, run.workload)).epsilon(1e-12));
    ++compared;
  }
  CHECK(compared >= 50);
}

TEST_CASE("Programs of models with local layers execute the model's FLOPs", "[unit][record]") {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    test::RandomRunLimits limits;
    limits.recompute = Recompute::none;
    limits.cut_positions = seed % 2 == 0;
    PlannedRun run = test::random_run(seed, limits);
    test::add_attention_kinds(seed, run);
    const bool local = run.model.local && run.model.local->size < run.workload.sequence_length;
    if (!local || padded_vocabulary(run.plan, run.model) != run.model.vocabulary || uneven(run)) continue;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    CHECK(program_flops(program) == Approx(model_flops(run.model, run.workload)).epsilon(1e-12));
    ++compared;
  }
  CHECK(compared >= 50);
}

TEST_CASE("Rates follow from the step time, the device and its price", "[unit][record]") {
  PlannedRun run;
  run.workload.global_batch = 4;
  run.workload.sequence_length = 1000;
  run.workload.precision = Precision::bf16;
  run.plan.name = "p";
  ClusterSpec cluster;
  cluster.device.peak = {{Precision::bf16, 2.0 * teraflop_per_second}};
  cluster.device.memory = Bytes::of(100);
  cluster.price_per_gpu_hour = 3.6;
  run.cluster = cluster;
  Program program;
  program.mesh = Mesh{{{Axis::data, 2}}};
  program.classes.resize(1);
  Report r;
  r.memory_by_stage.resize(1);
  r.memory_by_stage[0].peak = 101;
  r.step_time = Seconds::of(2);
  r.peak_memory_bytes = 101;
  add_rates(r, run, program, 4e12);
  CHECK(r.gpus == 2);
  CHECK(r.tokens_per_s == 2000.0);  // 4000 tokens in 2 s
  CHECK(r.tokens_per_s_per_gpu == 1000.0);
  CHECK(r.hardware_flops_utilization == 0.5);  // 4e12 of 2 s x 2 devices x 2e12
  CHECK_FALSE(r.fits);
  CHECK(*r.memory_capacity_bytes == 100);
  CHECK(*r.cost_per_step == Approx(0.004).epsilon(1e-12));  // 2 devices x 2 s x 3.6 / 3600 s
}

}  // namespace orrery
