#include "framework/megatron_core/write.hpp"

#include <algorithm>

#include "framework/launch/plan_refusals.hpp"
#include "framework/megatron_core/flag_writer.hpp"

namespace orrery {
namespace {

/// A value as a shell takes it.
std::string quoted(const std::string& value) {
  return value.find_first_of("|()[]*+ ") == std::string::npos ? value : "'" + value + "'";
}

/// Ranks on each node: the cluster's devices there, else up to eight.
std::uint64_t ranks_per_node(const PlannedRun& run) {
  const std::uint64_t world = run.plan.mesh.size();
  std::uint64_t n = run.cluster ? run.cluster->devices_per_node : 8;
  n = std::clamp<std::uint64_t>(n, 1, world);
  while (world % n != 0) --n;
  return n;
}

std::string title(const PlannedRun& run) { return run.plan.name.empty() ? "a plan" : run.plan.name; }

}  // namespace

void check_megatron_model(const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  PlannedRun run;
  run.model = model;
  run.workload = workload;
  run.plan.origin = workload.origin;
  FlagWriter w(run, out);
  write_megatron_model(w);
  write_megatron_training(w);
}

std::vector<AbilityRule> megatron_rules(const ModelSpec& m, const Workload& w) {
  std::vector<AbilityRule> rules;
  const bool narrow = moment_dtype(w, 0) != state_dtype(w) || moment_dtype(w, 1) != state_dtype(w);
  if (w.optimizer.kind == OptimizerKind::sgd) {
    rules.push_back({"", "zero=0", "the distributed optimizer is Adam only"});
  } else if (narrow) {
    rules.push_back({"", "zero=1", "narrow moments go with Adam's distributed optimizer alone"});
  }
  if (m.mixture && w.routing.capacity) {
    rules.push_back({"", "expert_dispatch=all_to_all", "a capacity goes with the dispatcher alltoall"});
  } else if (m.mixture && m.mixture->expert_bias) {
    rules.push_back({"", "expert_dispatch=all_to_all", "the dispatcher allgather takes no biases of experts"});
  }
  if (!m.mixture && !m.latent) {
    rules.push_back({"recompute=selective", "recompute_modules=core_attn,mlp,core_attn+mlp",
                     "norms are a part of the products behind them, and are kept"});
  }
  return rules;
}

std::optional<std::vector<LaunchFlag>> megatron_flags(const PlannedRun& run, Diagnostics& out) {
  ORRERY_ASSERT(is_resolved(run.plan), run.plan.name);
  const std::size_t before = out.size();
  ModelRefusals(run.workload, "Megatron-LM", out)
      .no_adapters("NeMo's and Megatron-Bridge's recipes launch them: peft = lora.");
  FlagWriter w(run, out);
  write_megatron_mesh(w);
  write_megatron_kernels(w);
  write_megatron_model(w);
  write_megatron_training(w);
  write_megatron_states(w);
  if (out.size() != before) return std::nullopt;
  return w.take();
}

std::string megatron_text(const PlannedRun& run, const std::vector<LaunchFlag>& flags) {
  std::string text = fmt::format("# Megatron-LM flags of {}: {} ranks, data parallel {}\n", title(run),
                                 run.plan.mesh.size(), run.plan.mesh.size(Axis::data));
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const LaunchFlag& f = flags[i];
    text += f.name;
    if (!f.value.empty()) text += " " + quoted(f.value);
    text += i + 1 < flags.size() ? " \\\n" : "\n";
  }
  return text;
}

std::optional<std::string> write_megatron_script(const PlannedRun& run, Diagnostics& d) {
  const auto flags = megatron_flags(run, d);
  if (!flags) return std::nullopt;
  const std::uint64_t world = run.plan.mesh.size(), node = ranks_per_node(run);
  std::string name = title(run);
  std::replace(name.begin(), name.end(), '\n', ' ');
  std::string out = fmt::format(
      "#!/bin/bash\n"
      "# Megatron-LM launch of {}: {} ranks. Run it on each node in the folder of Megatron-LM, with NODE_RANK and\n"
      "# MASTER_ADDR set.\n"
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
      "GPUS_PER_NODE={}\n"
      "NNODES={}\n\n"
      "# Replace these: data, tokenizer and steps are no part of the plan. As they are, the run tries the plan on\n"
      "# made-up tokens.\n"
      "DATA_ARGS=(\n  --mock-data\n  --tokenizer-type NullTokenizer\n)\n"
      "RUN_ARGS=(\n  --train-iters 20\n  --eval-iters 0\n  --log-interval 1\n)\n\n"
      "PLAN_ARGS=(\n",
      name, world, node, world / node);
  for (const LaunchFlag& f : *flags) out += "  " + f.name + (f.value.empty() ? "" : " " + quoted(f.value)) + "\n";
  out +=
      ")\n\n"
      "torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank ${NODE_RANK:-0} \\\n"
      "  --master_addr ${MASTER_ADDR:-localhost} --master_port ${MASTER_PORT:-6000} pretrain_gpt.py \\\n"
      "  \"${PLAN_ARGS[@]}\" \"${DATA_ARGS[@]}\" \"${RUN_ARGS[@]}\" --use-mcore-models\n";
  return out;
}

}  // namespace orrery
