#include "framework/deepspeed/write.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "core/spec/spec_files.hpp"
#include "framework/launch/plan_refusals.hpp"

namespace orrery {
namespace {

constexpr std::initializer_list<Axis> axes_in_order{Axis::replica, Axis::data, Axis::expert, Axis::context,
                                                    Axis::tensor};

/// "AdamW" with its parameters, as a JSON object.
std::string optimizer_text(const Optimizer& o) {
  switch (o.kind) {
    case OptimizerKind::adam:
    case OptimizerKind::lamb:
      return fmt::format(
          "{{\"type\": \"{}\", \"params\": {{\"lr\": {}, \"betas\": [{}, {}], \"eps\": {}, \"weight_decay\": {}}}}}",
          o.kind == OptimizerKind::adam ? "AdamW" : "Lamb", o.learning_rate, o.beta1, o.beta2, o.epsilon,
          o.weight_decay);
    case OptimizerKind::sgd:
    case OptimizerKind::lars:
    case OptimizerKind::adafactor: break;  // the last two are refused
  }
  return fmt::format("{{\"type\": \"SGD\", \"params\": {{\"lr\": {}, \"momentum\": {}, \"weight_decay\": 0}}}}",
                     o.learning_rate, o.momentum);
}

class Writer {
 public:
  Writer(const PlannedRun& run, Diagnostics& d)
      : run_(run), p_(run.plan), w_(run.workload), d_(d), no_(run, "DeepSpeed", d) {}

  std::optional<std::string> text() {
    check_deepspeed_model(run_.model, w_, d_);
    refuse_plan();
    if (!no_.none()) return std::nullopt;
    batch();
    types();
    zero();
    others();
    optimizer();
    return "{\n" + out_ + "\n}\n";
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += (out_.empty() ? "  " : ",\n  ") + fmt::format(format, std::forward<Args>(args)...);
  }

  void refuse_plan() {
    no_.one_d_tensor();
    no_.whole_kv_heads();
    no_.no_folding();
    no_.sends_rows();
    no_.no_placement();
    no_.no_algorithm();
    no_.whole_loss();
    no_.no_pipeline("DeepSpeed's stages are modules of the script");
    no_.no_chunks();
    no_.no_offloaded_weights();
    no_.no_tensor_sequences();
    no_.order(axes_in_order);
    if (p_.mesh.size(Axis::context) > 1 && p_.context != ContextAlgorithm::ulysses) {
      no_.refuse("plan.context", "context", "DeepSpeed splits sequences as Ulysses does", {"Set context to ulysses."});
    }
    if (p_.mesh.size(Axis::replica) > 1 && p_.zero_stage != 3) {
      no_.refuse("mesh.replica", "replica", "DeepSpeed has replicas of shards in ZeRO-3 alone (MiCS)",
                 {"Set replica to 1, and data to the product of both."});
    }
    if (p_.zero_stage == 3 && !p_.reshard_after_forward) {
      no_.refuse("plan.reshard_after_forward", "reshard",
                 "DeepSpeed's ZeRO-3 gathers weights again for the backward pass",
                 {"Set reshard_after_forward to true."});
    }
    if (p_.zero_stage == 0 && p_.overlap_gradients.value_or(false) && shard_axes_of(p_).count > 0) {
      no_.refuse("plan.overlap_gradients", "overlap", "DeepSpeed without ZeRO sums gradients behind the backward pass",
                 {"Set overlap_gradients to false, or zero_stage to 1."});
    }
    if (p_.recompute == Recompute::selective) {
      no_.refuse("plan.recompute", "recompute", "DeepSpeed checkpoints layers, not parts of them",
                 {"Set recompute to full or none."});
    } else if (p_.recompute == Recompute::full && p_.recompute_layers) {
      no_.refuse("plan.recompute_layers", "recompute-layers", "the file cannot say which layers are recomputed",
                 {"Leave out recompute_layers."});
    }
    refuse_offload();
    const double size = static_cast<double>(size_of(gradient_dtype(w_)));
    if (std::fmod(p_.gradient_bucket->base(), size) != 0.0) {
      no_.refuse("plan.gradient_bucket", "bucket", "DeepSpeed counts buckets in gradients",
                 {fmt::format("{} bytes are no whole number of gradients.", p_.gradient_bucket->base())});
    }
    if (w_.optimizer.kind == OptimizerKind::lamb && p_.zero_stage > 0) {
      no_.refuse("plan.zero_stage", "optimizer", "DeepSpeed's Lamb takes norms of whole matrices, which ZeRO shards",
                 {"Set zero_stage to 0, or use adam."});
    }
  }

  void refuse_offload() {
    const std::uint32_t states = p_.offload_states.value_or(0);
    const bool disk = p_.states_tier == OffloadTier::disk;
    if (states > 0 && p_.zero_stage == 0) {
      no_.refuse("plan.offload_states", "offload", "DeepSpeed offloads states in ZeRO alone", {"Set zero_stage to 1."});
    } else if (states > 0 && states < 8 && (p_.zero_stage < 3 || disk)) {
      no_.refuse("plan.offload_states", "offload",
                 "DeepSpeed offloads a part of the states in ZeRO-3 to the host alone",
                 {fmt::format("offload_states is {}.", states), "Set it to 0 or 8."});
    }
    if (states > 0 && disk && p_.zero_stage < 3) {
      no_.refuse("plan.states_tier", "offload", "DeepSpeed offloads to disk in ZeRO-3 alone",
                 {"Leave out states_tier."});
    }
    const std::uint32_t activations = p_.offload_activations.value_or(0);
    if (activations > 0 &&
        (activations < 8 || p_.recompute != Recompute::full || p_.activations_tier == OffloadTier::disk)) {
      no_.refuse("plan.offload_activations", "offload", "DeepSpeed keeps all checkpoints in host memory or none",
                 {"Set offload_activations to 0, or to 8 with recompute full."});
    }
  }

  void batch() {
    const std::uint64_t ranks =
        std::uint64_t{p_.mesh.size(Axis::data)} * p_.mesh.size(Axis::replica) * p_.mesh.size(Axis::expert);
    line("\"train_batch_size\": {}", w_.global_batch);
    line("\"train_micro_batch_size_per_gpu\": {}", p_.microbatch_size);
    line("\"gradient_accumulation_steps\": {}", w_.global_batch / (ranks * p_.microbatch_size));
    if (const auto c = p_.mesh.size(Axis::context); c > 1) line("\"sequence_parallel_size\": {}", c);
    if (const auto t = p_.mesh.size(Axis::tensor); t > 1) line("\"tensor_parallel\": {{\"autotp_size\": {}}}", t);
    if (const auto e = p_.mesh.size(Axis::expert); e > 1) {
      line("\"expert_parallel\": {{\"enabled\": true, \"autoep_size\": {}}}", e);
    }
  }

  void types() {
    const bool wide = gradient_dtype(w_) == DType::f32;
    const char* sums = wide ? "fp32" : w_.precision == Precision::fp16 ? "fp16" : "bf16";
    if (w_.precision == Precision::bf16) line("\"bf16\": {{\"enabled\": true}}");
    if (w_.precision == Precision::fp16) {
      line("\"fp16\": {{\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": {}, \"loss_scale_window\": {}}}",
           static_cast<int>(std::round(std::log2(w_.loss_scale))), w_.loss_scale_window);
    }
    if (w_.precision != Precision::fp32) line("\"data_types\": {{\"grad_accum_dtype\": \"{}\"}}", sums);
  }

  void zero() {
    std::string z = fmt::format("\"stage\": {}", p_.zero_stage);
    const double size = static_cast<double>(size_of(gradient_dtype(w_)));
    z +=
        fmt::format(",\n    \"reduce_bucket_size\": {}", static_cast<std::uint64_t>(p_.gradient_bucket->base() / size));
    z += fmt::format(",\n    \"overlap_comm\": {}", p_.zero_stage > 0 && *p_.overlap_gradients);
    if (p_.zero_stage == 3) {
      z += fmt::format(",\n    \"stage3_prefetch_bucket_size\": {}", p_.prefetch > 0 ? 50'000'000 : 0);
      if (p_.mesh.size(Axis::replica) > 1) {
        z += fmt::format(",\n    \"mics_shard_size\": {}", p_.mesh.size(Axis::data));
      }
    }
    if (const std::uint32_t n = p_.offload_states.value_or(0); n > 0) {
      const bool disk = p_.states_tier == OffloadTier::disk;
      const std::string ratio = n < 8 ? fmt::format(", \"ratio\": {}", n / 8.0) : "";
      z += fmt::format(",\n    \"offload_optimizer\": {{\"device\": \"{}\"{}{}}}", disk ? "nvme" : "cpu",
                       disk ? ", \"nvme_path\": \"/local_nvme\"" : "", ratio);
    }
    line("\"zero_optimization\": {{\n    {}\n  }}", z);
  }

  void others() {
    if (p_.recompute == Recompute::full) {
      line("\"activation_checkpointing\": {{\"number_checkpoints\": {}, \"cpu_checkpointing\": {}}}", run_.model.layers,
           p_.offload_activations.value_or(0) > 0);
    }
    if (w_.clip_norm) line("\"gradient_clipping\": {}", *w_.clip_norm);
    const LearningRateSchedule& s = w_.schedule;
    const std::string warm = fmt::format("\"warmup_num_steps\": {}, \"warmup_type\": \"linear\"", s.warmup_steps);
    switch (s.kind) {
      case ScheduleKind::constant:
        if (s.warmup_steps > 0) {
          line("\"scheduler\": {{\"type\": \"WarmupLR\", \"params\": {{\"warmup_max_lr\": {}, {}}}}}",
               w_.optimizer.learning_rate, warm);
        }
        break;
      case ScheduleKind::linear:
        line(
            "\"scheduler\": {{\"type\": \"WarmupDecayLR\", \"params\": {{\"total_num_steps\": {}, "
            "\"warmup_max_lr\": {}, {}}}}}",
            s.total_steps, w_.optimizer.learning_rate, warm);
        break;
      case ScheduleKind::cosine:
        line(
            "\"scheduler\": {{\"type\": \"WarmupCosineLR\", \"params\": {{\"total_num_steps\": {}, "
            "\"cos_min_ratio\": {}, {}}}}}",
            s.total_steps, s.minimum_ratio, warm);
        break;
    }
  }

  void optimizer() {
    line("\"optimizer\": {}", optimizer_text(w_.optimizer));
    // DeepSpeed asks whether an optimizer is meant that it has not tried with ZeRO.
    if (w_.optimizer.kind != OptimizerKind::adam && p_.zero_stage > 0) line("\"zero_allow_untested_optimizer\": true");
  }

  const PlannedRun& run_;
  const Plan& p_;
  const Workload& w_;
  Diagnostics& d_;
  PlanRefusals no_;
  std::string out_;
};

}  // namespace

std::optional<std::string> write_deepspeed(const PlannedRun& run, Diagnostics& d) { return Writer(run, d).text(); }

bool deepspeed_order(const PlannedRun& run) { return stand_in_order(run.plan.mesh, axes_in_order); }

void check_deepspeed_model(const ModelSpec&, const Workload& w, Diagnostics& d) {
  ModelRefusals no(w, "DeepSpeed", d);
  no.precisions({Precision::fp32, Precision::bf16, Precision::fp16});
  no.usual_moments();
  no.no_decay_of_sgd();
  const Optimizer& o = w.optimizer;
  if (o.kind == OptimizerKind::lars || o.kind == OptimizerKind::adafactor) {
    no.refuse("workload.optimizer", "optimizer", fmt::format("DeepSpeed has no {}", name_of(o.kind)),
              {"Use adam, sgd or lamb."});
  }
  if (o.kind == OptimizerKind::lamb && o.trust_clip) {
    no.refuse("workload.optimizer", "optimizer", "DeepSpeed's Lamb bounds the trust ratio, not the norm in it",
              {"Leave out trust_clip."});
  }
  if (w.precision == Precision::fp16 && std::exp2(std::round(std::log2(w.loss_scale))) != w.loss_scale) {
    no.refuse("workload.loss_scale", "loss-scale", "DeepSpeed's loss scale is a power of two",
              {fmt::format("loss_scale is {}.", w.loss_scale)});
  }
  if (w.schedule.kind == ScheduleKind::linear && w.schedule.minimum_ratio != 0.0) {
    no.refuse("workload.schedule", "schedule", "DeepSpeed's linear rate falls to 0",
              {fmt::format("minimum_ratio is {}.", w.schedule.minimum_ratio)});
  }
}

std::vector<AbilityRule> deepspeed_rules(const ModelSpec&, const Workload& w) {
  if (w.optimizer.kind != OptimizerKind::lamb) return {};
  return {{"", "zero=0", "DeepSpeed's Lamb takes norms of whole matrices, which ZeRO shards"}};
}

}  // namespace orrery
