#include "tests/property/core/closed_forms.hpp"

#include "core/plan/schedule_rules.hpp"

namespace orrery::closed_forms {

test::RandomRunLimits dense() {
  test::RandomRunLimits limits;
  limits.mixture = false;
  return limits;
}

test::RandomRunLimits one_d() {
  test::RandomRunLimits limits = dense();
  limits.tensor = TensorAlgorithm::one_d;
  return limits;
}

Symbols::Symbols(const PlannedRun& r)
    : model(r.model),
      workload(r.workload),
      plan(r.plan),
      L(r.model.layers),
      h(r.model.hidden),
      a(r.model.heads),
      k(r.model.kv_heads),
      d(r.model.head_dim),
      f(r.model.ffn),
      s(r.workload.sequence_length),
      b(r.plan.microbatch_size),
      B(r.workload.global_batch),
      t(r.plan.mesh.size(Axis::tensor)),
      dp(r.plan.mesh.size(Axis::data)),
      p(r.plan.mesh.size(Axis::pipeline)),
      c(r.plan.mesh.size(Axis::context)),
      replicas(r.plan.mesh.size(Axis::replica)),
      shares(dp * c),
      m(B / (replicas * dp * b) / stage_map(r.plan).pipes()),
      V(padded_vocabulary(r.plan, r.model)),
      swiglu(r.model.activation == Activation::swiglu),
      layer_norm(r.model.norm == Norm::layer_norm),
      bias(r.model.biases.in_layers()),
      tied(r.model.tied_embeddings),
      flash(*r.plan.attention == AttentionKernel::flash),
      sp(r.plan.sequence_parallel && t > 1),
      zero(shares > 1 ? r.plan.zero_stage : 0),
      w(size_of(weight_dtype(r.workload))),
      g(size_of(gradient_dtype(r.workload))),
      st(size_of(wide_dtype(r.workload))) {}

std::uint64_t Symbols::again_on(std::uint64_t rank) const {
  return test::recomputed_on(plan, static_cast<std::uint32_t>(rank));
}

std::vector<std::uint32_t> Symbols::parts(std::uint64_t rank) const {
  const StageMap map = stage_map(plan);
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < map.chunks; ++i) out.push_back(map.stage(static_cast<std::uint32_t>(rank), i));
  return out;
}

std::uint64_t Symbols::layers_of(std::uint64_t rank) const {
  std::uint64_t n = 0;
  for (const std::uint32_t v : parts(rank)) n += (*plan.stage_layers)[v];
  return n;
}

bool Symbols::two_way() const { return stage_map(plan).two_way(); }

bool Symbols::last(std::uint64_t rank) const {
  const StageMap map = stage_map(plan);
  return rank == map.rank(map.stages() - 1) || (two_way() && rank == 0);
}

std::uint64_t Held::total(const Symbols& x) const {
  const auto padded = [&](std::uint64_t n) { return x.zero ? (n + x.shares - 1) / x.shares * x.shares : n; };
  return padded(sharded) + padded(sharded_bias) + padded(replicated);
}

Held layer_held(const Symbols& x) {
  const std::uint64_t qkv = x.d * (x.a + 2 * x.k);
  const std::uint64_t up = x.swiglu ? 2 * x.f : x.f;
  Held held;
  held.sharded = (x.h * qkv + x.a * x.d * x.h + x.h * up + x.f * x.h) / x.t;
  held.sharded_bias = x.bias ? (qkv + up) / x.t : 0;
  held.replicated = (x.layer_norm ? 4 : 2) * x.h + (x.bias ? 2 * x.h : 0);
  return held;
}

Held embedding_held(const Symbols& x) {
  Held held;
  held.sharded = x.V / x.t * x.h;
  held.replicated = x.model.positions == PositionEncoding::learned ? x.model.max_positions * x.h : 0;
  return held;
}

Held head_held(const Symbols& x) {
  Held held;
  held.sharded = !x.tied || x.copied() ? x.V / x.t * x.h : 0;
  held.replicated = (x.layer_norm ? 2 : 1) * x.h;
  return held;
}

std::uint64_t stage_held(const Symbols& x, std::uint64_t stage) {
  std::uint64_t n = x.layers_of(stage) * layer_held(x).total(x);
  if (x.first(stage)) n += embedding_held(x).total(x);
  if (x.last(stage)) n += head_held(x).total(x);
  return n;
}

std::uint64_t host_held(const Symbols& x, std::uint64_t rank) {
  const std::uint64_t e = *x.plan.offload_states;
  if (e == 8) return stage_held(x, rank);
  std::uint64_t layers = 0;
  for (const std::uint32_t v : x.parts(rank)) layers += ((*x.plan.stage_layers)[v] * e + 7) / 8;
  return layers * layer_held(x).total(x);
}

std::uint64_t remote_held(const Symbols& x, std::uint64_t rank) {
  std::uint64_t layers = 0;
  for (const std::uint32_t v : x.parts(rank))
    layers += ((*x.plan.stage_layers)[v] * *x.plan.offload_parameters + 7) / 8;
  return layers * layer_held(x).total(x);
}

Statistics statistics(const Symbols& x, std::uint64_t stage) {
  Statistics out;
  if (!has_factored_moments(x.workload)) return out;
  const std::uint64_t qkv = x.d * (x.a + 2 * x.k), up = x.swiglu ? 2 * x.f : x.f, norm = (x.layer_norm ? 2 : 1) * x.h;
  const std::uint64_t norms = x.layer_norm ? 2 : 1;
  const std::uint64_t layers = x.layers_of(stage), table = x.model.vocabulary + x.h;
  out.segment((x.h + qkv) + (x.a * x.d + x.h) + (x.h + up) + (x.f + x.h), 4, layers);
  if (x.bias) out.segment(qkv + up, 2, layers);
  out.segment(2 * norm + (x.bias ? 2 * x.h : 0), 2 * norms + (x.bias ? 2 : 0), layers);
  if (x.first(stage)) {
    out.segment(table, 1, 1);
    if (x.model.positions == PositionEncoding::learned) out.segment(x.model.max_positions + x.h, 1, 1);
  }
  if (x.last(stage)) {
    if (!x.tied || x.copied()) out.segment(table, 1, 1);
    out.segment(norm, norms, 1);
  }
  return out;
}

}  // namespace orrery::closed_forms
