#include <algorithm>
#include <array>
#include <functional>

#include "core/plan/limits.hpp"
#include "core/plan/plan_check.hpp"
#include "core/spec/yarn_constants.hpp"
#include "framework/megatron_core/write.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

PlannedRun resolved(ModelSpec model) {
  PlannedRun r;
  r.model = std::move(model);
  r.workload.global_batch = 64;
  r.workload.sequence_length = 256;
  r.plan.zigzag = false;
  r.plan.gradient_bucket = Bytes::of(4e6);
  r.plan.overlap_gradients = true;
  r.plan.attention = AttentionKernel::flash;
  return r;
}

ModelSpec dense() {
  return test::tiny_llama({.layers = 8,
                           .hidden = 256,
                           .heads = 8,
                           .kv_heads = 4,
                           .ffn = 512,
                           .vocabulary = 1024,
                           .positions = 256,
                           .tied = false});
}
ModelSpec mixture() {
  ModelSpec m = dense();
  Mixture& x = m.mixture.emplace();
  x.experts = 8;
  x.per_token = 2;
  x.ffn = 128;
  x.shared_ffn = 64;
  x.first_dense = 1;
  return m;
}
ModelSpec latent() {
  ModelSpec m = mixture();
  m.kv_heads = m.heads;
  m.latent = LatentAttention{96, 64, 16, 32};
  m.rope_scaling = "yarn";
  m.rope_stretch = {.factor = 40.0, .original = 4096, .fast = 24.0};
  set_constants(m, {1.0, 0.707});
  m.mixture->scores = Mixture::Scores::sigmoid;
  m.mixture->scale = 2.5;
  m.mixture->score_bias = true;
  m.prediction_modules = 1;
  return m;
}

/// Runs of all kinds that the target can launch, and of some that it cannot.
std::vector<PlannedRun> samples() {
  std::vector<PlannedRun> out;
  const auto meshes = {std::vector<std::uint32_t>{1, 1, 4, 1, 1, 1},
                       {2, 1, 2, 1, 1, 2},
                       {4, 1, 1, 1, 2, 1},
                       {1, 2, 2, 1, 1, 2},
                       {2, 1, 2, 2, 1, 2},
                       {1, 1, 2, 4, 1, 1},
                       {1, 1, 2, 1, 1, 8}};
  const auto model_of = std::vector<std::function<ModelSpec()>>{dense, mixture, latent};
  for (const auto& model : model_of) {
    for (const auto& sizes : meshes) {
      for (const std::uint32_t zero : {0U, 1U, 3U}) {
        for (const bool data_outside : {false, true}) {
          for (int kind = 0; kind < 8; ++kind) {
            PlannedRun r = resolved(model());
            Plan& p = r.plan;
            using enum Axis;
            const std::vector<Axis> order = data_outside
                                                ? std::vector{replica, data, pipeline, expert, context, tensor}
                                                : std::vector{pipeline, replica, data, expert, context, tensor};
            const auto size_of = [&](Axis a) {
              constexpr std::array usual{pipeline, replica, data, expert, context, tensor};
              return sizes[static_cast<std::size_t>(std::find(usual.begin(), usual.end(), a) - usual.begin())];
            };
            for (const Axis a : order) p.mesh.axes.push_back({a, size_of(a)});
            const std::uint32_t stages = size_of(pipeline);
            p.zero_stage = zero;
            p.sequence_parallel = size_of(tensor) > 1;
            if (size_of(context) > 1) {
              p.context = kind % 2 == 0 ? ContextAlgorithm::ring : ContextAlgorithm::all_gather;
              p.zigzag = true;
            }
            p.stage_layers = std::vector<std::uint32_t>(stages, 8 / stages);
            if (kind == 1 && stages > 1) {
              p.schedule = ScheduleName::interleaved;
              p.chunks = 2;
              p.stage_layers = std::vector<std::uint32_t>(stages * 2, 8 / stages / 2);
            }
            if (kind == 2 && stages > 1) {
              ++p.stage_layers->front();
              --p.stage_layers->back();
            }
            if (kind == 3) p.recompute = Recompute::full;
            if (kind == 4) {
              p.recompute = Recompute::full;
              p.recompute_layers = std::vector<std::uint32_t>(stages, 1);
              p.overlap_gradients = zero > 1;
            }
            if (kind == 5) {
              p.attention = size_of(context) > 1 ? AttentionKernel::flash : AttentionKernel::unfused;
              p.recompute = size_of(context) > 1 ? Recompute::none : Recompute::selective;
              r.workload.precision = Precision::fp16;
              if (zero == 1) p.offload_states = 4;
            }
            if (kind == 6 && r.model.mixture) {
              p.expert_folding = folding_over(size_of(context) > 1, size_of(tensor) > 1);
            }
            if (kind == 4 && r.model.mixture && size_of(expert) > 1 && !r.model.mixture->expert_bias) {
              p.expert_dispatch = ExpertDispatch::all_gather;
            }
            if (kind == 7 && stages > 1) {  // the embedding alone, or the head
              std::uint32_t& bare = zero == 0 ? p.stage_layers->front() : p.stage_layers->back();
              (*p.stage_layers)[zero == 0 ? 1 : 0] += std::exchange(bare, 0);
            }
            if (kind == 7) {
              using enum RecomputeModule;
              p.recompute = Recompute::selective;
              unsigned set = set_of(mlp);
              if (r.model.mixture) set |= set_of(moe_act) | set_of(shared_experts);
              if (r.model.latent) set = set_of(layernorm) | set_of(mla_up_proj) | set_of(moe) | set_of(mlp);
              p.recompute_modules = static_cast<RecomputeModules>(set);
            }
            if (kind == 2) r.workload.gradient_dtype = DType::bf16;
            if (kind == 3 && zero == 1) r.workload.moment_dtype = DType::bf16;
            if (kind == 0) r.workload.hidden_dropout = 0.1;
            p.microbatch_size = kind == 1 ? 1 : 2;
            out.push_back(std::move(r));
          }
        }
      }
    }
  }
  return out;
}

std::vector<Axis> order_of(const Mesh& mesh) {
  std::vector<Axis> out;
  for (const MeshAxis& a : mesh.axes) {
    if (a.size > 1) out.push_back(a.axis);
  }
  return out;
}

ModelSpec shape(ModelSpec m) {
  m.name.clear();
  m.source.clear();
  m.origin = {};
  return m;
}

}  // namespace

TEST_CASE("What Megatron-LM's flags say of a plan, they say again when read", "[framework][megatron]") {
  int written = 0, refused = 0;
  for (const PlannedRun& r : samples()) {
    Diagnostics wrong;
    check(r.plan, r.model, r.workload, nullptr, wrong);
    if (!wrong.empty()) continue;
    const auto script = write_megatron_script(r, wrong);
    if (!script) {
      ++refused;
      CHECK_FALSE(wrong.empty());
      continue;
    }
    ++written;
    INFO(*script);
    const Launched l = launched(*script, "train.sh");
    INFO(render(l.diagnostics));
    REQUIRE(l.run);
    for (const LaunchNote& n : l.run->notes) {
      INFO(n.key + ": " + n.says);
      CHECK(n.kind != LaunchNote::Kind::not_expressible);
    }
    const Plan& a = r.plan;
    const Plan& b = l.run->run.plan;
    CHECK(order_of(a.mesh) == order_of(b.mesh));
    for (const Axis axis : order_of(a.mesh)) CHECK(a.mesh.size(axis) == b.mesh.size(axis));
    CHECK(a.microbatch_size == b.microbatch_size);
    CHECK(a.chunks == b.chunks);
    CHECK(a.schedule == b.schedule);
    if (a.mesh.size(Axis::pipeline) > 1) CHECK(a.stage_layers == b.stage_layers);
    CHECK(a.sequence_parallel == b.sequence_parallel);
    CHECK(a.zero_stage == b.zero_stage);
    CHECK(a.recompute == b.recompute);
    CHECK(a.recompute_layers == b.recompute_layers);
    CHECK(a.recompute_modules == b.recompute_modules);
    CHECK(a.offload_states == b.offload_states);
    if (a.mesh.size(Axis::context) > 1) {
      CHECK(a.context == b.context);
      CHECK(a.zigzag == b.zigzag);
    }
    CHECK(a.attention == b.attention);
    CHECK(a.overlap_gradients == b.overlap_gradients);
    if (*a.overlap_gradients && a.zero_stage < 2) CHECK(a.gradient_bucket == b.gradient_bucket);
    const Workload &v = r.workload, &w = l.run->run.workload;
    CHECK(v.global_batch == w.global_batch);
    CHECK(v.sequence_length == w.sequence_length);
    CHECK(v.precision == w.precision);
    CHECK(gradient_dtype(v) == gradient_dtype(w));
    CHECK(moment_dtype(v) == moment_dtype(w));
    CHECK(v.optimizer == w.optimizer);
    CHECK(v.schedule == w.schedule);
    CHECK(v.clip_norm == w.clip_norm);
    CHECK(v.hidden_dropout == w.hidden_dropout);
    CHECK(shape(r.model) == shape(l.run->run.model));
  }
  CHECK(written >= 250);
  CHECK(refused >= 20);  // sharded weights with a pipeline, copies without shards
}

TEST_CASE("Megatron-Bridge's overrides say what the flags say", "[framework][megatron]") {
  int written = 0;
  for (const PlannedRun& r : samples()) {
    Diagnostics wrong;
    check(r.plan, r.model, r.workload, nullptr, wrong);
    if (!wrong.empty()) continue;
    const Framework& f = *framework_named("megatron-core");
    const auto text = f.writings[1].write(r, wrong);
    if (!text) continue;
    ++written;
    LaunchInputs options;
    options.gpus = static_cast<std::uint32_t>(r.plan.mesh.size());
    const Launched l = launched(*text, "run.sh", options);
    INFO(*text);
    INFO(render(l.diagnostics));
    REQUIRE(l.run);
    CHECK_FALSE(l.run->has(LaunchNote::Kind::not_expressible));
    const Plan &a = r.plan, &b = l.run->run.plan;
    CHECK(order_of(a.mesh) == order_of(b.mesh));
    for (const Axis axis : order_of(a.mesh)) CHECK(a.mesh.size(axis) == b.mesh.size(axis));
    CHECK(a.chunks == b.chunks);
    CHECK(a.zero_stage == b.zero_stage);
    CHECK(a.recompute == b.recompute);
    CHECK(a.attention == b.attention);
    CHECK(r.workload.precision == l.run->run.workload.precision);
    CHECK(gradient_dtype(r.workload) == gradient_dtype(l.run->run.workload));
    CHECK(r.workload.optimizer == l.run->run.workload.optimizer);
    CHECK(shape(r.model) == shape(l.run->run.model));
  }
  CHECK(written >= 60);
}

TEST_CASE("What Megatron-LM is said to launch, its writer writes", "[framework][megatron]") {
  const Framework& f = *framework_named("megatron-core");
  int allowed = 0;
  for (const PlannedRun& r : samples()) {
    Diagnostics wrong;
    check(r.plan, r.model, r.workload, nullptr, wrong);
    if (!wrong.empty() || !abilities_of(f, r.model, r.workload).allow(r)) continue;
    ++allowed;
    static_cast<void>(write_megatron_script(r, wrong));
    INFO(render(wrong));
    CHECK(wrong.empty());
  }
  CHECK(allowed >= 150);
}
