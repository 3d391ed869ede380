#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/plan/plan_names.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/launch/plan_refusals.hpp"
#include "framework/nanotron/stages.hpp"
#include "framework/nanotron/writing.hpp"

// What nanotron cannot launch. Source: huggingface/nanotron@2411b022, src/nanotron/config and src/nanotron/models.

namespace orrery {
namespace {

class Refusals {
 public:
  Refusals(const PlannedRun& run, Diagnostics& out) : run_(run), plan_(run.plan), model_(run.model), out_(out) {}

  void find() {
    mesh();
    pipeline();
    memory();
  }

 private:
  void refuse(const std::string& key, const char* code, std::string message, std::vector<std::string> details) {
    out_.error(plan_.origin, key, std::string("export.") + code, std::move(message), std::move(details));
  }
  [[nodiscard]] std::uint32_t size(Axis a) const { return plan_.mesh.size(a); }

  void mesh() {
    if (plan_.tensor != TensorAlgorithm::one_d) {
      refuse("plan.tensor", "tensor", "nanotron has only 1D tensor parallelism",
             {fmt::format("tensor is {}.", name_of(plan_.tensor)), "Set it to 1d, with the axis tensor."});
    }
    if (!plan_.placement.empty()) {
      refuse("mesh.placement", "placement", "nanotron has no key for the placement of ranks",
             {"It puts rank i on device i. Order the launcher's hosts instead, and leave the placement out."});
    }
    for (const Axis axis : {Axis::replica, Axis::expert}) {
      if (size(axis) == 1) continue;
      const std::string name(name_of(axis));
      refuse("mesh." + name, "mesh-order", fmt::format("nanotron has no axis {}", name),
             {fmt::format("Set {} to 1, and data to the product of both.", name)});
    }
    PlanRefusals no(run_, "nanotron", out_);
    no.whole_kv_heads();
    no.no_folding();
    no.sends_rows();
    if (!nanotron_order(run_)) {
      refuse("mesh.order", "mesh-order", "nanotron has one order of ranks",
             {"It is pipeline, data, context, tensor, outermost first."});
    }
    if (size(Axis::context) > 1) context();
    if (plan_.loss_chunks > 1) {
      refuse("plan.loss_chunks", "loss-chunks", "nanotron makes the loss in one piece", {"Leave out loss_chunks."});
    }
    if (plan_.collective_algorithm) {
      refuse("plan.collective_algorithm", "algorithm", "nanotron has no key for the algorithm of collectives",
             {"The communication library chooses it; leave the override out."});
    }
  }

  void context() {
    if (plan_.context != ContextAlgorithm::all_gather && plan_.context != ContextAlgorithm::ring) {
      refuse("plan.context", "context", "nanotron gathers keys and values, or passes them around a ring",
             {fmt::format("context is {}.", name_of(plan_.context)), "Set it to all_gather or ring."});
    }
    if (plan_.zigzag || plan_.inner_ring != 0) {
      refuse("plan.zigzag", "context", "nanotron gives each rank one part of the sequence, in one ring",
             {"Set zigzag to false, and leave out inner_ring."});
    }
  }

  void pipeline() {
    if (plan_.schedule != ScheduleName::gpipe && plan_.schedule != ScheduleName::one_f_one_b) {
      refuse("plan.schedule", "schedule", fmt::format("nanotron has no schedule {}", name_of(plan_.schedule)),
             {"It has gpipe and 1f1b."});
      return;
    }
    if (nanotron_stages(run_)) return;
    const auto own = nanotron_stage_layers(model_, size(Axis::pipeline));
    refuse("plan.stage_layers", "layers", "nanotron shares layers out by their cost",
           {fmt::format("stage_layers is [{}].", fmt::join(*plan_.stage_layers, ", ")),
            own ? fmt::format("Set it to [{}].", fmt::join(*own, ", "))
                : "It would leave a stage without layers: set pipeline lower."});
  }

  void memory() {
    const bool shards = !shard_axes_of(plan_).empty();
    if (shards && plan_.zero_stage > 1) {
      refuse("plan.zero_stage", "zero", "nanotron shards optimizer states alone",
             {fmt::format("zero_stage is {}.", plan_.zero_stage), "Set it to 1."});
    }
    if (plan_.zero_stage == 1 && size(Axis::context) > 1) {
      refuse("plan.zero_stage", "zero", "nanotron shards states along data alone",
             {"Set zero_stage to 0, or context to 1."});
    }
    if (shards && plan_.overlap_gradients == false) {
      refuse("plan.overlap_gradients", "gradients", "nanotron reduces gradients beside the backward pass",
             {"Set overlap_gradients to true, or leave it out."});
    }
    if (plan_.offload_states != 0U || plan_.offload_parameters != 0U || plan_.offload_activations != 0U) {
      refuse("plan.offload_states", "offload", "nanotron keeps all on the device",
             {"Leave out offload_states, offload_parameters and offload_activations."});
    }
    const bool some = plan_.recompute_layers && plan_.recompute_layers != plan_.stage_layers;
    if (plan_.recompute == Recompute::selective || (plan_.recompute == Recompute::full && some)) {
      refuse("plan.recompute", "recompute", "nanotron recomputes all layers, whole, or none",
             {"Set recompute to none or full, and leave out recompute_layers."});
    }
    if (plan_.attention == AttentionKernel::unfused) {
      refuse("plan.attention", "algorithm", "nanotron's attention is fused", {"Set attention to flash."});
    }
  }

  const PlannedRun& run_;
  const Plan& plan_;
  const ModelSpec& model_;
  Diagnostics& out_;
};

}  // namespace

bool nanotron_order(const PlannedRun& run) {
  return stand_in_order(run.plan.mesh, {Axis::pipeline, Axis::data, Axis::context, Axis::tensor});
}

bool nanotron_stages(const PlannedRun& run) {
  const std::uint32_t ranks = run.plan.mesh.size(Axis::pipeline);
  if (ranks == 1) return true;
  const auto own = nanotron_stage_layers(run.model, ranks);
  return own && (!run.plan.stage_layers || run.plan.stage_layers == own);
}

void close_nanotron_stages(PlannedRun& run) {
  const std::uint32_t ranks = run.plan.mesh.size(Axis::pipeline);
  if (ranks > 1 && !run.plan.stage_layers) run.plan.stage_layers = nanotron_stage_layers(run.model, ranks);
}

void check_nanotron_model(const ModelSpec& m, const Workload& w, Diagnostics& out) {
  ModelRefusals no(w, "nanotron", out);
  no.no_adapters();
  const auto none = [&](bool has, const char* what) {
    if (has) no.refuse("model", "model", fmt::format("nanotron has no models with {}", what), {});
  };
  none(m.architecture != Architecture::decoder || m.latent || m.counted, "layers but of plain causal decoders");
  none(m.mixture.has_value(), "experts that ranks share");
  none(m.norm != Norm::rms_norm || !m.norm_weight || m.embedding_norm || m.branch_norms != BranchNorms::before,
       "norms but RMSNorm before each branch");
  none(!is_gated(m.activation), "activations without a gate");
  none(m.positions != PositionEncoding::rotary || m.rotary_dim > 0, "positions but rotary ones of whole heads");
  none(m.biases != Biases{} && m.biases != Biases{true, false, false, false}, "biases but of queries, keys and values");
  none(m.head_dim * m.heads != m.hidden, "heads that are wider or narrower than the stream's share");
  none(m.query_key_norm != QueryKeyNorm::none || m.sinks || m.attention_scale > 0.0 || m.attention_softcap > 0.0,
       "norms, sinks, scales or caps of scores");
  none(m.parallel != ParallelBranches::none || m.prediction_modules > 0, "branches side by side, or further heads");
  none(m.qkv_clip > 0.0 || m.gate_limit > 0.0 || m.logit_softcap > 0.0 || m.embedding_scale != 1.0 ||
           m.residual_scale != 1.0 || m.logit_scale != 1.0,
       "scaled or clipped values");
  const bool patterned = !m.unrotated.layers.empty() || (m.unrotated.every > 0 && m.layers % m.unrotated.every != 0);
  none(patterned, "unrotated layers but one in every so many");
  none(m.local && (m.local->span != LocalAttention::Span::window || m.local->global != m.unrotated ||
                   m.local->rope_theta > 0.0),
       "layers that see near keys, but by one window in all rotated layers");
  const bool half = w.precision == Precision::bf16;
  no.precisions({Precision::bf16, Precision::fp32});
  if (half && gradient_dtype(w) != DType::f32) {
    no.refuse("workload.gradient_dtype", "gradients",
              "nanotron keeps weights in f32 only where it sums gradients in f32", {"Leave out gradient_dtype."});
  }
  if (w.optimizer.kind != OptimizerKind::adam) {
    no.refuse("workload.optimizer", "optimizer",
              fmt::format("nanotron has no {} as it is here", name_of(w.optimizer.kind)), {"Use adam."});
  }
  no.usual_moments();
  no.no_dropout();
}

bool nanotron_can_say(const PlannedRun& run, Diagnostics& out) {
  const std::size_t before = out.size();
  check_nanotron_model(run.model, run.workload, out);
  Refusals(run, out).find();
  return out.size() == before;
}

}  // namespace orrery
