#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/torchtitan/models.hpp"
#include "framework/torchtitan/stages.hpp"
#include "framework/torchtitan/writing.hpp"

// What torchtitan v0.2.2 cannot launch. Source: pytorch/torchtitan@73a0e6979, torchtitan/config/job_config.py,
// torchtitan/distributed and torchtitan/models/*/infra/parallelize.py.

namespace orrery {
namespace {

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

  void model() {
    const TitanModel* known = titan_model_of(model_.name);
    if (known == nullptr) {
      std::string all;
      for (const TitanModel& m : titan_models()) {
        if (m.shape == nullptr) all += fmt::format("{}{}", all.empty() ? "" : ", ", m.shipped);
      }
      refuse("model", "model", fmt::format("torchtitan has no model {}", model_.name),
             {fmt::format("It has: {}.", all)});
      return;
    }
    const bool gathers_scores = known->name == "deepseek_v3" || known->name == "gpt_oss";
    if (gathers_scores && size(Axis::context) > 1) {
      refuse("mesh.context", "context", fmt::format("torchtitan's {} has no context axis", known->name),
             {"Set context to 1, and data to the product of both."});
    }
    const bool whole = known->name == "gpt_oss" || model_.tied_embeddings;
    if (whole && size(Axis::pipeline) > 1) {
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
    constexpr std::array order{Axis::pipeline, Axis::replica, Axis::data, Axis::expert, Axis::context, Axis::tensor};
    std::size_t at = 0;
    for (const MeshAxis& a : plan_.mesh.axes) {
      const auto found = std::find(order.begin(), order.end(), a.axis);
      if (a.size == 1 || found == order.end()) continue;
      const auto place = static_cast<std::size_t>(found - order.begin());
      if (place < at) {
        refuse("mesh.order", "mesh-order", "torchtitan has one order of ranks",
               {"It is pipeline, replica, data, expert, context, tensor, outermost first."});
        break;
      }
      at = place;
    }
    if (size(Axis::tensor) > 1 && !plan_.sequence_parallel) {
      refuse("plan.sequence_parallel", "sequence-parallel", "torchtitan splits sequences wherever it splits tensors",
             {"Set sequence_parallel to true."});
    }
    if (size(Axis::context) > 1) context();
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
    if (size(Axis::expert) > 1) {
      refuse("mesh.expert", "experts", "torchtitan takes expert ranks from context ranks first",
             {fmt::format("expert is {}, and context is {}.", size(Axis::expert), size(Axis::context)),
              "Set one of them to 1."});
    }
  }

  void pipeline() {
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
    switch (workload_.precision) {
      case Precision::fp32: break;
      case Precision::bf16:
      case Precision::fp8:
        if (!shards() && (size(Axis::pipeline) > 1 || size(Axis::tensor) > 1)) {
          refuse("workload.precision", "precision", "torchtitan trains in fp32 unless ranks shard weights",
                 {"Set data to 2 or more, with zero_stage 3, or precision to fp32."});
        }
        if (workload_.master_weights && gradient_dtype(workload_) != DType::f32) {
          refuse("workload.gradient_dtype", "gradients", "torchtitan sums gradients in f32",
                 {"Leave out gradient_dtype."});
        }
        break;
      case Precision::fp64:
      case Precision::fp16:
        refuse("workload.precision", "precision", "torchtitan trains in fp32, bf16 or fp8", {"Set precision to bf16."});
        break;
    }
    if (workload_.optimizer.kind != OptimizerKind::adam) {
      refuse("workload.optimizer", "optimizer", fmt::format("torchtitan has no {}", name_of(workload_.optimizer.kind)),
             {"Use adam."});
    }
    if (moment_dtype(workload_) != state_dtype(workload_)) {
      refuse("workload.moment_dtype", "optimizer", "torchtitan keeps moments in the type of the weights",
             {"Leave out moment_dtype."});
    }
    if (workload_.hidden_dropout > 0.0 || workload_.attention_dropout > 0.0) {
      refuse("workload.dropout", "model", "torchtitan's models have no dropout", {"Set dropout to 0."});
    }
    if (model_.mixture && workload_.routing.capacity) {
      refuse("workload.routing.capacity", "routing", "torchtitan drops no tokens", {"Leave out capacity."});
    }
    if (model_.mixture && workload_.routing.auxiliary_loss > 0.0) {
      refuse("workload.routing.auxiliary_loss", "routing", "torchtitan balances experts by a bias of their scores",
             {"Set auxiliary_loss to 0."});
    }
  }

  const PlannedRun& run_;
  const Plan& plan_;
  const ModelSpec& model_;
  const Workload& workload_;
  Diagnostics& out_;
};

}  // namespace

bool torchtitan_can_say(const PlannedRun& run, Diagnostics& out) {
  const std::size_t before = out.size();
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
