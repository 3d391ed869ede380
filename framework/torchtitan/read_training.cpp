#include <fmt/format.h>

#include "core/base/toml_writer.hpp"
#include "framework/torchtitan/reading.hpp"

// Precision, optimizer and the keys of a torchtitan configuration that have no effect on a step.

namespace orrery {

void TitanReading::training() {
  precision();
  optimizer();
  learning_rate();
  for (const char* seed : {"debug.seed", "training.seed"}) {
    if (const auto n = r_.whole(seed, 0, std::uint64_t{1} << 52)) {
      r_.set(seed, "workload.seed", std::to_string(*n));
    }
  }
  for (const char* forced : {"debug.moe_force_load_balance", "training.debug_moe_force_load_balance"}) {
    if (has(forced)) r_.take(forced, "plans take the experts' loads as balanced unless they say otherwise");
  }
  const std::string semi = r_.text("fault_tolerance.semi_sync_method").value_or("");
  if (r_.toggle("fault_tolerance.enable").value_or(false)) {
    if (semi.empty()) {
      r_.refuse("fault_tolerance.enable", "replica groups that come and go are not in plans",
                "one group, which this file launches");
    } else {
      r_.take("fault_tolerance.enable", "the plan is the inner step of one replica group, which the file launches");
    }
  }
  without_effect({"fault_tolerance.*"}, "replica groups meet outside of the step of one group");
}

void TitanReading::precision() {
  // Without FSDP mixed precision is autocast's, which torchtitan leaves out beside tensor and pipeline ranks.
  const bool mixed = fsdp_ || (tensor_ == 1 && pipeline_ == 1);
  constexpr std::string_view param = "training.mixed_precision_param";
  constexpr std::string_view dtype = "training.dtype";
  const auto compute = r_.word(param, {"bfloat16", "float32"}).value_or("bfloat16");
  const bool narrow = r_.word(dtype, {"bfloat16", "float32"}) == "bfloat16";
  const bool half = narrow || (mixed && compute == "bfloat16");
  const std::string precision = !half ? "\"fp32\"" : float8_ ? "\"fp8\"" : "\"bf16\"";
  set_or_assume(param, "workload.precision", precision);
  if (!mixed && !narrow) {
    if (has(param)) r_.take(param, "mixed precision needs ranks that shard weights");
  }
  if (narrow) {
    r_.set(dtype, "workload.gradient_dtype", "\"bf16\"");
    r_.set(dtype, "workload.moment_dtype", "\"bf16\"");
    r_.set(dtype, "workload.master_weights", "false");
  } else if (has(dtype)) {
    r_.take(dtype, "weights are kept in f32");
  }
  if (r_.word("training.mixed_precision_reduce", {"float32", "bfloat16"}) == "bfloat16" && half) {
    r_.set("training.mixed_precision_reduce", "workload.gradient_dtype", "\"bf16\"");
  } else if (has("training.mixed_precision_reduce")) {
    r_.take("training.mixed_precision_reduce", "gradients are summed in f32");
  }
}

void TitanReading::optimizer() {
  const std::string name = r_.text("optimizer.name").value_or("AdamW");
  if (name == "Adam" || name == "AdamW") {
    set_or_assume("optimizer.name", "workload.optimizer.kind", "\"adam\"");
  } else {
    r_.set("optimizer.name", "workload.optimizer.kind", "\"adam\"");
    r_.refuse("optimizer.name", fmt::format("plans have no optimizer {}", name.substr(0, 40)), "adam");
  }
  const auto number = [&](std::string_view from, std::string_view plan_key, double otherwise) {
    set_or_assume(from, plan_key, fmt::format("{}", r_.real(from).value_or(otherwise)));
  };
  number("optimizer.lr", "workload.optimizer.learning_rate", 8e-4);
  number("optimizer.beta1", "workload.optimizer.beta1", 0.9);
  number("optimizer.beta2", "workload.optimizer.beta2", 0.95);
  number("optimizer.eps", "workload.optimizer.epsilon", 1e-8);
  number("optimizer.weight_decay", "workload.optimizer.weight_decay", 0.1);
  without_effect({"optimizer.implementation"}, "which kernels update weights is the software's");
  if (r_.toggle("optimizer.early_step_in_backward").value_or(false)) {
    r_.refuse("optimizer.early_step_in_backward", "updates inside the backward pass are not in plans",
              "updates behind it");
  }
  without_effect({"optimizer.early_step_in_backward"}, "updates follow the backward pass");
  // torchtitan's bound is a number always; infinity bounds nothing.
  const LaunchValue* bound = r_.value("training.max_norm");
  if (bound != nullptr && (bound->text == "inf" || bound->text == "+inf")) {
    r_.take("training.max_norm", "no bound of the gradients' norm");
  } else {
    const double norm = r_.real("training.max_norm").value_or(1.0);
    if (norm > 0.0) set_or_assume("training.max_norm", "workload.clip_norm", fmt::format("{}", norm));
    if (norm <= 0.0) r_.take("training.max_norm", "no bound of the gradients' norm");
  }
}

void TitanReading::learning_rate() {
  const std::uint64_t steps = r_.whole("training.steps", 1).value_or(10000);
  const std::uint64_t warmup = r_.whole("lr_scheduler.warmup_steps").value_or(200);
  const std::uint64_t total = r_.whole("lr_scheduler.total_steps", 1).value_or(steps);
  const auto ratio = r_.real("lr_scheduler.decay_ratio");
  const auto shape = r_.word("lr_scheduler.decay_type", {"linear", "sqrt", "cosine"}).value_or("linear");
  const bool falls = total > warmup && !(ratio && *ratio <= 0.0);
  set_or_assume("lr_scheduler.decay_type", "workload.schedule.kind",
                !falls              ? "\"constant\""
                : shape == "cosine" ? "\"cosine\""
                                    : "\"linear\"");
  set_or_assume("lr_scheduler.warmup_steps", "workload.schedule.warmup_steps", std::to_string(warmup));
  const char* total_key = has("lr_scheduler.total_steps") ? "lr_scheduler.total_steps" : "training.steps";
  if (falls) set_or_assume(total_key, "workload.schedule.total_steps", std::to_string(total));
  for (const char* least : {"lr_scheduler.min_lr_factor", "lr_scheduler.lr_min"}) {
    const auto share = r_.real(least);
    if (share && falls) r_.set(least, "workload.schedule.minimum_ratio", fmt::format("{}", *share));
  }
  without_effect({"lr_scheduler.*", "training.steps"}, "the learning rate changes no step's time");
}

void TitanReading::no_effects() {
  without_effect({"job.*", "experimental.*"}, "names, folders and modules of the program's own");
  without_effect({"profiling.*", "metrics.*", "memory_estimation.*", "debug.deterministic*", "training.deterministic",
                  "training.gc_freq", "training.gc_debug", "comm.*"},
                 "what is logged, traced and waited for is no part of a plan");
  without_effect({"checkpoint.*", "validation.*"}, "checkpoints and validation lie outside of a step");
  without_effect({"training.dataset*", "training.dataloader.*", "model.hf_assets_path", "model.tokenizer_path",
                  "model.tokenizer*", "model.print_after_conversion"},
                 "data and tokenizer are no part of a plan");
  without_effect({"compile.*", "training.compile", "parallelism.enable_compiled_autograd"},
                 "what is compiled is a cost of the software");
  without_effect({"parallelism.enable_async_tensor_parallel", "parallelism.expert_parallel_comm_backend",
                  "parallelism.pipeline_parallel_expert_parallel_overlap", "parallelism.fsdp_bucket*"},
                 "how messages hide behind products is a cost of the software");
}

}  // namespace orrery
