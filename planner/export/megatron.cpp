#include "planner/export/megatron.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/plan/plan_names.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

class Exporter {
 public:
  Exporter(const PlannedRun& run, Diagnostics& out)
      : model_(run.model), workload_(run.workload), plan_(run.plan), out_(out) {}

  std::optional<std::vector<LaunchFlag>> flags() {
    const std::size_t before = out_.size();
    parallel();
    batch();
    kernels();
    model();
    precision();
    optimizer();
    if (out_.size() != before) return std::nullopt;
    return std::move(flags_);
  }

 private:
  void flag(const char* name) { flags_.push_back({name, ""}); }
  template <class T>
  void flag(const char* name, const T& value) {
    flags_.push_back({name, fmt::format("{}", value)});
  }
  void refuse(const std::string& key, const char* code, std::string message, std::vector<std::string> details) {
    out_.error(plan_.origin, key, std::string("export.") + code, std::move(message), std::move(details));
  }

  void parallel() {
    const std::uint32_t t = plan_.mesh.size(Axis::tensor);
    const std::uint32_t p = plan_.mesh.size(Axis::pipeline);
    const std::uint32_t d = plan_.mesh.size(Axis::data);
    flag("--tensor-model-parallel-size", t);
    flag("--pipeline-model-parallel-size", p);
    if (plan_.sequence_parallel) flag("--sequence-parallel");
    order();
    if (model_.architecture != Architecture::decoder || model_.latent) {
      refuse("", "architecture", "the export has no flags for BERT, vision transformers or latent attention",
             {fmt::format("{} is not a plain causal decoder.", model_.name)});
    }
    if (plan_.tensor != TensorAlgorithm::one_d) {
      refuse("plan.tensor", "tensor", "Megatron-LM has only 1D tensor parallelism",
             {fmt::format("tensor is {}.", name_of(plan_.tensor)), "Set it to 1d, with the axis tensor."});
    }
    if (!plan_.placement.empty()) {
      refuse("mesh.placement", "placement", "Megatron-LM has no flag for the placement of ranks",
             {"It puts rank i on device i.  Order the launcher's hosts instead, and leave the placement out."});
    }
    if (plan_.collective_algorithm) {
      refuse("plan.collective_algorithm", "algorithm", "Megatron-LM has no flag for the algorithm of collectives",
             {"The communication library chooses it; leave the override out."});
    }
    if (p > 1 && plan_.schedule != ScheduleName::one_f_one_b) {
      refuse("plan.schedule", "schedule",
             plan_.schedule == ScheduleName::gpipe
                 ? std::string("Megatron-LM does not run GPipe")
                 : fmt::format("schedule {} is not exported", name_of(plan_.schedule)),
             {"Its schedule with one chunk per stage is 1F1B.", "Set schedule to 1f1b."});
    }
    if (plan_.mesh.size(Axis::replica) > 1) {
      refuse("mesh.replica", "replica", "the export has no flags for hybrid sharding",
             {"Set replica to 1, and data to the product of both."});
    }
    if (plan_.mesh.size(Axis::context) > 1) {
      refuse("mesh.context", "context", "the export has no flags for context parallelism",
             {"Set context to 1, and data to the product of both."});
    }
    if (plan_.offload_states != 0U) {
      refuse("plan.offload_states", "offload", "the export has no flags for optimizer states in host memory",
             {"Leave out offload_states."});
    }
    if (plan_.offload_parameters != 0U) {
      refuse("plan.offload_parameters", "offload", "the export has no flags for parameters in host memory",
             {"Leave out offload_parameters."});
    }
    if (plan_.offload_activations != 0U) {
      refuse("plan.offload_activations", "offload", "the export has no flags for activations in host memory",
             {"Leave out offload_activations."});
    }
    if (model_.mixture) {
      refuse("model", "mixture", "the export has no flags for mixtures of experts",
             {fmt::format("{} has {} experts.", model_.name, model_.mixture->experts)});
    }
    if (plan_.zero_stage > 1) {
      refuse("plan.zero_stage", "zero", "Megatron-LM's distributed optimizer is ZeRO-1",
             {fmt::format("zero_stage is {}.", plan_.zero_stage), "Set zero_stage to 1."});
    }
    stages(p);
    if (plan_.zero_stage == 1) flag("--use-distributed-optimizer");
    if (d > 1 && *plan_.overlap_gradients) {
      flag("--overlap-grad-reduce");
      // Counted in gradients, not in bytes.
      const double bytes = static_cast<double>(size_of(gradient_dtype(workload_)));
      flag("--ddp-bucket-size", static_cast<std::uint64_t>(plan_.gradient_bucket->base() / bytes));
    }
  }

  // The target orders ranks tensor, data, pipeline from inside, or with a flag
  // tensor, pipeline, data.
  void order() {
    std::vector<Axis> axes;
    for (const MeshAxis& a : plan_.mesh.axes) {
      if (a.size > 1) axes.push_back(a.axis);
    }
    const auto outside = [&](Axis outer, Axis inner) {
      const auto o = std::find(axes.begin(), axes.end(), outer);
      const auto i = std::find(axes.begin(), axes.end(), inner);
      return o == axes.end() || i == axes.end() || o < i;
    };
    if (!outside(Axis::data, Axis::tensor) || !outside(Axis::pipeline, Axis::tensor)) {
      refuse("mesh.order", "mesh-order", "Megatron-LM keeps the tensor axis innermost",
             {"Its orders are pipeline, data, tensor and data, pipeline, tensor, outermost first."});
    } else if (!outside(Axis::pipeline, Axis::data)) {
      flag("--use-tp-pp-dp-mapping");
    }
  }

  void stages(std::uint32_t p) {
    if (p == 1) return;
    const std::vector<std::uint32_t>& layers = *plan_.stage_layers;
    if (std::equal(layers.begin() + 1, layers.end(), layers.begin())) return;
    if (p == 2) {
      flag("--decoder-first-pipeline-num-layers", layers.front());
      return;
    }
    if (std::equal(layers.begin() + 2, layers.end() - 1, layers.begin() + 1)) {
      if (layers.front() != layers[1]) flag("--decoder-first-pipeline-num-layers", layers.front());
      if (layers.back() != layers[1]) flag("--decoder-last-pipeline-num-layers", layers.back());
      return;
    }
    std::string layout = "E";
    for (std::size_t i = 0; i < layers.size(); ++i) layout += fmt::format("{}t*{}", i == 0 ? "" : "|", layers[i]);
    flag("--pipeline-model-parallel-layout", layout + "L");
  }

  void batch() {
    flag("--micro-batch-size", plan_.microbatch_size);
    flag("--global-batch-size", workload_.global_batch);
    flag("--seq-length", workload_.sequence_length);
  }

  void kernels() {
    switch (*plan_.attention) {
      case AttentionKernel::flash: flag("--attention-backend", "flash"); break;
      case AttentionKernel::unfused: flag("--attention-backend", "unfused"); break;
    }
    switch (plan_.recompute) {
      case Recompute::none: break;
      case Recompute::selective:
        flag("--recompute-granularity", "selective");
        flag("--recompute-modules", "core_attn");
        break;
      case Recompute::full:
        flag("--recompute-granularity", "full");
        if (plan_.recompute_layers) {
          // The first N layers of each virtual stage, as here.
          flag("--recompute-method", "block");
          flag("--recompute-num-layers", plan_.recompute_layers->front());
        } else {
          flag("--recompute-method", "uniform");
          flag("--recompute-num-layers", 1);
        }
        break;
    }
    if (!plan_.recompute_layers) return;
    const std::vector<std::uint32_t>& n = *plan_.recompute_layers;
    if (plan_.recompute == Recompute::selective && n != *plan_.stage_layers) {
      refuse("plan.recompute_layers", "recompute-layers",
             "Megatron-LM recomputes the attention core of all layers or none", {"Leave out recompute_layers."});
    } else if (plan_.recompute == Recompute::full && !std::equal(n.begin() + 1, n.end(), n.begin())) {
      refuse("plan.recompute_layers", "recompute-layers",
             "Megatron-LM recomputes the same number of layers in every stage",
             {fmt::format("recompute_layers is [{}].", fmt::join(n, ", ")), "Set all entries to the same number."});
    }
  }

  /// Kinds of layers: those that have a flag, and refusals of the others.
  void layer_kinds() {
    const ModelSpec& m = model_;
    const auto none = [&](bool has, const char* what) {
      if (has) refuse("model", "layers", fmt::format("the export has no flags for {}", what), {});
    };
    if (m.query_key_norm == QueryKeyNorm::head) flag("--qk-layernorm");
    none(m.query_key_norm == QueryKeyNorm::whole || m.query_key_norm == QueryKeyNorm::unweighted,
         "norms of queries and keys but over each head with weights");
    if (m.biases == Biases{true, false, false, false}) {
      flag("--disable-bias-linear");
      flag("--add-qkv-bias");
    } else if (!m.biases.in_layers()) {
      flag("--disable-bias-linear");
    }
    none(m.biases != Biases::of_layers(m.biases.qkv) && m.biases != Biases{true, false, false, false},
         "biases but of all linear layers, or of queries, keys and values");
    if (m.rotary_dim > 0) flag("--rotary-percent", static_cast<double>(m.rotary_dim) / static_cast<double>(m.head_dim));
    none(m.rope_scaling == "linear" || m.rope_scaling == "dynamic" || m.rope_scaling == "longrope" ||
             m.rope_scaling == "yarn",
         "rotary angles that are stretched but as Llama-3's");
    if (m.rope_scaling == "llama3") flag("--use-rope-scaling");
    none(m.local.has_value(), "layers that see near keys alone");
    none(!m.unrotated.empty(), "layers that do not rotate");
    none(m.sinks || m.attention_scale > 0.0 || m.attention_softcap > 0.0, "scores with sinks, a scale or a cap");
    none(m.parallel != ParallelBranches::none, "branches side by side");
    none(m.branch_norms != BranchNorms::before, "norms behind branches");
    none(!m.norm_weight || !m.norm_bias || m.embedding_norm, "norms without weights or biases, or of the embedding");
    none(m.logit_softcap > 0.0 || m.embedding_scale != 1.0 || m.residual_scale != 1.0 || m.logit_scale != 1.0,
         "scales and caps outside attention");
    none(m.qkv_clip > 0.0 || m.gate_limit > 0.0, "clipped values");
    none(m.position_offset > 0, "a table of positions with rows ahead of the first");
  }

  void model() {
    flag("--num-layers", model_.layers);
    flag("--hidden-size", model_.hidden);
    flag("--ffn-hidden-size", model_.ffn);
    flag("--num-attention-heads", model_.heads);
    flag("--kv-channels", model_.head_dim);
    if (model_.kv_heads != model_.heads) {
      flag("--group-query-attention");
      flag("--num-query-groups", model_.kv_heads);
    }
    if (model_.prediction_modules > 0) {
      flag("--mtp-num-layers", model_.prediction_modules);
      flag("--mtp-loss-scaling-factor", workload_.prediction_loss_weight.value_or(usual_prediction_loss_weight));
    }
    flag("--max-position-embeddings", std::max(model_.max_positions, workload_.sequence_length));
    switch (model_.positions) {
      case PositionEncoding::learned: flag("--position-embedding-type", "learned_absolute"); break;
      case PositionEncoding::rotary:
        flag("--position-embedding-type", "rope");
        flag("--rotary-base", static_cast<std::uint64_t>(model_.rope_theta));
        break;
      case PositionEncoding::none: flag("--position-embedding-type", "none"); break;
      case PositionEncoding::alibi: refuse("model", "layers", "the export has no flags for ALiBi", {}); break;
    }
    switch (model_.norm) {
      case Norm::layer_norm: flag("--normalization", "LayerNorm"); break;
      case Norm::rms_norm: flag("--normalization", "RMSNorm"); break;
    }
    flag("--norm-epsilon", model_.norm_epsilon);
    switch (model_.activation) {
      case Activation::gelu: break;
      case Activation::swiglu: flag("--swiglu"); break;
      case Activation::squared_relu: flag("--squared-relu"); break;
      case Activation::geglu:
      case Activation::relu:
        refuse("model", "layers", "the export has no flags for activations but gelu, swiglu and squared relu", {});
        break;
    }
    layer_kinds();
    if (!model_.tied_embeddings) flag("--untie-embeddings-and-output-weights");
    flag("--vocab-size", model_.vocabulary);
    flag("--make-vocab-size-divisible-by", 1);  // times the tensor size, as here
    flag("--hidden-dropout", workload_.hidden_dropout);
    flag("--attention-dropout", workload_.attention_dropout);
  }

  void precision() {
    const bool wide = gradient_dtype(workload_) == DType::f32;
    switch (workload_.precision) {
      case Precision::fp64:
        refuse("workload.precision", "precision", "Megatron-LM does not train in fp64", {"Use fp32, bf16 or fp16."});
        return;
      case Precision::fp32: return;
      case Precision::fp8:
      case Precision::bf16:
        flag("--bf16");
        if (workload_.precision == Precision::fp8) flag("--fp8-format", "hybrid");
        // Sums in f32 are the target's default for bf16; 16-bit sums have a flag.
        if (!wide) flag("--grad-reduce-in-bf16");
        return;
      case Precision::fp16:
        flag("--fp16");
        if (wide) flag("--accumulate-allreduce-grads-in-fp32");
        flag("--initial-loss-scale", workload_.loss_scale);
        flag("--loss-scale-window", workload_.loss_scale_window);
        return;
    }
  }

  void optimizer() {
    const Optimizer& o = workload_.optimizer;
    if (moment_dtype(workload_) != state_dtype(workload_)) {
      refuse("workload.moment_dtype", "optimizer", "the export has no flags for moments of 1 or 2 bytes",
             {"Leave out moment_dtype."});
    }
    switch (o.kind) {
      case OptimizerKind::adam:
        flag("--optimizer", "adam");
        flag("--adam-beta1", o.beta1);
        flag("--adam-beta2", o.beta2);
        flag("--adam-eps", o.epsilon);
        break;
      case OptimizerKind::lamb:
      case OptimizerKind::lars:
      case OptimizerKind::adafactor:
        refuse("workload.optimizer", "optimizer", fmt::format("Megatron-LM has no {}", name_of(o.kind)),
               {"Use adam, or sgd."});
        break;
      case OptimizerKind::sgd:
        if (o.weight_decay != 0.0) {
          refuse("workload.weight_decay", "optimizer", "Megatron-LM's SGD adds weight decay to the gradient",
                 {fmt::format("weight_decay is {}; here it is decoupled from momentum.", o.weight_decay),
                  "Set weight_decay to 0, or use adam."});
        }
        if (plan_.zero_stage == 1) {
          refuse("plan.zero_stage", "optimizer", "Megatron-LM's distributed optimizer is Adam only",
                 {"Set zero_stage to 0, or use adam."});
        }
        flag("--optimizer", "sgd");
        flag("--sgd-momentum", o.momentum);
        break;
    }
    flag("--lr", o.learning_rate);
    flag("--weight-decay", o.weight_decay);
    flag("--clip-grad", workload_.clip_norm.value_or(0.0));
    learning_rate();
    flag("--seed", workload_.seed);
  }

  void learning_rate() {
    const LearningRateSchedule& s = workload_.schedule;
    switch (s.kind) {
      case ScheduleKind::constant: flag("--lr-decay-style", "constant"); break;
      case ScheduleKind::linear: flag("--lr-decay-style", "linear"); break;
      case ScheduleKind::cosine: flag("--lr-decay-style", "cosine"); break;
    }
    if (s.warmup_steps > 0) flag("--lr-warmup-iters", s.warmup_steps);
    if (s.kind == ScheduleKind::constant) return;
    flag("--lr-decay-iters", s.total_steps);
    flag("--min-lr", workload_.optimizer.learning_rate * s.minimum_ratio);
  }

  const ModelSpec& model_;
  const Workload& workload_;
  const Plan& plan_;
  Diagnostics& out_;
  std::vector<LaunchFlag> flags_;
};

}  // namespace

std::optional<std::vector<LaunchFlag>> megatron_flags(const PlannedRun& run, Diagnostics& out) {
  ORRERY_ASSERT(is_resolved(run.plan), run.plan.name);
  return Exporter(run, out).flags();
}

std::string megatron_text(const PlannedRun& run, const std::vector<LaunchFlag>& flags) {
  std::string text = fmt::format("# Megatron-LM flags of {}: {} ranks, data parallel {}\n",
                                 run.plan.name.empty() ? "a plan" : run.plan.name, run.plan.mesh.size(),
                                 run.plan.mesh.size(Axis::data));
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const LaunchFlag& f = flags[i];
    text += f.name;
    if (!f.value.empty()) {
      // The layout's bars mean something to a shell.
      const bool quote = f.value.find('|') != std::string::npos;
      text += quote ? fmt::format(" '{}'", f.value) : " " + f.value;
    }
    text += i + 1 < flags.size() ? " \\\n" : "\n";
  }
  return text;
}

}  // namespace orrery
