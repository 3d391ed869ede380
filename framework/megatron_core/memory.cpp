#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/megatron_core/read.hpp"

// Sharding, offload, buckets and communication: core/distributed/distributed_data_parallel_config.py and
// training/arguments.py, NVIDIA/Megatron-LM@d98e8a64.

namespace orrery {
namespace {

/// ZeRO's stage of the flags.
std::uint64_t sharding(MegatronFlags& f) {
  if (f.on("--use-torch-fsdp2")) {
    f.set("--use-torch-fsdp2", "plan.zero_stage", "3");
    if (f.on("--torch-fsdp2-no-reshard-after-forward"))
      f.set("--torch-fsdp2-no-reshard-after-forward", "plan.reshard_after_forward", "false");
    return 3;
  }
  if (f.on("--use-megatron-fsdp")) {
    f.take("--use-megatron-fsdp", "sharding");
    f.take("--use-distributed-optimizer", "sharding");
    const std::string word =
        f.word("--data-parallel-sharding-strategy", {"no_shard", "optim", "optim_grads", "optim_grads_params"})
            .value_or("optim_grads_params");
    const std::uint64_t stage = word == "no_shard" ? 0 : word == "optim" ? 1 : word == "optim_grads" ? 2 : 3;
    f.set(f.has("--data-parallel-sharding-strategy") ? "--data-parallel-sharding-strategy" : "--use-megatron-fsdp",
          "plan.zero_stage", std::to_string(stage));
    if (f.known_text("--outer-dp-sharding-strategy").value_or("no_shard") == "optim" &&
        f.has("--num-distributed-optimizer-instances"))
      f.refuse("--outer-dp-sharding-strategy", "states are sharded over the copies of shards too", "whole copies");
    f.take("--outer-dp-sharding-strategy", "whole copies");
    return stage;
  }
  if (f.on("--use-distributed-optimizer")) {
    f.set("--use-distributed-optimizer", "plan.zero_stage", "1");
    return 1;
  }
  f.reading().assume("plan.zero_stage", "0", "no flag shards states");
  return 0;
}

/// Reductions of gradients. A bucket counts gradients, not bytes.
void buckets(MegatronFlags& f, std::uint64_t zero) {
  LaunchReading& r = f.reading();
  constexpr const char* overlap = "--overlap-grad-reduce";
  if (!f.on(overlap) && zero < 2) {
    r.assume("plan.overlap_gradients", "false", "no --overlap-grad-reduce");
    f.without_effect({"--ddp-bucket-size", "--ddp-num-buckets"}, "gradients are reduced at once behind the step");
    return;
  }
  if (f.on(overlap)) f.set(overlap, "plan.overlap_gradients", "true");
  if (zero >= 2) {
    f.without_effect({"--ddp-bucket-size", "--ddp-num-buckets"}, "layers are the buckets of sharded weights");
    return;
  }
  const bool narrow =
      f.on("--grad-reduce-in-bf16") || (f.on("--fp16") && !f.on("--accumulate-allreduce-grads-in-fp32"));
  const std::uint64_t bytes = narrow ? 2 : 4;
  if (const auto count = f.whole("--ddp-bucket-size", 1)) {
    f.set("--ddp-bucket-size", "plan.gradient_bucket", fmt::format("\"{} B\"", *count * bytes));
    f.take("--ddp-num-buckets", "the bucket");
    return;
  }
  const auto number = f.whole("--ddp-num-buckets", 1);
  const ModelSpec* model = r.known_model();
  if (number && model != nullptr) {
    const std::uint64_t ranks = r.plan_number("mesh.tensor", 1) * r.plan_number("mesh.pipeline", 1);
    const std::uint64_t all = parameter_count(*model) / std::max<std::uint64_t>(ranks, 1);
    f.set("--ddp-num-buckets", "plan.gradient_bucket",
          fmt::format("\"{} B\"", std::max<std::uint64_t>(all / *number, 1) * bytes));
    return;
  }
  // Without a size, buckets have 40 million gradients, and more on over 40 ranks.
  const std::uint64_t copies =
      r.plan_number("mesh.data", 1) * r.plan_number("mesh.expert", 1) * r.plan_number("mesh.context", 1);
  const std::uint64_t usual = std::max<std::uint64_t>(40'000'000, 1'000'000 * copies);
  r.assume("plan.gradient_bucket", fmt::format("\"{} B\"", usual * bytes), "Megatron-LM's usual bucket");
}

std::uint64_t eighths(double share) {
  return static_cast<std::uint64_t>(std::lround(std::clamp(share, 0.0, 1.0) * 8.0));
}

void offload(MegatronFlags& f) {
  const double share = f.real("--optimizer-offload-fraction").value_or(1.0);
  if (f.on("--optimizer-cpu-offload")) {
    f.set("--optimizer-cpu-offload", "plan.offload_states", std::to_string(eighths(share)));
    f.take("--optimizer-offload-fraction", "offload_states");
  } else {
    f.without_effect("--optimizer-offload-fraction", "states are not offloaded");
  }
  if (f.on("--fine-grained-activation-offloading"))
    f.refuse("--fine-grained-activation-offloading", "activations of chosen parts of layers are offloaded",
             "all on the device");
  f.without_effect({"--offload-modules", "--activation-offload-fraction", "--min-offloaded-tensor-size",
                    "--delta-offload-bytes-across-pp-ranks", "--delay-offload-until-cuda-graph",
                    "--fine-grained-offloading-max-inflight-offloads"},
                   "it belongs to --fine-grained-activation-offloading");
  const auto layers = f.whole("--cpu-offloading-num-layers", 0);
  const ModelSpec* model = f.reading().known_model();
  if (layers && model != nullptr && model->layers > 0)
    f.set("--cpu-offloading-num-layers", "plan.offload_activations",
          std::to_string(eighths(static_cast<double>(*layers) / static_cast<double>(model->layers))));
}

/// What hides communication in ways that plans do not say.
void hiding(MegatronFlags& f, const LaunchSizes& s) {
  const auto refuse = [&](const char* flag, bool applies, const char* what, const char* nearest) {
    if (!f.on(flag)) return;
    if (applies)
      f.refuse(flag, what, nearest);
    else
      f.without_effect(flag, "there is nothing to hide");
  };
  refuse("--tp-comm-overlap", s.tensor.value > 1, "matrix products hide the tensor axis' messages",
         "messages that are waited for");
  refuse("--overlap-moe-expert-parallel-comm", s.expert_ranks > 1, "other microbatches hide the experts' messages",
         "messages that are waited for");
  refuse("--moe-shared-expert-overlap", s.expert_ranks > 1, "shared experts hide the experts' messages",
         "messages that are waited for");
  if (f.on("--delay-wgrad-compute") && s.pipeline.value * s.expert_ranks > 1)
    f.refuse("--delay-wgrad-compute", "weight gradients are computed later, beside messages", "at once");
  f.without_effect("--delay-wgrad-compute", "there is nothing to hide");
}

/// How tokens come to their experts.
void dispatch(MegatronFlags& f, const LaunchSizes& s) {
  constexpr const char* flag = "--moe-token-dispatcher-type";
  const ModelSpec* model = f.reading().known_model();
  if (model == nullptr) return;
  if (!model->mixture) return f.without_effect(flag, "the model has no experts");
  const auto kind = f.word(flag, {"allgather", "alltoall", "flex", "alltoall_seq"});
  if (!kind && f.is_over_recipe()) {
    if (s.expert_ranks > 1)
      f.reading().assume_of_model("moe_token_dispatcher_type", "alltoall",
                                  "recipes of mixtures usually have it; this one is not read");
    return;
  }
  if (s.expert_ranks > 1 && kind.value_or("allgather") == "allgather") {
    f.set(kind ? flag : "--expert-model-parallel-size", "plan.expert_dispatch", "\"all_gather\"");
    return;
  }
  f.take(flag, "tokens travel to experts");
}

}  // namespace

void read_megatron_memory(MegatronFlags& f, const LaunchSizes& s) {
  const std::uint64_t zero = sharding(f);
  buckets(f, zero);
  offload(f);
  if (f.on("--sequence-parallel") && s.tensor.value > 1)
    f.set("--sequence-parallel", "plan.sequence_parallel", "true");
  else
    f.without_effect("--sequence-parallel", "there is no tensor axis");
  hiding(f, s);
  dispatch(f, s);
}

}  // namespace orrery
