#include <fmt/format.h>

#include <algorithm>

#include "core/plan/plan_check.hpp"
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

/// Ranks with other experts: inside data parallelism alone, and as wide as the model's tensor parallelism.
Size expert(MegatronFlags& f, const LaunchSizes& s) {
  constexpr const char* flag = "--expert-model-parallel-size";
  constexpr const char* width = "--expert-tensor-parallel-size";
  const ModelSpec* model = f.reading().known_model();
  const std::uint64_t etp = f.whole(width, 1, plan_size_limit).value_or(s.tensor.value);
  const auto size = f.whole(flag, 1, plan_size_limit);
  if (model != nullptr && !model->mixture) {
    f.without_effect(flag, "the model has no experts");
    f.without_effect(width, "the model has no experts");
    return {};
  }
  if (etp != s.tensor.value)
    f.refuse(width, fmt::format("experts are cut {} ways, other layers {}", etp, s.tensor.value),
             fmt::format("{} ways for both", s.tensor.value));
  else
    f.take(width, "the tensor axis");
  if (!size) return {};
  std::uint64_t expert = *size;
  if (expert > 1 && s.context.value > 1)
    f.refuse(flag, "ranks of the context axis hold other experts too", "other experts on ranks with other sequences");
  if (s.gpus) {
    const std::uint64_t ranks = s.tensor.value * s.pipeline.value * s.context.value * s.replica.value;
    const std::uint64_t data = ranks == 0 || s.gpus->value % ranks != 0 ? expert : s.gpus->value / ranks;
    while (expert > 1 && (data % expert != 0 || *size % expert != 0)) --expert;
    if (expert != *size)
      f.refuse(flag, fmt::format("{} ranks hold other experts, and {} take other sequences", *size, data),
               fmt::format("{} ranks with other experts", expert));
  }
  return {expert, f.key(flag)};
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
