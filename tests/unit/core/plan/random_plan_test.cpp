#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <string>

#include "core/plan/plan_check.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

TEST_CASE("Every random run passes check and stays within its limits") {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    test::RandomRunLimits limits;
    limits.max_ranks = static_cast<std::uint32_t>(1 + seed % 16);
    limits.chunks = seed % 2 == 0;
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(test::describe(run));
    Diagnostics found;
    check(run.plan, run.model, run.workload, nullptr, found);
    INFO(render(found));
    REQUIRE(found.empty());
    REQUIRE(is_resolved(run.plan));
    REQUIRE(run.plan.mesh.size() <= limits.max_ranks);
    REQUIRE((run.model.hidden >= 8 && run.model.hidden <= 32));
    REQUIRE((run.workload.sequence_length >= 4 && run.workload.sequence_length <= 16));
  }
}

TEST_CASE("The same seed gives the same random run") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PlannedRun a = test::random_run(seed);
    const PlannedRun b = test::random_run(seed);
    CAPTURE(seed);
    CHECK((a.plan == b.plan && a.model == b.model && a.workload == b.workload));
  }
}

TEST_CASE("400 random runs cover every kind of combination") {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const PlannedRun run = test::random_run(seed);
    const Plan& p = run.plan;
    const Workload& w = run.workload;
    const std::uint32_t stages = p.mesh.size(Axis::pipeline);
    const std::uint32_t tensor = p.mesh.size(Axis::tensor);
    const std::uint32_t data = p.mesh.size(Axis::data);
    const std::uint64_t m = microbatches(p, w);
    const auto note = [&](const char* kind, bool holds) { seen[kind] += holds ? 1 : 0; };
    note("gpt", run.model.norm == Norm::layer_norm);
    note("llama", run.model.norm == Norm::rms_norm);
    note("grouped queries", run.model.kv_heads < run.model.heads);
    note("width other than heads", run.model.hidden != run.model.heads * run.model.head_dim);
    note("vocabulary padded", run.model.vocabulary % tensor != 0);
    note("one rank", p.mesh.size() == 1);
    note("three axes", stages > 1 && tensor > 1 && data > 1);
    note("tensor outermost", p.mesh.axes.size() == 3 && p.mesh.axes[0].axis == Axis::tensor);
    note("pipeline innermost", p.mesh.axes.size() == 3 && p.mesh.axes[2].axis == Axis::pipeline);
    note("placed", !p.placement.empty());
    note("uneven stages", std::adjacent_find(p.stage_layers->begin(), p.stage_layers->end(), std::not_equal_to<>()) !=
                              p.stage_layers->end());
    note("gpipe", stages > 1 && p.schedule == ScheduleName::gpipe);
    note("1f1b", stages > 1 && p.schedule == ScheduleName::one_f_one_b);
    note("fewer microbatches than stages", m < stages);
    note("microbatches not a multiple of stages", m > stages && m % stages != 0);
    note("sequence parallel", p.sequence_parallel);
    note("tensor without sequence parallel", tensor > 1 && !p.sequence_parallel);
    const bool context = p.mesh.size(Axis::context) > 1;
    note("all-gather context", context && p.context == ContextAlgorithm::all_gather);
    note("ulysses", context && p.context == ContextAlgorithm::ulysses);
    note("ring", context && p.context == ContextAlgorithm::ring && p.inner_ring == 0);
    note("ring self-attention", context && p.context == ContextAlgorithm::ring_self_attention);
    note("zigzag", p.zigzag);
    note("loss in chunks", p.loss_chunks > 1);
    note("recompute none", p.recompute == Recompute::none);
    note("recompute selective", p.recompute == Recompute::selective);
    note("recompute full", p.recompute == Recompute::full);
    note("zero 0", data > 1 && p.zero_stage == 0);
    note("zero 1", data > 1 && p.zero_stage == 1);
    note("zero 2", data > 1 && p.zero_stage == 2);
    note("zero 3", data > 1 && p.zero_stage == 3 && p.reshard_after_forward);
    note("zero 3, weights kept", data > 1 && p.zero_stage == 3 && !p.reshard_after_forward);
    note("zero 3 without prefetch", data > 1 && p.zero_stage == 3 && p.prefetch == 0);
    note("replicas", p.mesh.size(Axis::replica) > 1);
    note("hybrid sharding", p.mesh.size(Axis::replica) > 1 && data > 1 && p.zero_stage >= 1);
    note("clipped", w.clip_norm.has_value());
    note("not clipped", !w.clip_norm);
    note("tied across stages", stages > 1 && run.model.tied_embeddings);
    note("tied on one stage", stages == 1 && run.model.tied_embeddings);
    note("untied", !run.model.tied_embeddings);
    note("hidden dropout", w.hidden_dropout > 0.0);
    note("attention dropout", w.attention_dropout > 0.0);
    note("linear schedule", w.schedule.kind == ScheduleKind::linear);
    note("cosine schedule", w.schedule.kind == ScheduleKind::cosine);
    note("fp64", w.precision == Precision::fp64);
    note("fp32", w.precision == Precision::fp32);
    note("bf16", w.precision == Precision::bf16);
    note("fp16", w.precision == Precision::fp16);
    note("fp8", w.precision == Precision::fp8);
    const bool half = weight_dtype(w) != wide_dtype(w);
    note("16-bit gradients", half && gradient_dtype(w) == weight_dtype(w));
    note("no masters", half && !has_master_weights(w));
    note("no masters, f32 gradients", half && !has_master_weights(w) && gradient_dtype(w) == DType::f32);
    note("no masters, f32 moments", half && !has_master_weights(w) && moment_dtype(w) == DType::f32);
    note("16-bit moments", moment_dtype(w) == DType::bf16);
    note("8-bit moments", has_scaled_moments(w));
    note("adam", w.optimizer.kind == OptimizerKind::adam);
    note("sgd with momentum", w.optimizer.kind == OptimizerKind::sgd && optimizer_moments(w) == 1);
    note("lamb", w.optimizer.kind == OptimizerKind::lamb && !w.optimizer.trust_clip);
    note("lamb with clipped norms", w.optimizer.trust_clip.has_value());
    note("adafactor", w.optimizer.kind == OptimizerKind::adafactor);
    note("lars", w.optimizer.kind == OptimizerKind::lars);
    note("sgd without momentum", w.optimizer.kind == OptimizerKind::sgd && optimizer_moments(w) == 0);
    note("overlapped buckets", data > 1 && *p.overlap_gradients && p.gradient_bucket->base() < 1e6);
    note("not overlapped", data > 1 && !*p.overlap_gradients);
    note("unfused", p.attention == AttentionKernel::unfused);
    note("flash", p.attention == AttentionKernel::flash);
  }
  for (const auto& [kind, count] : seen) {
    CAPTURE(kind);
    CHECK(count >= 3);
  }
}
