#include <fmt/format.h>

#include <algorithm>

#include "core/base/toml_writer.hpp"
#include "core/plan/schedule_rules.hpp"
#include "framework/launch/launch_sizes.hpp"
#include "framework/torchtitan/models.hpp"
#include "framework/torchtitan/schedule_csv.hpp"
#include "framework/torchtitan/writing.hpp"

namespace orrery {
namespace {

class Writer {
 public:
  explicit Writer(const PlannedRun& run) : run_(run), plan_(run.plan), workload_(run.workload) {}

  std::string text() {
    launch();
    model();
    training();
    parallelism();
    memory();
    return head_ + out_.str();
  }

 private:
  [[nodiscard]] std::uint32_t size(Axis a) const { return plan_.mesh.size(a); }

  void launch() {
    const std::uint64_t world = plan_.mesh.size();
    const std::uint64_t node = run_.cluster ? run_.cluster->devices_per_node : 8;
    const std::uint64_t per_node = std::min(world, node);
    head_ = fmt::format(
        "# {} for torchtitan v0.2.2, on {} ranks. Saved as run.toml, it is launched on each node by\n"
        "#   torchrun --nnodes={} --nproc_per_node={} --rdzv_backend=c10d --rdzv_endpoint=$HEAD_NODE:29500 \\\n"
        "#     -m torchtitan.train --job.config_file run.toml\n",
        plan_.name.empty() ? "A plan" : plan_.name, world, (world + per_node - 1) / per_node, per_node);
    if (const TitanModel& known = *titan_model_of(run_.model.name); known.unstretched == run_.model.name) {
      head_ += fmt::format(
          "# The flavor {} stretches rotary angles as Llama-3.1 does, which {} does not; step and memory are equal.\n",
          known.flavor, run_.model.name);
    }
    if (plan_.schedule == ScheduleName::custom && size(Axis::pipeline) > 1) {
      head_ += "# with these lines, without what stands in front of the first cell, in the file schedule.csv:\n";
      const std::string csv = write_schedule_csv({plan_.order_placement, plan_.chunks, 1, plan_.order});
      for (std::size_t at = 0; at < csv.size();) {
        const std::size_t end = std::min(csv.find('\n', at), csv.size());
        head_ += "#   " + csv.substr(at, end - at) + "\n";
        at = end + 1;
      }
    }
  }

  void model() {
    const TitanModel& known = *titan_model_of(run_.model.name);
    const bool fp8 = workload_.precision == Precision::fp8;
    out_.table("model").text("name", known.name).text("flavor", known.flavor);
    if (!fp8) return;
    std::vector<std::string> converters{"quantize.linear.float8"};
    if (run_.model.mixture) converters.push_back("quantize.grouped_mm.float8");
    out_.texts("converters", converters);
    out_.table("quantize.linear.float8").texts("filter_fqns", {"output", "router.gate"});
    if (known.name == "deepseek_v3" && size(Axis::tensor) > 1) out_.text("recipe_name", "rowwise");
    if (run_.model.mixture) out_.table("quantize.grouped_mm.float8").texts("fqns", {"experts"});
    out_.table("compile").flag("enable", true);
  }

  void training() {
    const Optimizer& o = workload_.optimizer;
    const LearningRateSchedule& s = workload_.schedule;
    const std::uint64_t ranks = size(Axis::data) * size(Axis::replica) * std::uint64_t{size(Axis::expert)};
    const bool pipelined = size(Axis::pipeline) > 1;
    out_.table("training");
    out_.whole("local_batch_size", pipelined ? workload_.global_batch / ranks : plan_.microbatch_size);
    out_.whole("global_batch_size", workload_.global_batch);
    out_.whole("seq_len", workload_.sequence_length);
    out_.raw("max_norm", workload_.clip_norm ? fmt::format("{}", *workload_.clip_norm) : "inf");
    constexpr std::uint64_t usual_steps = 1000;
    out_.whole("steps", s.kind == ScheduleKind::constant ? s.warmup_steps + usual_steps : s.total_steps);
    out_.text("mixed_precision_param", workload_.precision == Precision::fp32 ? "float32" : "bfloat16");
    out_.table("optimizer").text("name", "AdamW").number("lr", o.learning_rate).number("beta1", o.beta1);
    out_.number("beta2", o.beta2).number("eps", o.epsilon).number("weight_decay", o.weight_decay);
    out_.table("lr_scheduler").whole("warmup_steps", s.warmup_steps);
    if (s.kind == ScheduleKind::constant) {
      out_.number("decay_ratio", 0.0);
    } else {
      out_.text("decay_type", s.kind == ScheduleKind::cosine ? "cosine" : "linear");
      out_.number("min_lr_factor", s.minimum_ratio);
    }
    out_.table("debug").whole("seed", workload_.seed);
  }

  void parallelism() {
    out_.table("parallelism");
    out_.whole("data_parallel_replicate_degree", size(Axis::replica));
    out_.whole("data_parallel_shard_degree", std::uint64_t{size(Axis::data)} * size(Axis::expert));
    if (!shard_axes_of(plan_).empty()) {
      out_.text("fsdp_reshard_after_forward", plan_.reshard_after_forward ? "always" : "never");
    }
    out_.whole("tensor_parallel_degree", size(Axis::tensor));
    out_.whole("context_parallel_degree", size(Axis::context));
    if (size(Axis::context) > 1) {
      out_.text("context_parallel_rotate_method", plan_.context == ContextAlgorithm::ring ? "alltoall" : "allgather");
    }
    if (run_.model.mixture) {
      out_.whole("expert_parallel_degree", laid_out_expert_ranks(plan_).value_or(size(Axis::expert)));
      out_.whole("expert_tensor_parallel_degree", folds_tensor(plan_) ? 1 : size(Axis::tensor));
    }
    out_.whole("pipeline_parallel_degree", size(Axis::pipeline));
    if (size(Axis::pipeline) > 1) pipeline();
  }

  void pipeline() {
    const bool custom = plan_.schedule == ScheduleName::custom;
    out_.text("pipeline_parallel_schedule", schedule());
    if (custom) out_.text("pipeline_parallel_schedule_csv", "schedule.csv");
    out_.whole("pipeline_parallel_microbatch_size", plan_.microbatch_size);
    // Overlap of the two passes' messages does not go with recomputation.
    if (plan_.schedule == ScheduleName::dualpipe_v && plan_.recompute != Recompute::none) {
      out_.flag("pipeline_parallel_expert_parallel_overlap", false);
    }
    std::string parts;
    std::uint32_t layer = 0;
    const std::vector<std::uint32_t>& stages = *plan_.stage_layers;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      std::string modules = i == 0 ? "\"tok_embeddings\"" : "";
      for (std::uint32_t n = 0; n < stages[i]; ++n, ++layer) {
        modules += fmt::format("{}\"layers.{}\"", modules.empty() ? "" : ", ", layer);
      }
      if (i + 1 == stages.size()) modules += fmt::format("{}\"norm\", \"output\"", modules.empty() ? "" : ", ");
      parts += fmt::format("\n  [{}],", modules);
    }
    out_.raw("module_fqns_per_model_part", "[" + parts + "\n]");
  }

  [[nodiscard]] std::string_view schedule() const {
    switch (plan_.schedule) {
      case ScheduleName::gpipe: return "GPipe";
      case ScheduleName::interleaved: return "Interleaved1F1B";
      case ScheduleName::breadth_first: return "LoopedBFS";
      case ScheduleName::zb_v: return "ZBVZeroBubble";
      case ScheduleName::dualpipe_v: return "DualPipeV";
      case ScheduleName::custom:  // The name says how stages lie on ranks; the file says the rest.
        if (plan_.order_placement == StagePlacement::v && plan_.chunks > 1) return "ZBVZeroBubble";
        return plan_.chunks > 1 ? "Interleaved1F1B" : "1F1B";
      case ScheduleName::one_f_one_b:
      case ScheduleName::eager_one_f_one_b:
      case ScheduleName::zb_h1:
      case ScheduleName::zb_h2:
      case ScheduleName::v_half:
      case ScheduleName::v_min:
      case ScheduleName::chimera:
      case ScheduleName::dualpipe: break;
    }
    return "1F1B";
  }

  void memory() {
    const std::uint32_t every = *recomputed_layers_are_every(run_);
    out_.table("activation_checkpoint").text("mode", every == 0 ? "none" : every == 1 ? "full" : "selective");
    if (every > 1) out_.text("selective_ac_option", std::to_string(every));
  }

  const PlannedRun& run_;
  const Plan& plan_;
  const Workload& workload_;
  std::string head_;
  TomlWriter out_;
};

}  // namespace

std::optional<std::string> write_torchtitan(const PlannedRun& run, Diagnostics& out) {
  if (!torchtitan_can_say(run, out)) return std::nullopt;
  return Writer(run).text();
}

}  // namespace orrery
