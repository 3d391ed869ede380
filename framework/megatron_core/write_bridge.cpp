#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "framework/megatron_core/fields.hpp"
#include "framework/megatron_core/write.hpp"

namespace orrery {
namespace {

/// Flags that Megatron-Bridge says in other words, or not at all.
constexpr std::array silent{std::string_view("--bf16"),
                            std::string_view("--fp16"),
                            std::string_view("--fp8-format"),
                            std::string_view("--group-query-attention"),
                            std::string_view("--make-vocab-size-divisible-by"),
                            std::string_view("--accumulate-allreduce-grads-in-fp32"),
                            std::string_view("--initial-loss-scale"),
                            std::string_view("--loss-scale-window"),
                            std::string_view("--use-mcore-models")};

/// Flags that are fields with another name in the model, or of a type that an override cannot give.
constexpr std::array typed{std::string_view("--squared-relu"), std::string_view("--moe-layer-freq"),
                           std::string_view("--window-size"), std::string_view("--window-attn-skip-freq"),
                           std::string_view("--no-rope-freq")};

/// "--num-layers 4" as "model.num_layers=4".
std::string override_of(const LaunchFlag& f) {
  for (const BridgeField& field : bridge_fields()) {
    if (field.flag == f.name && !field.path.starts_with("trainer.") && !field.path.starts_with("optim."))
      return fmt::format("{}={}", field.path, field.inverted ? "false" : f.value.empty() ? "true" : f.value);
  }
  std::string name = f.name.substr(2);
  std::replace(name.begin(), name.end(), '-', '_');
  return fmt::format("model.{}={}", name, f.value.empty() ? "true" : f.value);
}

std::string precision(const PlannedRun& run) {
  switch (run.workload.precision) {
    case Precision::fp8: return "bf16_with_fp8_delayed_scaling_mixed";
    case Precision::fp16: return "fp16_mixed";
    case Precision::bf16:
    case Precision::fp32:
    case Precision::fp64: break;
  }
  return "bf16_mixed";
}

}  // namespace

std::optional<std::string> write_megatron_bridge(const PlannedRun& run, Diagnostics& d) {
  auto flags = megatron_flags(run, d);
  if (!flags) return std::nullopt;
  const auto has = [&](std::string_view name) {
    return std::any_of(flags->begin(), flags->end(), [&](const LaunchFlag& f) { return f.name == name; });
  };
  bool good = true;
  const auto refuse = [&](std::string message) {
    d.error(run.plan.origin, "", "export.layers", std::move(message), {"Write it for megatron instead."});
    good = false;
  };
  if (run.workload.precision == Precision::fp32) refuse("overrides of Megatron-Bridge name no precision fp32");
  for (const std::string_view name : typed) {
    if (has(name)) refuse(fmt::format("an override of Megatron-Bridge cannot give {}", name));
  }
  if (!good) return std::nullopt;
  const std::uint64_t world = run.plan.mesh.size();
  std::uint64_t node = std::clamp<std::uint64_t>(run.cluster ? run.cluster->devices_per_node : 8, 1, world);
  while (world % node != 0) --node;
  std::string out = fmt::format(
      "#!/bin/bash\n"
      "# Megatron-Bridge launch of {}: {} ranks. Put the recipe of the model in RECIPE; it gives data, tokenizer and\n"
      "# steps. Run this on each node with NODE_RANK and MASTER_ADDR set.\n"
      "RECIPE=replace_with_a_recipe\n"
      "torchrun --nproc_per_node {} --nnodes {} --node_rank ${{NODE_RANK:-0}} \\\n"
      "  --master_addr ${{MASTER_ADDR:-localhost}} scripts/training/run_recipe.py --recipe $RECIPE \\\n"
      "  mixed_precision={} \\\n",
      run.plan.name.empty() ? "a plan" : run.plan.name, world, node, world / node, precision(run));
  // Recipes turn these on.
  for (const auto& [flag, path] : {std::pair{"--use-distributed-optimizer", "ddp.use_distributed_optimizer"},
                                   std::pair{"--overlap-grad-reduce", "ddp.overlap_grad_reduce"}}) {
    if (!has(flag) && run.plan.zero_stage < 2) out += fmt::format("  {}=false \\\n", path);
  }
  std::string lines;
  for (const LaunchFlag& f : *flags) {
    if (std::find(silent.begin(), silent.end(), f.name) != silent.end()) continue;
    const std::string text = override_of(f);
    const bool quote = text.find_first_of("|()[]*+ ") != std::string::npos;
    lines += fmt::format("{}  {}", lines.empty() ? "" : " \\\n", quote ? "'" + text + "'" : text);
  }
  return out + lines + "\n";
}

}  // namespace orrery
