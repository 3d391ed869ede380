#include <fmt/format.h>

#include <algorithm>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "framework/megatron_core/read.hpp"

// Sizes of the mesh and of the batch: core/parallel_state.py and training/arguments.py, NVIDIA/Megatron-LM@d98e8a64.

namespace orrery {
namespace {

using Size = LaunchSizes::Size;

std::optional<Size> said(MegatronFlags& f, const char* flag) {
  const auto value = f.whole(flag, 1);
  if (!value) return std::nullopt;
  f.take(flag, "");
  return Size{*value, f.key(flag)};
}

/// Sequences in a step: the last of a batch that grows.
std::optional<Size> batch(MegatronFlags& f) {
  const std::vector<std::string> steps = f.words("--step-batch-size-schedule");
  if (!steps.empty()) {
    const std::string& last = steps.back();
    std::uint64_t out = 0;
    for (std::size_t i = last.rfind(':') + 1; i < last.size() && last[i] >= '0' && last[i] <= '9'; ++i)
      out = std::min<std::uint64_t>(out * 10 + static_cast<std::uint64_t>(last[i] - '0'), std::uint64_t{1} << 40);
    if (out > 0) {
      f.take("--step-batch-size-schedule", "the last of its batches");
      f.take("--global-batch-size", "the batch");
      return Size{out, f.key("--step-batch-size-schedule")};
    }
  }
  f.take("--rampup-batch-size", "the batch that it grows to");
  return said(f, "--global-batch-size");
}

/// Ranks with other experts, of whatever axes they are. Tensor ranks cut experts as they cut other layers, unless their
/// number for experts is said to be 1.
Size expert(MegatronFlags& f, LaunchSizes& s) {
  constexpr const char* flag = "--expert-model-parallel-size";
  constexpr const char* width = "--expert-tensor-parallel-size";
  const ModelSpec* model = f.reading().known_model();
  const std::uint64_t tensor = s.tensor.value, etp = f.whole(width, 1, plan_size_limit).value_or(tensor);
  const auto said = f.whole(flag, 1, plan_size_limit);
  if (model != nullptr && !model->mixture) {
    f.without_effect(flag, "the model has no experts");
    f.without_effect(width, "the model has no experts");
    return {};
  }
  const std::uint64_t size = said.value_or(1);
  const bool whole = etp == 1 && tensor > 1;
  std::optional<ExpertRanks> laid = expert_ranks(size, whole ? tensor : 1, s.context.value);
  if (etp != tensor && (!whole || size % tensor != 0)) {
    f.refuse(width,
             whole
                 ? fmt::format("{} expert ranks are fewer than the {} tensor ranks with whole experts, or no multiple",
                               size, tensor)
                 : fmt::format("experts are cut {} ways, other layers {}", etp, tensor),
             fmt::format("{} ways for both", tensor));
    laid = expert_ranks(size, 1, s.context.value);
  } else {
    f.take(width, whole ? "plan.expert_folding" : "the tensor axis");
  }
  if (!laid) {
    f.refuse(flag, fmt::format("a part of the {} context ranks holds other experts", s.context.value),
             "other experts on ranks with other sequences");
    laid = ExpertRanks{whole && size % tensor == 0 ? size / tensor : size,
                       whole && size % tensor == 0 ? ExpertFolding::tensor : ExpertFolding::none};
  }
  std::uint64_t expert = laid->expert;
  if (s.gpus) {
    const std::uint64_t ranks = tensor * s.pipeline.value * s.context.value * s.replica.value;
    const std::uint64_t data = ranks == 0 || s.gpus->value % ranks != 0 ? expert : s.gpus->value / ranks;
    while (expert > 1 && (data % expert != 0 || laid->expert % expert != 0)) --expert;
    if (expert != laid->expert)
      f.refuse(flag,
               fmt::format("{} ranks with other sequences hold other experts, and {} there are", laid->expert, data),
               fmt::format("{} such ranks with other experts", expert));
  }
  s.expert_ranks = size / laid->expert * expert;
  if (laid->folding != ExpertFolding::none)
    f.set(flag, "plan.expert_folding", fmt::format("\"{}\"", name_of(laid->folding)));
  else if (said)
    f.take(flag, "");
  return {expert, expert > 1 ? f.key(flag) : ""};
}

void context(MegatronFlags& f, const LaunchSizes& s) {
  LaunchReading& r = f.reading();
  const std::vector<std::string> kinds = f.words("--cp-comm-type");
  if (s.context.value == 1) {
    f.without_effect({"--cp-comm-type", "--hierarchical-context-parallel-sizes"}, "there is no context axis");
    return;
  }
  std::string kind = kinds.empty() ? "p2p" : kinds.front();
  const bool alike = std::all_of(kinds.begin(), kinds.end(), [&](const std::string& k) { return k == kind; });
  if (!alike) {
    f.refuse("--cp-comm-type", "layers differ in how they share attention", kind + " in all");
  }
  f.take("--hierarchical-context-parallel-sizes", "a ring");
  if (kind == "a2a+p2p") {
    f.refuse("--cp-comm-type", "attention is shared in two levels", "one ring");
    kind = "p2p";
  }
  const bool known = kind == "p2p" || kind == "allgather" || kind == "all_gather" || kind == "a2a";
  if (!known)
    return f.error("--cp-comm-type", fmt::format("--cp-comm-type has no value \"{}\"", kind.substr(0, 40)),
                   {"Known: p2p, all_gather, allgather, a2a, a2a+p2p."});
  const char* plan = kind == "p2p" ? "\"ring\"" : kind == "a2a" ? "\"ulysses\"" : "\"all_gather\"";
  if (kinds.empty())
    r.assume("plan.context", plan, "keys and values go around unless --cp-comm-type says otherwise");
  else
    f.set("--cp-comm-type", "plan.context", plan);
  if (kind != "a2a") r.assume("plan.zigzag", "true", "each rank holds an early and a late part of a sequence");
}

}  // namespace

LaunchSizes read_megatron_sizes(MegatronFlags& f) {
  LaunchSizes out;
  LaunchReading& r = f.reading();
  const auto axis = [&](const char* flag) { return said(f, flag).value_or(Size{}); };
  out.tensor = axis("--tensor-model-parallel-size");
  if (!f.has("--tensor-model-parallel-size")) out.tensor = axis("--model-parallel-size");
  out.pipeline = axis("--pipeline-model-parallel-size");
  out.context = axis("--context-parallel-size");
  const bool shards = f.on("--use-distributed-optimizer") || f.on("--use-megatron-fsdp");
  if (const auto n = f.whole("--num-distributed-optimizer-instances", 1, plan_size_limit); n && *n > 1 && shards)
    out.replica = {*n, f.key("--num-distributed-optimizer-instances")};
  f.take("--num-distributed-optimizer-instances", "whole copies of what is sharded");
  out.gpus = launcher_gpus(r);
  const auto devices = f.whole("--devices", 1, plan_size_limit), nodes = f.whole("--num-nodes", 1, plan_size_limit);
  if (devices && !out.gpus) out.gpus = Size{*devices * nodes.value_or(1), f.key("--devices")};
  f.take("--devices", "the number of GPUs");
  f.take("--num-nodes", "the number of GPUs");
  if (r.options().gpus) out.gpus = Size{*r.options().gpus, ""};
  out.expert = expert(f, out);
  out.micro = said(f, "--micro-batch-size");
  out.batch = batch(f);
  out.sequence = said(f, "--seq-length");
  if (!out.sequence) out.sequence = said(f, "--encoder-seq-length");
  f.take("--encoder-seq-length", "the sequence");
  if (f.on("--use-tp-pp-dp-mapping")) {
    out.order = {"replica", "data", "pipeline", "expert", "context", "tensor"};
    f.take("--use-tp-pp-dp-mapping", "mesh.order");
  }
  context(f, out);
  return out;
}

}  // namespace orrery
