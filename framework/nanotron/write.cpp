#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/launch/plan_refusals.hpp"
#include "framework/nanotron/writing.hpp"

namespace orrery {
namespace {

class Writer {
 public:
  explicit Writer(const PlannedRun& run) : plan_(run.plan), model_(run.model), workload_(run.workload), run_(run) {}

  std::string text() {
    launch();
    general();
    model();
    optimizer();
    parallelism();
    tokens();
    return out_;
  }

 private:
  [[nodiscard]] std::uint32_t size(Axis a) const { return plan_.mesh.size(a); }
  /// Lines "key: value" of a table, by the depth of its keys.
  template <class T>
  void line(int depth, std::string_view key, const T& value) {
    out_ += fmt::format("{:{}}{}: {}\n", "", 2 * depth, key, value);
  }
  void table(int depth, std::string_view key) { out_ += fmt::format("{:{}}{}:\n", "", 2 * depth, key); }
  /// YAML 1.1 takes a number with an exponent for one only with a point in it.
  static std::string real(double value) {
    std::string text = fmt::format("{}", value);
    const std::size_t e = text.find('e');
    if (text.find('.') != std::string::npos) return text;
    return e == std::string::npos ? text + ".0" : text.substr(0, e) + ".0" + text.substr(e);
  }

  void launch() {
    const std::uint64_t world = plan_.mesh.size();
    const std::uint64_t node = run_.cluster ? run_.cluster->devices_per_node : 8;
    const std::uint64_t per_node = std::min(world, node);
    out_ = fmt::format(
        "# {} for nanotron, on {} ranks. Saved as run.yaml, it is launched on each node by\n"
        "#   CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes={} --nproc_per_node={} --rdzv_backend=c10d \\\n"
        "#     --rdzv_endpoint=$HEAD_NODE:29500 run_train.py --config-file run.yaml\n",
        plan_.name.empty() ? "A plan" : plan_.name, world, (world + per_node - 1) / per_node, per_node);
    if (!model_.rope_scaling.empty()) out_ += "# nanotron does not stretch the model's rotary angles.\n";
  }

  void general() {
    table(0, "general");
    line(1, "project", "orrery");
    line(1, "run", "plan");
    line(1, "seed", workload_.seed);
    line(1, "ignore_sanity_checks", true);
    table(0, "checkpoints");
    line(1, "checkpoints_path", "checkpoints");
    line(1, "checkpoint_interval", 1000);
    table(0, "data_stages");
    out_ += "- name: stage\n  start_training_step: 1\n  data:\n    dataset: null\n    seed: 42\n";
  }

  void model() {
    table(0, "model");
    line(1, "dtype", workload_.precision == Precision::fp32 ? "float32" : "bfloat16");
    line(1, "make_vocab_size_divisible_by", 1);
    if (size(Axis::data) * std::uint64_t{size(Axis::context)} > 1) line(1, "ddp_bucket_cap_mb", bucket());
    table(1, "init_method");
    line(2, "std", 0.02);
    table(1, "model_config");
    const ModelSpec& m = model_;
    line(2, "is_qwen2_config", true);
    line(2, "hidden_size", m.hidden);
    line(2, "intermediate_size", m.ffn);
    line(2, "num_hidden_layers", m.layers);
    line(2, "num_attention_heads", m.heads);
    line(2, "num_key_value_heads", m.kv_heads);
    line(2, "vocab_size", m.vocabulary);
    line(2, "max_position_embeddings", std::max(m.max_positions, workload_.sequence_length));
    line(2, "hidden_act", m.activation == Activation::geglu ? "gelu" : "silu");
    line(2, "rms_norm_eps", real(m.norm_epsilon));
    line(2, "rope_theta", real(m.rope_theta));
    line(2, "tie_word_embeddings", m.tied_embeddings);
    line(2, "attention_bias", m.biases.qkv);
    if (m.local) line(2, "sliding_window_size", m.local->size);
    if (m.unrotated.every > 0) line(2, "no_rope_layer", m.unrotated.every);
    const bool ring = plan_.context == ContextAlgorithm::ring;
    const bool cut = size(Axis::context) > 1;
    line(2, "_attn_implementation", !cut ? "flash_attention_2" : ring ? "ring" : "llama3_ring_attention");
    if (cut && !ring) line(2, "ring_attn_heads_k_stride", 1);
  }

  /// Whole MiB, at least 1.
  [[nodiscard]] std::uint64_t bucket() const {
    constexpr double mib = 1024.0 * 1024.0;
    const double bytes = plan_.gradient_bucket ? plan_.gradient_bucket->base() : 25 * mib;
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(std::min(bytes / mib, 0x1p20))));
  }

  void optimizer() {
    const Optimizer& o = workload_.optimizer;
    const LearningRateSchedule& s = workload_.schedule;
    const bool constant = s.kind == ScheduleKind::constant;
    table(0, "optimizer");
    line(1, "zero_stage", zero_in_force(plan_));
    line(1, "weight_decay", real(o.weight_decay));
    line(1, "clip_grad", workload_.clip_norm ? real(*workload_.clip_norm) : "null");
    line(1, "accumulate_grad_in_fp32", true);
    table(1, "optimizer_factory");
    line(2, "name", "adamW");
    line(2, "adam_beta1", real(o.beta1));
    line(2, "adam_beta2", real(o.beta2));
    line(2, "adam_eps", real(o.epsilon));
    line(2, "torch_adam_is_fused", true);
    table(1, "learning_rate_scheduler");
    line(2, "learning_rate", real(o.learning_rate));
    line(2, "lr_warmup_steps", s.warmup_steps);
    line(2, "lr_warmup_style", "linear");
    line(2, "lr_decay_style", s.kind == ScheduleKind::cosine ? "cosine" : "linear");
    line(2, "lr_decay_steps", constant ? usual_steps : s.total_steps - s.warmup_steps);
    // A fall to the rate itself is none.
    line(2, "min_decay_lr", real(constant ? o.learning_rate : o.learning_rate * s.minimum_ratio));
  }

  void parallelism() {
    table(0, "parallelism");
    line(1, "dp", size(Axis::data));
    line(1, "pp", size(Axis::pipeline));
    line(1, "tp", size(Axis::tensor));
    line(1, "context_parallel_size", size(Axis::context));
    line(1, "expert_parallel_size", 1);
    line(1, "pp_engine", plan_.schedule == ScheduleName::gpipe ? "afab" : "1f1b");
    line(1, "tp_mode", plan_.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE");
    line(1, "tp_linear_async_communication", plan_.sequence_parallel);
    line(1, "recompute_layer", plan_.recompute == Recompute::full);
  }

  void tokens() {
    const LearningRateSchedule& s = workload_.schedule;
    table(0, "tokens");
    line(1, "sequence_length", workload_.sequence_length);
    line(1, "micro_batch_size", plan_.microbatch_size);
    line(1, "batch_accumulation_per_replica", microbatches(plan_, workload_));
    line(1, "train_steps", s.kind == ScheduleKind::constant ? s.warmup_steps + usual_steps : s.total_steps);
  }

  static constexpr std::uint64_t usual_steps = 1000;
  const Plan& plan_;
  const ModelSpec& model_;
  const Workload& workload_;
  const PlannedRun& run_;
  std::string out_;
};

}  // namespace

std::optional<std::string> write_nanotron(const PlannedRun& run, Diagnostics& out) {
  if (!nanotron_can_say(run, out)) return std::nullopt;
  return Writer(run).text();
}

}  // namespace orrery
