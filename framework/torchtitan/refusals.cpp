#include <fmt/format.h>

#include <algorithm>

#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/launch/launch_sizes.hpp"
#include "framework/launch/plan_refusals.hpp"
#include "framework/torchtitan/models.hpp"
#include "framework/torchtitan/stages.hpp"
#include "framework/torchtitan/writing.hpp"

// What torchtitan v0.2.2 cannot launch. Source: pytorch/torchtitan@73a0e6979, torchtitan/config/job_config.py,
// torchtitan/distributed and torchtitan/models/*/infra/parallelize.py.

namespace orrery {
namespace {

// Scores of these models' layers are not made in parts.
bool has_context(const TitanModel& m) { return m.name != "deepseek_v3" && m.name != "gpt_oss"; }
bool has_pipeline(const TitanModel& m, const ModelSpec& spec) { return m.name != "gpt_oss" && !spec.tied_embeddings; }

class Refusals {
 public:
  Refusals(const PlannedRun& run, Diagnostics& out)
      : run_(run), plan_(run.plan), model_(run.model), workload_(run.workload), out_(out) {}

  void find() {
    model();
    mesh();
    pipeline();
    memory();
    numbers();
  }

 private:
  void refuse(const std::string& key, const char* code, std::string message, std::vector<std::string> details) {
    out_.error(plan_.origin, key, std::string("export.") + code, std::move(message), std::move(details));
  }
  [[nodiscard]] std::uint32_t size(Axis a) const { return plan_.mesh.size(a); }
  [[nodiscard]] bool shards() const { return !shard_axes_of(plan_).empty(); }

  /// What goes with no plan of this model alone.
  void model() {
    const TitanModel* known = titan_model_of(model_.name);
    if (known == nullptr) return;
    if (!has_context(*known) && size(Axis::context) > 1) {
      refuse("mesh.context", "context", fmt::format("torchtitan's {} has no context axis", known->name),
             {"Set context to 1, and data to the product of both."});
    }
    if (!has_pipeline(*known, model_) && size(Axis::pipeline) > 1) {
      refuse("mesh.pipeline", "model", fmt::format("torchtitan's {} {} has no pipeline", known->name, known->flavor),
             {"Set pipeline to 1."});
    }
  }

  void mesh() {
    if (plan_.tensor != TensorAlgorithm::one_d) {
      refuse("plan.tensor", "tensor", "torchtitan has only 1D tensor parallelism",
             {fmt::format("tensor is {}.", name_of(plan_.tensor)), "Set it to 1d, with the axis tensor."});
    }
    if (!plan_.placement.empty()) {
      refuse("mesh.placement", "placement", "torchtitan has no key for the placement of ranks",
             {"It puts rank i on device i. Order the launcher's hosts instead, and leave the placement out."});
    }
    PlanRefusals(run_, "torchtitan", out_).whole_kv_heads();
    if (!torchtitan_order(run_)) {
      refuse("mesh.order", "mesh-order", "torchtitan has one order of ranks",
             {"It is pipeline, replica, data, expert, context, tensor, outermost first."});
    }
    if (size(Axis::tensor) > 1 && !plan_.sequence_parallel) {
      refuse("plan.sequence_parallel", "sequence-parallel", "torchtitan splits sequences wherever it splits tensors",
             {"Set sequence_parallel to true."});
    }
    if (size(Axis::context) > 1) context();
    if (plan_.loss_chunks > 1) {
      refuse("plan.loss_chunks", "loss-chunks", "torchtitan makes the loss in one piece", {"Leave out loss_chunks."});
    }
    if (plan_.collective_algorithm) {
      refuse("plan.collective_algorithm", "algorithm", "torchtitan has no key for the algorithm of collectives",
             {"The communication library chooses it; leave the override out."});
    }
  }

  void context() {
    if (plan_.context != ContextAlgorithm::all_gather && plan_.context != ContextAlgorithm::ring) {
      refuse("plan.context", "context", "torchtitan gathers keys and values, or passes them around a ring",
             {fmt::format("context is {}.", name_of(plan_.context)), "Set it to all_gather or ring."});
    } else if (!plan_.zigzag) {
      refuse("plan.zigzag", "context", "torchtitan deals an early and a late part of the sequence to each rank",
             {"Set zigzag to true."});
    }
    if (plan_.inner_ring != 0) {
      refuse("plan.inner_ring", "context", "torchtitan has one ring of context ranks", {"Leave out inner_ring."});
    }
    PlanRefusals(run_, "torchtitan", out_).sends_rows();
    if (!laid_out_expert_ranks(plan_)) {
      refuse("mesh.expert", "experts", "torchtitan takes expert ranks from context ranks first",
             {fmt::format("expert is {}, and context is {}.", size(Axis::expert), size(Axis::context)),
              "Fold experts over context (expert_folding), or set one of them to 1."});
    }
  }

  void pipeline() {
    PlanRefusals(run_, "torchtitan", out_).no_order_alone();
    if (size(Axis::pipeline) == 1) return;
    switch (plan_.schedule) {
      case ScheduleName::gpipe:
      case ScheduleName::one_f_one_b:
      case ScheduleName::interleaved:
      case ScheduleName::breadth_first:
      case ScheduleName::dualpipe_v: break;
      case ScheduleName::zb_v:
        if (plan_.action_times != ActionTimes{}) {
          refuse("plan.action_times", "schedule", "PyTorch's zb-v has one order", {"Leave out action_times."});
        }
        break;
      case ScheduleName::custom:
        if (plan_.order_placement == StagePlacement::two_way) {
          refuse("plan.order", "schedule", "PyTorch has each stage on one rank", {"Take stages on a loop or a V."});
        }
        break;
      case ScheduleName::eager_one_f_one_b:
      case ScheduleName::zb_h1:
      case ScheduleName::zb_h2:
      case ScheduleName::v_half:
      case ScheduleName::v_min:
      case ScheduleName::chimera:
      case ScheduleName::dualpipe:
        refuse("plan.schedule", "schedule", fmt::format("PyTorch has no schedule {}", name_of(plan_.schedule)),
               {"It has gpipe, 1f1b, interleaved, breadth-first, zb-v and dualpipe-v.",
                "With schedule custom any order goes where stages lie on one rank each."});
        break;
    }
  }

  void memory() {
    if (shards() && plan_.zero_stage != 3) {
      refuse("plan.zero_stage", "zero", "torchtitan shards weights, gradients and states",
             {fmt::format("zero_stage is {}.", plan_.zero_stage),
              "Set it to 3, or put the ranks of data on the axis replica."});
    }
    if (shards() && plan_.zero_stage == 3) {
      if (plan_.prefetch != 1) {
        refuse("plan.prefetch", "zero", "FSDP gathers the next layer ahead", {"Set prefetch to 1."});
      }
      if (plan_.parameter_chunk != Bytes()) {
        refuse("plan.parameter_chunk", "zero", "FSDP gathers a layer as a whole", {"Leave out parameter_chunk."});
      }
    }
    if (shard_axes_of(plan_).empty() && size(Axis::replica) > 1 &&
        (size(Axis::pipeline) > 1 || size(Axis::tensor) > 1)) {
      refuse("mesh.replica", "mesh-order", "torchtitan's DDP goes with no other axis",
             {"Put the ranks of replica on the axis data, with zero_stage 3."});
    }
    if (shared() && plan_.overlap_gradients == false) {
      refuse("plan.overlap_gradients", "gradients", "torchtitan reduces gradients beside the backward pass",
             {"Set overlap_gradients to true, or leave it out."});
    }
    if (plan_.offload_states != 0U || plan_.offload_parameters != 0U || plan_.offload_activations != 0U) {
      refuse("plan.offload_states", "offload", "torchtitan keeps all on the device, or moves weights too",
             {"Its enable_cpu_offload moves sharded weights, gradients and states, which plans do not have.",
              "Leave out offload_states, offload_parameters and offload_activations."});
    }
    if (plan_.recompute == Recompute::selective) {
      refuse("plan.recompute", "recompute", "torchtitan does not recompute the attention core alone",
             {"Its kernels keep no scores. Set recompute to none or full."});
    } else if (!recomputed_layers_are_every(run_)) {
      refuse("plan.recompute_layers", "recompute", "torchtitan recomputes one layer in every so many",
             {fmt::format("recompute_layers is {}.", toml_list(*plan_.recompute_layers)),
              "Leave it out, or set it to half of each stage's layers."});
    }
    if (plan_.attention == AttentionKernel::unfused) {
      refuse("plan.attention", "algorithm", "torchtitan's attention is fused", {"Set attention to flash."});
    }
  }
  [[nodiscard]] bool shared() const { return shards() || size(Axis::replica) > 1; }

  void numbers() {
    if (workload_.precision == Precision::fp32 || shards()) return;
    if (size(Axis::pipeline) == 1 && size(Axis::tensor) == 1) return;
    refuse("workload.precision", "precision", "torchtitan trains in fp32 unless ranks shard weights",
           {"Set data to 2 or more, with zero_stage 3, or precision to fp32."});
  }

  const PlannedRun& run_;
  const Plan& plan_;
  const ModelSpec& model_;
  const Workload& workload_;
  Diagnostics& out_;
};

}  // namespace

void check_torchtitan_model(const ModelSpec& m, const Workload& w, Diagnostics& out) {
  ModelRefusals no(w, "torchtitan", out);
  no.no_adapters();
  if (titan_model_of(m.name) == nullptr) {
    std::string all;
    for (const TitanModel& known : titan_models()) {
      if (known.shape == nullptr) all += fmt::format("{}{}", all.empty() ? "" : ", ", known.shipped);
    }
    no.refuse("model", "model", fmt::format("torchtitan has no model {}", m.name), {fmt::format("It has: {}.", all)});
  }
  no.precisions({Precision::fp32, Precision::bf16, Precision::fp8});
  if (w.precision != Precision::fp16 && gradient_dtype(w) != DType::f32) {
    no.refuse("workload.gradient_dtype", "gradients", "torchtitan sums gradients in f32",
              {"Leave out gradient_dtype."});
  }
  if (w.optimizer.kind != OptimizerKind::adam) {
    no.refuse("workload.optimizer", "optimizer", fmt::format("torchtitan has no {}", name_of(w.optimizer.kind)),
              {"Use adam."});
  }
  no.usual_moments();
  no.no_dropout();
  if (m.mixture && w.routing.capacity) {
    no.refuse("workload.routing.capacity", "routing", "torchtitan drops no tokens", {"Leave out capacity."});
  }
  if (m.mixture && w.routing.auxiliary_loss > 0.0) {
    no.refuse("workload.routing.auxiliary_loss", "routing", "torchtitan balances experts by a bias of their scores",
              {"Set auxiliary_loss to 0."});
  }
}

std::vector<AbilityRule> torchtitan_rules(const ModelSpec& m, const Workload&) {
  std::vector<AbilityRule> out;
  const TitanModel* known = titan_model_of(m.name);
  if (known == nullptr) return out;
  if (!has_context(*known)) out.push_back({"", "context=1", "this model has no context axis there"});
  if (!has_pipeline(*known, m)) out.push_back({"", "pipeline=1", "this model has no pipeline there"});
  return out;
}

bool torchtitan_order(const PlannedRun& run) {
  using enum Axis;
  return stand_in_order(run.plan.mesh, {pipeline, replica, data, expert, context, tensor});
}

bool torchtitan_can_say(const PlannedRun& run, Diagnostics& out) {
  const std::size_t before = out.size();
  check_torchtitan_model(run.model, run.workload, out);
  Refusals(run, out).find();
  return out.size() == before;
}

std::optional<std::uint32_t> recomputed_layers_are_every(const PlannedRun& run) {
  const Plan& plan = run.plan;
  if (plan.recompute == Recompute::none) return 0;
  if (!plan.recompute_layers || plan.recompute_layers == plan.stage_layers) return 1;
  const std::vector<std::uint32_t> stages =
      plan.stage_layers.value_or(std::vector<std::uint32_t>{static_cast<std::uint32_t>(run.model.layers)});
  for (std::uint32_t every = 2; every <= run.model.layers; ++every) {
    if (every_nth_layer(stages, plan.mesh.size(Axis::pipeline), stage_map(plan).placement, every) ==
        *plan.recompute_layers) {
      return every;
    }
  }
  return std::nullopt;
}

}  // namespace orrery
