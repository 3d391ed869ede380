#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/spec/spec_files.hpp"
#include "framework/colossal_ai/parts.hpp"
#include "framework/launch/plan_refusals.hpp"

// A plan as the call of HybridParallelPlugin, or of MoeHybridParallelPlugin where experts are split.

namespace orrery {
namespace {

class Writer {
 public:
  Writer(const PlannedRun& run, Diagnostics& d)
      : run_(run), p_(run.plan), w_(run.workload), no_(run, "Colossal-AI", d) {}

  std::optional<std::string> text() {
    refuse_plan();
    if (!no_.none()) return std::nullopt;
    const std::uint64_t ranks = std::uint64_t{size(Axis::data)} * size(Axis::expert);
    std::string out = fmt::format(
        "# {} sequences in a step, {} tokens each; {} microbatches on each of {} data-parallel ranks.\n"
        "# Gradients are summed in the type of the weights.\n"
        "# colossalai run --nproc_per_node GPUS train.py, {} GPUs in all.\n",
        w_.global_batch, w_.sequence_length, w_.global_batch / (ranks * p_.microbatch_size), ranks, p_.mesh.size());
    out += imports();
    sizes();
    states();
    precision();
    out += fmt::format("plugin = {}(\n{})\n{}", moe() ? "MoeHybridParallelPlugin" : "HybridParallelPlugin", arguments_,
                       optimizer_call());
    return out;
  }

 private:
  [[nodiscard]] std::uint32_t size(Axis axis) const { return p_.mesh.size(axis); }
  [[nodiscard]] bool moe() const { return size(Axis::expert) > 1; }
  [[nodiscard]] bool ring() const { return size(Axis::context) > 1 && p_.context == ContextAlgorithm::ring; }
  [[nodiscard]] bool stages() const { return size(Axis::pipeline) > 1; }
  /// ZeRO's stage; 0 where no ranks share states.
  [[nodiscard]] std::uint32_t zero() const { return zero_in_force(p_); }
  template <class T>
  void argument(const char* name, const T& value) {
    arguments_ += fmt::format("    {}={},\n", name, value);
  }
  void flag(const char* name, bool on) { argument(name, on ? "True" : "False"); }

  void refuse_plan() {
    no_.one_d_tensor();
    no_.whole_kv_heads();
    no_.whole_kv_heads_of_ulysses();
    no_.no_folding();
    no_.sends_rows();
    no_.no_placement();
    no_.no_algorithm();
    no_.whole_loss();
    no_.no_chunks();
    no_.no_offloaded_weights();
    no_.on_host();
    no_.single(Axis::replica, "HybridParallelPlugin has one data axis");
    if (zero() == 3) {
      no_.refuse("plan.zero_stage", "zero", "HybridParallelPlugin shards states and gradients",
                 {"zero_stage is 3.", "Set it to 2."});
    }
    if (zero() == 2 && (stages() || moe())) {
      no_.refuse("plan.zero_stage", "zero", "Colossal-AI's pipelines and experts stop at ZeRO-1",
                 {"Set zero_stage to 1."});
    }
    if (stages() && p_.schedule != ScheduleName::one_f_one_b && p_.schedule != ScheduleName::interleaved &&
        p_.schedule != ScheduleName::zb_v) {
      no_.refuse("plan.schedule", "schedule", "Colossal-AI does not run this schedule",
                 {"Set schedule to 1f1b, interleaved or zb-v."});
    }
    no_.no_order_alone();
    if (stages() && p_.schedule == ScheduleName::zb_v && p_.action_times != ActionTimes()) {
      no_.refuse("plan.action_times", "schedule", "the times of ZB-V's search are the script's",
                 {"Leave out action_times."});
    }
    refuse_sequences();
    if (p_.recompute == Recompute::selective) {
      no_.refuse("plan.recompute", "recompute", "Colossal-AI checkpoints layers, not parts of them",
                 {"Set recompute to full or none."});
    }
    if (p_.offload_activations.value_or(0) > 0) {
      no_.refuse("plan.offload_activations", "offload", "the plugin keeps activations on the device",
                 {"Leave out offload_activations."});
    }
    const std::uint32_t states = p_.offload_states.value_or(0);
    if (states > 0 && (states < 8 || zero() == 0)) {
      no_.refuse("plan.offload_states", "offload", "the plugin offloads all states or none, with ZeRO",
                 {fmt::format("offload_states is {}.", states), "Set it to 0 or 8."});
    }
    if (shard_axes_of(p_).count > 0) {
      const bool overlap = p_.overlap_gradients.value_or(true);
      if (overlap && (stages() || (moe() && zero() > 0))) {
        no_.refuse("plan.overlap_gradients", "overlap",
                   "the plugin sums gradients behind a pipeline's last backward pass",
                   {"Set overlap_gradients to false."});
      } else if (!overlap && !stages() && zero() == 0) {
        no_.refuse("plan.overlap_gradients", "overlap", "PyTorch's DDP reduces gradients beside the backward pass",
                   {"Set overlap_gradients to true."});
      }
    }
  }

  void refuse_sequences() {
    if (size(Axis::context) > 1) {
      if (p_.sequence_parallel) {
        no_.refuse("plan.sequence_parallel", "sequence-parallel", "the plugin has one way to split sequences",
                   {"Set sequence_parallel to false, or context to 1."});
      }
      if (p_.context != ContextAlgorithm::ulysses && p_.context != ContextAlgorithm::ring) {
        no_.refuse("plan.context", "context", "the plugin splits sequences by a ring or all-to-all",
                   {"Set context to ring or ulysses."});
      } else if (ring() && !p_.zigzag) {
        no_.refuse("plan.zigzag", "zigzag", "Colossal-AI's ring balances causal work", {"Set zigzag to true."});
      }
    }
    if (colossal_order(run_)) return;
    no_.refuse(
        "mesh.order", "mesh-order", "Colossal-AI lays out ranks in another order",
        {"Its orders are pipeline, data, expert, tensor, context, outermost first, with pipeline first or behind "
         "data; a ring of context ranks lies outside tensor."});
  }

  /// Whether the data axis lies outside the pipeline.
  [[nodiscard]] bool data_outside() const {
    for (const MeshAxis& a : p_.mesh.axes) {
      if (a.axis == Axis::data && a.size > 1) return true;
      if (a.axis == Axis::pipeline && a.size > 1) return false;
    }
    return true;
  }

  [[nodiscard]] std::string imports() const {
    std::string out = fmt::format("from colossalai.booster.plugin import {}\n",
                                  moe() ? "MoeHybridParallelPlugin" : "HybridParallelPlugin");
    switch (w_.optimizer.kind) {
      case OptimizerKind::adam: out += "from colossalai.nn.optimizer import HybridAdam\n"; break;
      case OptimizerKind::lamb: out += "from colossalai.nn.optimizer import FusedLAMB\n"; break;
      case OptimizerKind::sgd:
      case OptimizerKind::lars:
      case OptimizerKind::adafactor: out = "import torch\n" + out; break;
    }
    if (p_.recompute == Recompute::full) out += "from colossalai.shardformer import PipelineGradientCheckpointConfig\n";
    if (stages() && p_.schedule == ScheduleName::zb_v) {
      out += fmt::format(
          "from colossalai.pipeline.schedule.v_schedule import PipelineGraph\n"
          "nodes = PipelineGraph(n_stage={}, n_micro={}, f_cost=1, b_cost=1, w_cost=1, c_cost=0, f_mem=2, b_mem=-1, "
          "w_mem=-1).get_v_schedule()\n",
          size(Axis::pipeline), microbatches(p_, w_));
    }
    return out;
  }

  void sizes() {
    argument("tp_size", size(Axis::tensor));
    argument("pp_size", size(Axis::pipeline));
    if (moe()) argument("ep_size", size(Axis::expert));
    if (size(Axis::context) > 1) {
      argument("sp_size", size(Axis::context));
      flag("enable_sequence_parallelism", true);
      argument("sequence_parallelism_mode", ring() ? "\"ring_attn\"" : "\"all_to_all\"");
      if (ring() && p_.inner_ring > 0) argument("inner_ring_size", p_.inner_ring);
    } else if (p_.sequence_parallel) {
      flag("enable_sequence_parallelism", true);
      argument("sequence_parallelism_mode", "\"split_gather\"");
    }
    if (!data_outside()) flag(moe() ? "moe_dp_outside" : "dp_outside", false);
    argument("microbatch_size", p_.microbatch_size);
    if (!stages()) return;
    if (p_.schedule != ScheduleName::one_f_one_b) {
      argument("pp_style", p_.schedule == ScheduleName::zb_v ? "\"zbv\"" : "\"interleaved\"");
      argument("num_model_chunks", p_.chunks);
      if (p_.schedule == ScheduleName::zb_v) argument("scheduler_nodes", "nodes");
    }
    argument("num_layers_per_stage", fmt::format("[{}]", fmt::join(*p_.stage_layers, ", ")));
  }

  void states() {
    argument("zero_stage", zero());
    if (zero() > 0) {
      const bool overlap = p_.overlap_gradients.value_or(true);
      if (!moe() && !stages()) flag("overlap_communication", overlap);
      if (p_.offload_states.value_or(0) == 8) flag("cpu_offload", true);
    }
    const double mega = 1024.0 * 1024.0;
    const double unit = zero() == 0 ? mega : mega * (w_.precision == Precision::fp32 ? 4.0 : 2.0);
    argument(zero() > 0 ? "zero_bucket_size_in_m" : "ddp_bucket_cap_mb",
             std::max<std::int64_t>(1, std::llround(p_.gradient_bucket->base() / unit)));
    if (p_.recompute != Recompute::full) return;
    std::string config = "gradient_checkpointing_ratio=1.0";
    if (p_.recompute_layers) {
      std::vector<std::uint32_t> counts = *p_.recompute_layers;
      // On a V the second chunk's numbers stand in the order of ranks, not of the model.
      if (stages() && p_.schedule == ScheduleName::zb_v)
        std::reverse(counts.begin() + size(Axis::pipeline), counts.end());
      config = fmt::format("num_ckpt_layers_per_stage=[{}]", fmt::join(counts, ", "));
    }
    argument("gradient_checkpoint_config", fmt::format("PipelineGradientCheckpointConfig({})", config));
  }

  void precision() {
    const Precision p = w_.precision;
    argument("precision", p == Precision::fp32 ? "\"fp32\"" : p == Precision::fp16 ? "\"fp16\"" : "\"bf16\"");
    if (p == Precision::fp8) flag("use_fp8", true);
    if (p == Precision::fp16) {
      argument("initial_scale", w_.loss_scale);
      argument("growth_interval", w_.loss_scale_window);
    }
    if (w_.clip_norm) argument("max_norm", *w_.clip_norm);
    if (*p_.attention == AttentionKernel::flash) flag("enable_flash_attention", true);
  }

  [[nodiscard]] std::string optimizer_call() const {
    const Optimizer& o = w_.optimizer;
    if (o.kind == OptimizerKind::sgd) {
      return fmt::format("optimizer = torch.optim.SGD(model.parameters(), lr={}, momentum={}, weight_decay=0.0)\n",
                         o.learning_rate, o.momentum);
    }
    return fmt::format("optimizer = {}(model.parameters(), lr={}, betas=({}, {}), eps={}, weight_decay={})\n",
                       o.kind == OptimizerKind::lamb ? "FusedLAMB" : "HybridAdam", o.learning_rate, o.beta1, o.beta2,
                       o.epsilon, o.weight_decay);
  }

  const PlannedRun& run_;
  const Plan& p_;
  const Workload& w_;
  PlanRefusals no_;
  std::string arguments_;
};

}  // namespace

bool colossal_order(const PlannedRun& run) {
  const Plan& p = run.plan;
  const bool ring = p.mesh.size(Axis::context) > 1 && p.context == ContextAlgorithm::ring;
  using enum Axis;
  const auto inner = [&](std::initializer_list<Axis> rings, std::initializer_list<Axis> others) {
    return stand_in_order(p.mesh, ring ? rings : others);
  };
  return inner({pipeline, data, expert, context, tensor}, {pipeline, data, expert, tensor, context}) ||
         inner({data, pipeline, expert, context, tensor}, {data, pipeline, expert, tensor, context});
}

void check_colossal_model(const ModelSpec&, const Workload& w, Diagnostics& d) {
  ModelRefusals no(w, "Colossal-AI", d);
  no.no_adapters();
  no.precisions({Precision::fp32, Precision::fp16, Precision::bf16, Precision::fp8});
  no.usual_moments();
  no.no_decay_of_sgd();
  const OptimizerKind kind = w.optimizer.kind;
  if (kind == OptimizerKind::lars || kind == OptimizerKind::adafactor) {
    no.refuse("workload.optimizer", "optimizer", fmt::format("{} is not written for Colossal-AI", name_of(kind)),
              {"Use adam, lamb or sgd."});
  }
}

std::optional<std::string> write_colossal(const PlannedRun& run, Diagnostics& d) {
  const std::size_t before = d.size();
  check_colossal_model(run.model, run.workload, d);
  auto text = Writer(run, d).text();
  return d.size() == before ? text : std::nullopt;
}

}  // namespace orrery
