#include <fmt/format.h>

#include <numeric>

#include "core/plan/plan_names.hpp"
#include "framework/torchtitan/reading.hpp"

// Mesh and batch of a torchtitan configuration. Source: pytorch/torchtitan@73a0e6979,
// torchtitan/distributed/parallel_dims.py and torchtitan/models/llama3/infra/parallelize.py.

namespace orrery {

LaunchSizes::Size TitanReading::size(std::string_view name, std::uint64_t otherwise) {
  const auto value = r_.whole(name, 1);
  return value ? LaunchSizes::Size{*value, std::string(name)} : LaunchSizes::Size{otherwise, ""};
}

void TitanReading::sizes() {
  LaunchSizes sizes;
  if (r_.file().syntax == LaunchSyntax::flags) sizes.gpus = launcher_gpus(r_);
  sizes.tensor = size("parallelism.tensor_parallel_degree", 1);
  sizes.pipeline = size("parallelism.pipeline_parallel_degree", 1);
  sizes.context = size("parallelism.context_parallel_degree", 1);
  sizes.replica = size("parallelism.data_parallel_replicate_degree", 1);
  tensor_ = sizes.tensor.value;
  pipeline_ = sizes.pipeline.value;
  constexpr std::string_view shard = "parallelism.data_parallel_shard_degree";
  std::optional<std::uint64_t> shards;
  if (const auto n = r_.integer(shard)) {
    if (*n == -1) {
      r_.take(shard, "all ranks that are left");
    } else if (*n >= 1) {
      shards = static_cast<std::uint64_t>(*n);
    } else {
      r_.error(shard, "data_parallel_shard_degree is -1 or at least 1", {fmt::format("It is {}.", *n)});
    }
  }
  if (tensor_ > 1) {
    r_.set("parallelism.tensor_parallel_degree", "plan.sequence_parallel", "true");
    if (r_.toggle("parallelism.disable_loss_parallel").value_or(false)) {
      r_.refuse("parallelism.disable_loss_parallel", "whole logits on every tensor rank are not in plans",
                "logits cut along the vocabulary");
    }
  }
  without_effect({"parallelism.disable_loss_parallel"}, "the logits are cut along the vocabulary anyway, or whole");
  experts(sizes, shards);
  if (shards) sizes.data = LaunchSizes::Size{*shards / sizes.expert.value, std::string(shard)};
  batch(sizes);
  put_sizes(r_, sizes);
}

/// torchtitan takes the ranks of experts from the innermost ranks that shard, context ranks among them, and before
/// these from tensor ranks unless experts are cut by them too.
void TitanReading::experts(LaunchSizes& sizes, const std::optional<std::uint64_t>& shards) {
  constexpr std::string_view name = "parallelism.expert_parallel_degree";
  constexpr std::string_view width = "parallelism.expert_tensor_parallel_degree";
  const std::uint64_t wanted = size(name, 1).value;
  const std::uint64_t cut = size(width, 1).value;
  const bool mixture = r_.known_model() != nullptr && r_.known_model()->mixture.has_value();
  const bool whole = wanted > 1 && mixture && tensor_ > 1 && cut == 1;
  if (has(width)) {
    if (wanted > 1 && mixture && tensor_ > 1 && !whole && cut != tensor_) {
      r_.refuse(width, "experts cut by some of the tensor ranks are not in plans",
                fmt::format("experts cut by {} tensor ranks", tensor_));
    } else if (whole) {
      r_.take(width, "plan.expert_folding");
    } else {
      r_.without_effect(width, "experts are cut as other layers are");
    }
  }
  if (!has(name)) return;
  if (!mixture) {
    r_.without_effect(name, "the model has no experts");
    return;
  }
  const std::optional<ExpertRanks> laid = expert_ranks(wanted, whole ? tensor_ : 1, sizes.context.value);
  std::uint64_t expert = laid ? laid->expert : wanted;
  if (shards) expert = std::gcd(expert, *shards);
  expert = std::gcd(expert, std::uint64_t{r_.known_model()->mixture->experts});
  sizes.expert = {expert, std::string(name)};
  if (!laid) {
    r_.refuse(name, fmt::format("{} expert ranks are a part of the tensor and context ranks", wanted),
              fmt::format("{} expert ranks inside the data-parallel ones", expert));
  } else if (expert != laid->expert) {
    r_.refuse(name, fmt::format("{} expert ranks would lie among {} that shard", wanted, shards.value_or(expert)),
              fmt::format("{} expert ranks inside the data-parallel ones", expert));
  }
  if (laid && laid->folding != ExpertFolding::none) {
    r_.set(name, "plan.expert_folding", fmt::format("\"{}\"", name_of(laid->folding)));
  }
}

void TitanReading::batch(LaunchSizes& sizes) {
  constexpr std::string_view local_name = "training.local_batch_size";
  constexpr std::string_view global_name = "training.global_batch_size";
  constexpr std::string_view piece_name = "parallelism.pipeline_parallel_microbatch_size";
  const bool open = pipeline_ == 1 && !has(local_name);
  const LaunchSizes::Size local = size(local_name, open ? r_.given("plan.microbatch_size").value_or(8) : 8);
  std::optional<std::uint64_t> global;
  if (const auto n = r_.integer(global_name)) {
    if (*n > 0) {
      global = static_cast<std::uint64_t>(*n);
      sizes.batch = LaunchSizes::Size{*global, std::string(global_name)};
    } else {
      r_.take(global_name, "local_batch_size times the data-parallel ranks");
    }
  }
  if (pipeline_ == 1) {
    sizes.micro = local;
    without_effect({piece_name}, "the pipeline has one stage");
    if (!global) sizes.accumulation = LaunchSizes::Size{1, ""};
  } else {
    sizes.micro = size(piece_name, 1);
    if (local.value % sizes.micro->value != 0) {
      r_.error(local_name, "the microbatch size of the pipeline does not divide local_batch_size",
               {fmt::format("{} / {} leaves {}.", local.value, sizes.micro->value, local.value % sizes.micro->value)});
      return;
    }
    if (!global) sizes.accumulation = LaunchSizes::Size{local.value / sizes.micro->value, local.from};
  }
  if (sizes.micro->from.empty()) {
    r_.assume("plan.microbatch_size", std::to_string(sizes.micro->value), "torchtitan's default");
  }
  if (has("training.seq_len")) {
    sizes.sequence = size("training.seq_len", 2048);
  } else if (!r_.given("workload.sequence")) {
    r_.assume("workload.sequence", "2048", "torchtitan's default");
  }
}

void TitanReading::context() {
  constexpr std::string_view rotate = "parallelism.context_parallel_rotate_method";
  constexpr std::string_view balance = "parallelism.context_parallel_load_balancer";
  if (r_.plan_number("mesh.context", 1) == 1) {
    without_effect({rotate, balance}, "the context axis has one rank");
    return;
  }
  const auto method = r_.word(rotate, {"allgather", "alltoall"});
  set_or_assume(rotate, "plan.context", method == "alltoall" ? "\"ring\"" : "\"all_gather\"");
  set_or_assume(balance, "plan.zigzag", "true");
  if (const auto how = r_.text(balance); how && *how != "headtail") {
    const bool none = *how == "None" || *how == "none";
    r_.set(balance, "plan.zigzag", none ? "false" : "true");
    if (!none) r_.refuse(balance, fmt::format("the balance \"{}\" is not in plans", *how), "zigzag");
  }
  const bool mixture = r_.known_model() != nullptr && r_.known_model()->mixture.has_value();
  if (mixture) {
    r_.assume("workload.routing.kind", "\"balanced\"", "the file does not say which experts tokens visit");
  }
}

/// FSDP2 shards weights, gradients and states over data and context ranks. Without such ranks there is DDP or nothing.
void TitanReading::sharding() {
  const std::uint64_t shards =
      r_.plan_number("mesh.data", 1) * r_.plan_number("mesh.expert", 1) * r_.plan_number("mesh.context", 1);
  constexpr std::string_view reshard = "parallelism.fsdp_reshard_after_forward";
  fsdp_ = shards > 1;
  const auto policy = r_.word(reshard, {"default", "always", "never"}).value_or("default");
  if (fsdp_) {
    r_.assume("plan.zero_stage", "3", "FSDP shards weights, gradients and states");
    const bool again = policy == "always" || (policy == "default" && pipeline_ == 1);
    set_or_assume(reshard, "plan.reshard_after_forward", again ? "true" : "false");
  } else {
    without_effect({reshard}, "nothing is sharded");
    r_.assume("plan.zero_stage", "0", "no ranks shard weights");
    if (r_.plan_number("mesh.replica", 1) > 1) {
      r_.assume("plan.gradient_bucket", "\"100 MiB\"", "torchtitan's buckets of DDP");
    }
  }
  // Without a pipeline a larger batch is accumulated; with one it is several runs of the pipeline.
  constexpr std::string_view global_name = "training.global_batch_size";
  const std::uint64_t ranks =
      r_.plan_number("mesh.data", 1) * r_.plan_number("mesh.expert", 1) * r_.plan_number("mesh.replica", 1);
  const std::uint64_t once = ranks * size("training.local_batch_size", 8).value;
  const std::uint64_t global = r_.plan_number("workload.batch", once);
  if (has(global_name) && pipeline_ > 1 && global > once) {
    r_.refuse(global_name, fmt::format("{} runs of the pipeline for one step are not in plans", global / once),
              "one run with all microbatches");
  }
  if (pipeline_ > 1 && has("training.local_batch_size")) {
    r_.take("training.local_batch_size", "sequences of a rank in one run of the pipeline");
  }
  if (r_.toggle("training.enable_cpu_offload").value_or(false)) {
    if (fsdp_) {
      r_.set("training.enable_cpu_offload", "plan.offload_states", "8");
      r_.refuse("training.enable_cpu_offload", "sharded weights and gradients off the device are not in plans",
                "optimizer states off the device");
    } else {
      r_.without_effect("training.enable_cpu_offload", "nothing is sharded");
    }
  }
  without_effect({"training.enable_cpu_offload"}, "everything stays on the device");
}

}  // namespace orrery
