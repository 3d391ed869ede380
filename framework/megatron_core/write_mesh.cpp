#include <fmt/ranges.h>

#include <algorithm>

#include "core/plan/plan_names.hpp"
#include "framework/launch/launch_sizes.hpp"
#include "framework/launch/plan_refusals.hpp"
#include "framework/megatron_core/flag_writer.hpp"

namespace orrery {
namespace {

bool pipeline_first(const Mesh& mesh) {
  using enum Axis;
  return stand_in_order(mesh, {pipeline, replica, data, expert, context, tensor});
}
bool data_first(const Mesh& mesh) {
  using enum Axis;
  return stand_in_order(mesh, {replica, data, pipeline, expert, context, tensor});
}

void mesh_order(FlagWriter& w) {
  if (w.plan().tensor != TensorAlgorithm::one_d) {
    w.refuse("plan.tensor", "tensor", "Megatron-LM has only 1D tensor parallelism",
             {fmt::format("tensor is {}.", name_of(w.plan().tensor)), "Set it to 1d, with the axis tensor."});
    return;
  }
  if (pipeline_first(w.plan().mesh)) return;
  if (data_first(w.plan().mesh)) return w.flag("--use-tp-pp-dp-mapping");
  w.refuse("mesh.order", "mesh-order", "Megatron-LM keeps the tensor axis innermost, then context, expert and data",
           {"Its orders are pipeline, replica, data, expert, context, tensor, outermost first, with pipeline first or "
            "behind data."});
}

void schedule(FlagWriter& w) {
  const Plan& plan = w.plan();
  const std::uint32_t p = w.size(Axis::pipeline);
  w.shared().no_order_alone();
  if (p == 1 || plan.schedule == ScheduleName::one_f_one_b || plan.schedule == ScheduleName::interleaved) return;
  w.refuse("plan.schedule", "schedule",
           plan.schedule == ScheduleName::gpipe ? std::string("Megatron-LM does not run GPipe")
                                                : fmt::format("schedule {} is not exported", name_of(plan.schedule)),
           {"Its schedule with one chunk per stage is 1F1B.", "Set schedule to 1f1b."});
}

void layout(FlagWriter& w) {
  const std::vector<std::uint32_t>& layers = *w.plan().stage_layers;
  std::string text = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += "|";
    if (layers[i] > 0) text += fmt::format("t*{}", layers[i]);
  }
  if (w.model().prediction_modules > 0) text += fmt::format("m*{}", w.model().prediction_modules);
  w.flag("--pipeline-model-parallel-layout", text + "L");
}

void stages(FlagWriter& w) {
  const std::uint32_t p = w.size(Axis::pipeline);
  if (p == 1) return;
  const Plan& plan = w.plan();
  const std::vector<std::uint32_t>& layers = *plan.stage_layers;
  const bool even = std::equal(layers.begin() + 1, layers.end(), layers.begin());
  if (plan.chunks > 1 && even) return w.flag("--num-virtual-stages-per-pipeline-rank", plan.chunks);
  if (even) return;
  const bool bare = std::find(layers.begin(), layers.end(), 0U) != layers.end();  // only a layout says so
  if (bare) return layout(w);
  if (plan.chunks == 1 && p == 2) return w.flag("--decoder-first-pipeline-num-layers", layers.front());
  if (plan.chunks == 1 && std::equal(layers.begin() + 2, layers.end() - 1, layers.begin() + 1)) {
    if (layers.front() != layers[1]) w.flag("--decoder-first-pipeline-num-layers", layers.front());
    if (layers.back() != layers[1]) w.flag("--decoder-last-pipeline-num-layers", layers.back());
    return;
  }
  layout(w);
}

void context(FlagWriter& w) {
  const Plan& plan = w.plan();
  const std::uint32_t c = w.size(Axis::context);
  if (c == 1) return;
  w.flag("--context-parallel-size", c);
  switch (plan.context) {
    case ContextAlgorithm::ring: w.flag("--cp-comm-type", "p2p"); break;
    case ContextAlgorithm::all_gather: w.flag("--cp-comm-type", "all_gather"); break;
    case ContextAlgorithm::ulysses: w.flag("--cp-comm-type", "a2a"); break;
    case ContextAlgorithm::ring_self_attention:
      w.refuse("plan.context", "context", "Megatron-LM has no rings that keep scores",
               {"Set context to ring, all_gather or ulysses."});
      return;
  }
  if (plan.context != ContextAlgorithm::ulysses && !plan.zigzag) {
    w.refuse("plan.zigzag", "context", "Megatron-LM gives each rank an early and a late part of a sequence",
             {"Set zigzag to true."});
  }
  if (plan.inner_ring > 0)
    w.refuse("plan.inner_ring", "context", "the export has no flags for double rings", {"Leave out inner_ring."});
}

void experts(FlagWriter& w) {
  if (!w.model().mixture) return;
  const std::optional<std::uint64_t> ranks = laid_out_expert_ranks(w.plan());
  w.flag("--expert-model-parallel-size", ranks.value_or(w.size(Axis::expert)));
  w.flag("--expert-tensor-parallel-size", folds_tensor(w.plan()) ? 1 : w.size(Axis::tensor));
  if (!ranks) {
    w.refuse("mesh.expert", "mixture", "Megatron-LM's expert ranks take in those of the context axis first",
             {"Fold experts over context (expert_folding), or set context or expert to 1."});
  }
  if (w.size(Axis::tensor) > 1 && !w.plan().sequence_parallel) {
    w.refuse("plan.sequence_parallel", "mixture",
             "Megatron-LM trains experts on tensor ranks with sequence parallelism",
             {"Set sequence_parallel to true."});
  }
}

void sharding(FlagWriter& w) {
  const Plan& plan = w.plan();
  const std::uint32_t zero = zero_in_force(plan), r = w.size(Axis::replica);
  if (zero == 0 && r > 1) {
    w.refuse("mesh.replica", "replica", "Megatron-LM copies what ZeRO shards, and zero_stage is 0",
             {"Set replica to 1, and data to the product of both."});
  }
  if (zero == 1) w.flag("--use-distributed-optimizer");
  if (zero > 1) {
    w.flag("--use-megatron-fsdp");
    w.flag("--data-parallel-sharding-strategy", zero == 2 ? "optim_grads" : "optim_grads_params");
    w.flag("--ckpt-format", "fsdp_dtensor");
    const bool usual = zero == 2 || (plan.reshard_after_forward && plan.prefetch == 1);
    if (!usual || plan.parameter_chunk != Bytes() || w.size(Axis::pipeline) > 1 || !*plan.overlap_gradients) {
      w.refuse("plan.zero_stage", "zero",
               "Megatron-FSDP gathers whole layers ahead, frees them after use, reduces beside the backward pass, and "
               "has no pipeline here",
               {"Leave out reshard_after_forward, prefetch and parameter_chunk, set overlap_gradients to true and "
                "pipeline to 1; or set zero_stage to 1."});
    }
  }
  if (r > 1) w.flag("--num-distributed-optimizer-instances", r);
  const std::uint32_t copies = w.size(Axis::data) * w.size(Axis::expert) * w.size(Axis::context) * r;
  if ((copies > 1 || zero > 1) && *plan.overlap_gradients) {
    w.flag("--overlap-grad-reduce");
    if (zero > 1) return;
    // Counted in gradients, not in bytes.
    const double bytes = static_cast<double>(size_of(gradient_dtype(w.workload())));
    w.flag("--ddp-bucket-size", static_cast<std::uint64_t>(plan.gradient_bucket->base() / bytes));
  }
}

void offload(FlagWriter& w) {
  const Plan& plan = w.plan();
  const std::uint32_t eighths = plan.offload_states.value_or(0);
  if (eighths > 0) {
    w.flag("--optimizer-cpu-offload");
    w.flag("--optimizer-offload-fraction", static_cast<double>(eighths) / 8.0);
  }
  if (eighths > 0 && plan.states_tier == OffloadTier::disk) {
    w.refuse("plan.states_tier", "offload", "Megatron-LM has no flags for states on disk",
             {"Set states_tier to host."});
  }
  if (plan.offload_parameters != 0U) {
    w.refuse("plan.offload_parameters", "offload", "the export has no flags for parameters in host memory",
             {"Leave out offload_parameters."});
  }
  if (plan.offload_activations != 0U) {
    w.refuse("plan.offload_activations", "offload", "the export has no flags for activations in host memory",
             {"Leave out offload_activations."});
  }
}

}  // namespace

bool megatron_order(const PlannedRun& run) { return pipeline_first(run.plan.mesh) || data_first(run.plan.mesh); }

void write_megatron_mesh(FlagWriter& w) {
  const Plan& plan = w.plan();
  w.flag("--tensor-model-parallel-size", w.size(Axis::tensor));
  w.flag("--pipeline-model-parallel-size", w.size(Axis::pipeline));
  if (plan.sequence_parallel) w.flag("--sequence-parallel");
  mesh_order(w);
  if (!plan.placement.empty()) {
    w.refuse("mesh.placement", "placement", "Megatron-LM has no flag for the placement of ranks",
             {"It puts rank i on device i.  Order the launcher's hosts instead, and leave the placement out."});
  }
  w.shared().whole_kv_heads_of_ulysses();
  if (plan.loss_chunks > 1) {
    w.refuse("plan.loss_chunks", "loss-chunks", "Megatron-LM makes the loss in one piece", {"Leave out loss_chunks."});
  }
  if (plan.collective_algorithm) {
    w.refuse("plan.collective_algorithm", "algorithm", "Megatron-LM has no flag for the algorithm of collectives",
             {"The communication library chooses it; leave the override out."});
  }
  schedule(w);
  context(w);
  experts(w);
  offload(w);
  stages(w);
  sharding(w);
  w.flag("--micro-batch-size", plan.microbatch_size);
  w.flag("--global-batch-size", w.workload().global_batch);
  w.flag("--seq-length", w.workload().sequence_length);
}

void write_megatron_kernels(FlagWriter& w) {
  const Plan& plan = w.plan();
  w.flag("--attention-backend", *plan.attention == AttentionKernel::flash ? "flash" : "unfused");
  const auto& layers = plan.recompute_layers;
  if (plan.recompute == Recompute::selective) {
    w.flag("--recompute-granularity", "selective");
    std::string modules;
    for (std::uint8_t m = 0; m < recompute_module_count; ++m) {
      if (!has_module(plan.recompute_modules, static_cast<RecomputeModule>(m))) continue;
      modules += (modules.empty() ? "" : " ") + std::string(recompute_module_names()[m]);
    }
    w.flag("--recompute-modules", modules);
    const ModelSpec& model = w.model();
    if (has_module(plan.recompute_modules, RecomputeModule::layernorm) && !model.mixture && !model.latent) {
      w.refuse("plan.recompute_modules", "recompute-modules",
               "Megatron-LM's norms are a part of the products behind them, and are kept",
               {"Leave layernorm out of recompute_modules."});
    }
    if (layers && *layers != *plan.stage_layers) {
      w.refuse("plan.recompute_layers", "recompute-layers", "Megatron-LM recomputes modules of all layers or none",
               {"Leave out recompute_layers."});
    }
    return;
  }
  if (plan.recompute == Recompute::none) return;
  w.flag("--recompute-granularity", "full");
  if (!layers) {
    w.flag("--recompute-method", "uniform");
    w.flag("--recompute-num-layers", 1);
    return;
  }
  // The first N layers of each virtual stage, as here, or all where there are fewer.
  const std::uint32_t n = layers->empty() ? 0 : *std::max_element(layers->begin(), layers->end());
  bool same = n > 0;
  for (std::size_t s = 0; s < layers->size(); ++s) {
    const std::uint32_t all = plan.stage_layers && s < plan.stage_layers->size() ? (*plan.stage_layers)[s] : n;
    same = same && (*layers)[s] == std::min(n, all);
  }
  w.flag("--recompute-method", "block");
  w.flag("--recompute-num-layers", n);
  if (!same) {
    w.refuse(
        "plan.recompute_layers", "recompute-layers", "Megatron-LM recomputes the same number of layers in every stage",
        {fmt::format("recompute_layers is [{}].", fmt::join(*layers, ", ")), "Set all entries to the same number."});
  }
}

}  // namespace orrery
