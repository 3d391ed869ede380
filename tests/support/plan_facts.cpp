#include "tests/support/plan_facts.hpp"

#include <fmt/format.h>

#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery::test {

std::vector<std::uint32_t> stages_on(const Plan& plan, std::uint32_t rank) {
  const StageMap map = stage_map(plan);
  std::vector<std::uint32_t> stages;
  for (std::uint32_t c = 0; c < map.chunks; ++c) stages.push_back(map.stage(rank, c));
  return stages;
}

std::uint32_t layers_on(const Plan& plan, std::uint32_t rank) {
  std::uint32_t n = 0;
  for (const std::uint32_t stage : stages_on(plan, rank)) n += (*plan.stage_layers)[stage];
  return n;
}

std::uint32_t mixtures_on(const PlannedRun& run, std::uint32_t rank) {
  std::uint32_t n = 0;
  for (const std::uint32_t stage : stages_on(run.plan, rank)) {
    for (std::uint32_t l = first_layer(run.plan, stage); l < first_layer(run.plan, stage + 1); ++l) {
      n += is_mixture(run.model, l) ? 1 : 0;
    }
  }
  return n;
}

bool recomputes(const Plan& plan, std::uint32_t layer) {
  if (plan.recompute == Recompute::none) return false;
  if (!plan.recompute_layers) return true;
  std::uint32_t stage = 0;
  while (first_layer(plan, stage + 1) <= layer) ++stage;
  return layer - first_layer(plan, stage) < (*plan.recompute_layers)[stage];
}

std::uint32_t recomputed_on(const Plan& plan, std::uint32_t rank) {
  std::uint32_t n = 0;
  for (const std::uint32_t stage : stages_on(plan, rank)) {
    for (std::uint32_t l = first_layer(plan, stage); l < first_layer(plan, stage + 1); ++l) {
      n += recomputes(plan, l) ? 1 : 0;
    }
  }
  return n;
}

std::string describe(const PlannedRun& run) {
  const ModelSpec& m = run.model;
  const Workload& w = run.workload;
  const Plan& p = run.plan;
  std::string mesh;
  for (const MeshAxis& a : p.mesh.axes) mesh += fmt::format("{}{} ", name_of(a.axis), a.size);
  std::string experts;
  if (m.mixture) {
    const Mixture& x = *m.mixture;
    const Routing& r = w.routing;
    experts = fmt::format(
        " experts {} of {} ({} of {} groups, {}) x {} shared {} above {} every {} but {} scores {} routing {} group {} "
        "capacity {} auxiliary "
        "{}",
        x.per_token, x.experts, x.groups_per_token, x.groups, static_cast<int>(x.group_score), x.ffn, x.shared_ffn,
        x.first_dense, x.every, x.dense.size(), static_cast<int>(x.scores), static_cast<int>(r.kind), r.group,
        r.capacity.value_or(0.0), r.auxiliary_loss);
  }
  std::string stages = "auto";
  if (p.stage_layers) {
    stages.clear();
    for (const std::uint32_t n : *p.stage_layers) stages += fmt::format("{}{}", stages.empty() ? "" : "+", n);
  }
  std::string recompute = fmt::to_string(static_cast<int>(p.recompute));
  if (p.recompute_layers) {
    for (const std::uint32_t n : *p.recompute_layers) recompute += fmt::format(":{}", n);
  }
  if (m.prediction_modules > 0) {
    experts +=
        fmt::format(" predictions {} of weight {}", m.prediction_modules, w.prediction_loss_weight.value_or(0.3));
  }
  return fmt::format(
             "{}: {} L{} h{} a{} k{} d{} f{} V{} {}| {} {}mb{} B{} s{} {} stages {} {} x{} recompute {} zero {}{}{} "
             "offload "
             "{}{} parameters {}{} activations {}{} bucket {} "
             "overlap "
             "{} {} {} {} "
             "{} {} momentum {} clip {} dropout {}/{}{} grads {} moments {} seed {}{}",
             p.name, m.name, m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim, m.ffn, m.vocabulary,
             m.tied_embeddings ? "tied " : "untied ", name_of(p.tensor), mesh, p.microbatch_size, w.global_batch,
             w.sequence_length, name_of(w.precision), stages, name_of(p.schedule), p.chunks, recompute, p.zero_stage,
             p.reshard_after_forward ? "" : " kept", p.prefetch == 0 ? " no-prefetch" : "", *p.offload_states,
             p.states_tier == OffloadTier::disk ? " on disk" : "", *p.offload_parameters,
             p.parameters_tier == OffloadTier::disk ? " on disk" : "", *p.offload_activations,
             p.activations_tier == OffloadTier::disk ? " on disk" : "",
             p.gradient_bucket ? p.gradient_bucket->base() : 0.0, p.overlap_gradients.value_or(false),
             p.attention == AttentionKernel::flash ? "flash" : "unfused",
             p.mesh.size(Axis::context) > 1 ? fmt::format("{}/{}", name_of(p.context), p.inner_ring) : "no-context",
             p.zigzag ? "zigzag" : "in-order", p.sequence_parallel ? "sp" : "no-sp", name_of(w.optimizer.kind),
             w.optimizer.momentum, w.clip_norm.value_or(0.0), w.hidden_dropout, w.attention_dropout,
             w.master_weights ? "" : " no masters", name_of(gradient_dtype(w)), name_of(moment_dtype(w)), w.seed,
             p.placement.empty() ? "" : " placed") +
         (p.parameter_chunk > Bytes() ? fmt::format(" chunk {}", p.parameter_chunk->base()) : "") +
         (p.loss_chunks > 1 ? fmt::format(" loss in {}", p.loss_chunks) : "") + experts;
}

}  // namespace orrery::test
