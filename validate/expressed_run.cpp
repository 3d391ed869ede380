#include "validate/expressed_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/plan/plan_check.hpp"
#include "core/spec/spec_check.hpp"
#include "framework/launch/launch_sizes.hpp"
#include "validate/model_of.hpp"
#include "validate/plan_cells.hpp"
#include "validate/program_habits.hpp"
#include "validate/run_cluster.hpp"
#include "validate/trained_weights.hpp"

namespace orrery {
namespace {

std::uint32_t small(std::uint64_t n) { return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, 0xffffffffU)); }

/// The ZeRO stage of a sharding cell.
std::uint32_t zero_stage(const ShardingCell& cell, const ProgramHabits& framework) {
  switch (cell.kind) {
    case ShardingCell::Kind::unstated: return framework.zero_stage;
    case ShardingCell::Kind::plain: return framework.distributed_optimizer ? 1 : 0;
    case ShardingCell::Kind::stage: return cell.stage;
  }
  return 0;
}

/// Turns one row into a plan, part by part; a part that fails leaves the reason.
class Expression {
 public:
  Expression(const MeasuredRun& run, const Library& library) : run_(run), library_(library) {}

  ExpressedRun result() {
    if (!parts()) out_.run.reset();
    return std::move(out_);
  }

 private:
  bool refuse(std::string reason) {
    out_.reason = std::move(reason);
    return false;
  }
  void filled(const char* column) { out_.filled.emplace_back(column); }

  bool parts() {
    framework_ = habits_of(run_);
    if (framework_ == nullptr) {
      return refuse(run_.framework.empty() ? "not published: framework"
                                           : fmt::format("there is no rule for the framework {}", run_.framework));
    }
    switch (trained_weights(run_)) {
      case TrainedWeights::all: break;
      case TrainedWeights::few:
        if (!trains_plain_adapters(run_))
          return refuse("there is no rule yet for adapters beside weights in few bits, and DoRA is not modelled");
        break;
      case TrainedWeights::unclear:
        return refuse(fmt::format("whether all weights are trained is not clear: \"{}\"", run_.notes));
    }
    RunCluster machine = run_cluster(run_, library_);
    if (!machine.cluster) return refuse(machine.reason);
    NamedModel named = model_of(run_, *framework_, library_);
    if (!named.model) return refuse(named.reason);
    out_.filled = std::move(machine.filled);
    out_.filled.insert(out_.filled.end(), named.filled.begin(), named.filled.end());
    out_.run.emplace();
    out_.run->cluster = std::move(*machine.cluster);
    out_.run->model = std::move(*named.model);
    return sizes() && mesh() && plan() && recomputation() && workload() && checks();
  }

  bool sizes() {
    std::string missing;
    const auto need = [&](const char* column, bool there) {
      if (!there) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", column);
    };
    need("seq", run_.seq.has_value());
    need("gbs", run_.gbs.has_value());
    need("mbs", run_.mbs.has_value());
    need("tp", run_.tp.has_value());
    need("pp", run_.pp.has_value());
    need("precision", !run_.precision.empty());
    if (!missing.empty()) return refuse("not published: " + missing);
    tensor_ = *run_.tp;
    pipeline_ = *run_.pp;
    context_ = run_.cp.value_or(1);
    expert_ = run_.ep.value_or(1);
    if (!run_.vp && pipeline_ > 1) filled("vp");
    if (!run_.cp) filled("cp");
    const std::uint64_t inner = tensor_ * pipeline_ * context_;
    data_ = run_.dp.value_or(*run_.gpus / inner);
    chunks_ = run_.vp.value_or(usual_chunks());
    if (data_ >= 1 && inner * data_ == *run_.gpus) return true;
    return refuse(fmt::format("tp {} x pp {} x cp {} x dp {} does not give the {} GPUs", tensor_, pipeline_, context_,
                              data_, *run_.gpus));
  }

  /// Chunks of a pipeline rank where their number is not published.
  [[nodiscard]] std::uint64_t usual_chunks() const {
    const std::uint64_t layers = out_.run->model.layers, replica = data_ * *run_.mbs;
    const bool whole = pipeline_ > 1 && layers % pipeline_ == 0 && replica > 0 && *run_.gbs / replica % pipeline_ == 0;
    return framework_->interleaves && whole ? layers / pipeline_ : 1;
  }

  /// Ranks that cut an expert where their number is not published: as many as cut other layers, or 1 where only so the
  /// ranks with other experts are as many as the row says. `shared` take other sequences.
  std::uint64_t usual_expert_tensor(std::uint64_t shared) {
    const auto fits = [&](std::uint64_t whole) {
      const std::optional<ExpertRanks> ranks = expert_ranks(expert_, whole, context_);
      return ranks && shared % ranks->expert == 0;
    };
    if (fits(1) || !fits(tensor_)) return tensor_;
    filled("etp");
    return 1;
  }

  bool mesh() {
    const std::optional<ShardingCell> sharding = read_sharding(run_.zero);
    if (!sharding) return refuse(fmt::format("the sharding \"{}\" is not modelled", run_.zero));
    if (run_.zero.empty() && data_ > 1) filled("zero");
    std::uint64_t shared = data_;  // ranks that share the states
    if (sharding->group > 0 && sharding->group < data_) {
      if (data_ % sharding->group != 0) {
        return refuse(fmt::format("{} ranks share the states, but dp is {}", sharding->group, data_));
      }
      shared = sharding->group;
    }
    const std::uint64_t etp = run_.etp.value_or(usual_expert_tensor(shared));
    if (etp != tensor_ && etp != 1) {
      return refuse(fmt::format("experts cut {} ways, and other layers {}, are not modelled", etp, tensor_));
    }
    const std::optional<ExpertRanks> experts = expert_ranks(expert_, etp == 1 ? tensor_ : 1, context_);
    if (!experts) {
      return refuse(fmt::format("ep {} is a part of tp {} or cp {}, which is not modelled", expert_,
                                etp == 1 ? tensor_ : 1, context_));
    }
    if (shared % experts->expert != 0) {
      return refuse(fmt::format("ep {} does not lie inside dp {}", experts->expert, shared));
    }
    Plan& plan = out_.run->plan;
    plan.expert_folding = experts->folding;
    const auto axis = [&](Axis a, std::uint64_t n) {
      if (n > 1) plan.mesh.axes.push_back({a, small(n)});
    };
    // Megatron-LM's order: tensor innermost, then context, experts, data, pipeline.
    axis(Axis::pipeline, pipeline_);
    axis(Axis::replica, data_ / shared);
    axis(Axis::data, shared / experts->expert);
    axis(Axis::expert, experts->expert);
    axis(Axis::context, context_);
    axis(Axis::tensor, tensor_);
    plan.zero_stage = shard_axes_of(plan).empty() ? 0 : zero_stage(*sharding, *framework_);
    // Weights that stay whole after the forward pass are those of ZeRO-2.
    const bool whole = run_.notes.find("reshard_after_forward false") != std::string::npos;
    if (whole && plan.zero_stage == 3) plan.zero_stage = 2;
    return true;
  }

  bool plan() {
    Plan& plan = out_.run->plan;
    plan.name = run_.id;
    plan.microbatch_size = small(*run_.mbs);
    plan.chunks = small(chunks_);
    plan.schedule = chunks_ > 1 ? ScheduleName::interleaved : ScheduleName::one_f_one_b;
    const std::uint64_t layers = out_.run->model.layers;
    std::vector<std::uint32_t> stages = dealt_layers(layers, pipeline_ * chunks_);
    if (const std::uint64_t n = pipeline_ * chunks_; stages.empty() && (layers + 2) % n == 0 && n > 1) {
      // Megatron-LM counts the embedding and the loss as layers of the first and the last stage.
      stages.assign(n, small((layers + 2) / n));
      --stages.front(), --stages.back();
    }
    if (stages.empty()) {
      return refuse(fmt::format("{} layers cannot be divided among {} stages", layers, pipeline_ * chunks_));
    }
    plan.stage_layers = std::move(stages);
    plan.attention = framework_->attention;
    plan.overlap_gradients = framework_->overlap_gradients && data_ * context_ > 1;
    if (context_ > 1) {
      plan.context = framework_->context;
      plan.zigzag = plan.context != ContextAlgorithm::ulysses && is_causal(out_.run->model);
    }
    if (!run_.sp.empty() && run_.sp != "yes" && run_.sp != "no") {
      return refuse(fmt::format("sp is \"{}\", which is neither yes nor no", run_.sp));
    }
    if (run_.sp.empty() && tensor_ > 1) filled("sp");
    plan.sequence_parallel = tensor_ > 1 && (run_.sp.empty() ? framework_->sequence_parallel : run_.sp == "yes");
    return true;
  }

  bool recomputation() {
    Plan& plan = out_.run->plan;
    const std::optional<RecomputeCell> cell = read_recompute(run_.recompute);
    // Only Megatron-LM and its relatives follow these rules; other programs choose by rules of their own.
    if (!cell || (*cell == RecomputeCell::selective && !framework_->selective_is_attention)) {
      return refuse(fmt::format("the recomputation \"{}\" is not modelled", run_.recompute));
    }
    switch (*cell) {
      case RecomputeCell::unstated:
        filled("recompute");
        if (framework_->recompute) plan.recompute = Recompute::full;
        break;
      case RecomputeCell::none: break;
      case RecomputeCell::full: plan.recompute = Recompute::full; break;
      case RecomputeCell::selective:
      case RecomputeCell::attention:
        // The flash kernel keeps no scores to drop.
        if (plan.attention == AttentionKernel::unfused) plan.recompute = Recompute::selective;
        break;
      case RecomputeCell::by_operation:
        // torchtitan keeps every second product, so that as much is computed again as with every second layer whole.
        plan.recompute = Recompute::full;
        plan.recompute_layers.emplace();
        for (const std::uint32_t layers : *plan.stage_layers) plan.recompute_layers->push_back(layers / 2);
        break;
    }
    return true;
  }

  bool workload() {
    const std::optional<PrecisionCell> precision = read_precision(run_.precision);
    if (!precision) return refuse(fmt::format("the precision {} is not modelled", run_.precision));
    Workload& w = out_.run->workload;
    w.global_batch = *run_.gbs;
    w.sequence_length = *run_.seq;
    w.precision = precision->precision;
    w.gradient_dtype = framework_->gradients_in_f32 ? DType::f32 : weight_dtype(w);
    // Megatron-LM of 2021 and 2022 adds bf16 gradients up in fp32, fp16 ones in fp16.
    if (w.precision == Precision::bf16 && framework_->attention == AttentionKernel::unfused) {
      w.gradient_dtype = DType::f32;
    }
    if (trained_weights(run_) == TrainedWeights::few) {
      w.adapters = framework_->adapters;
      filled("adapters");
    }
    w.clip_norm = 1.0;
    w.hidden_dropout = framework_->dropout;
    w.attention_dropout = framework_->dropout;
    return true;
  }

  bool checks() {
    const PlannedRun& run = *out_.run;
    Diagnostics d;
    if (check_model(run.model, d) && check_workload(run.workload, d) && check_sizes(run.model, run.workload, d)) {
      check(run.plan, run.model, run.workload, &*run.cluster, d);
    }
    if (d.empty()) return true;
    const Diagnostic& first = d.list().front();
    return refuse(first.details.empty() ? first.message : fmt::format("{}: {}", first.message, first.details.front()));
  }

  const MeasuredRun& run_;
  const Library& library_;
  const ProgramHabits* framework_ = nullptr;
  ExpressedRun out_;
  std::uint64_t tensor_ = 1, pipeline_ = 1, chunks_ = 1, context_ = 1, expert_ = 1, data_ = 1;
};

}  // namespace

std::vector<std::uint32_t> dealt_layers(std::uint64_t layers, std::uint64_t stages) {
  if (stages == 0 || layers < stages) return {};
  const std::uint64_t most = (layers + stages - 1) / stages;
  std::vector<std::uint32_t> out(stages, small(most));
  std::uint64_t over = most * stages - layers;
  // Layers are taken away from stages at both ends, going inwards, the last stage first.
  for (std::uint64_t i = 0; over > 0; ++i, --over) --out[i % 2 == 0 ? stages - 1 - i / 2 : i / 2];
  return std::find(out.begin(), out.end(), 0U) == out.end() ? out : std::vector<std::uint32_t>{};
}

ExpressedRun express(const MeasuredRun& run, const Library& library) { return Expression(run, library).result(); }

}  // namespace orrery
