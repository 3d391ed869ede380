#include <fmt/format.h>

#include <algorithm>

#include "framework/nanotron/reading.hpp"

// Precision, optimizer and the keys of a nanotron configuration that have no effect on a step. Source:
// huggingface/nanotron@2411b022, src/nanotron/config/config.py and src/nanotron/helpers.py.

namespace orrery {

void NanotronReading::precision() {
  const auto dtype = r_.word("model.dtype", {"bfloat16", "float16", "float32", "float64"}).value_or("bfloat16");
  const bool half = dtype == "bfloat16" || dtype == "float16";
  set_or_assume("model.dtype", "workload.precision",
                dtype == "bfloat16"  ? "\"bf16\""
                : dtype == "float16" ? "\"fp16\""
                : dtype == "float32" ? "\"fp32\""
                                     : "\"fp64\"");
  constexpr const char* wide = "optimizer.accumulate_grad_in_fp32";
  const bool sums_wide = r_.toggle(wide).value_or(true);
  if (!half) {
    r_.without_effect({wide}, "gradients have the weights' type");
  } else if (sums_wide) {
    set_or_assume(wide, "workload.gradient_dtype", "\"f32\"");
  } else if (dtype == "float16") {
    r_.set(wide, "workload.gradient_dtype", "\"f16\"");
    r_.refuse(wide, "weights in fp16 without a copy in f32 are not in plans", "master weights in f32");
  } else {
    r_.set(wide, "workload.gradient_dtype", "\"bf16\"");
    r_.set(wide, "workload.master_weights", "false");
  }
}

void NanotronReading::optimizer() {
  // Adam's numbers stood outside of optimizer_factory in older versions.
  const auto place = [&](const char* word) {
    const std::string inside = std::string("optimizer.optimizer_factory.") + word;
    return has(inside) ? inside : std::string("optimizer.") + word;
  };
  const std::string name_key = "optimizer.optimizer_factory.name";
  std::string name = r_.text(name_key).value_or("adamW");
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (name == "sgd") {
    r_.set(name_key, "workload.optimizer.kind", "\"sgd\"");
    r_.set(name_key, "workload.optimizer.momentum", "0.0");
  } else {
    set_or_assume(name_key, "workload.optimizer.kind", "\"adam\"");
    if (name != "adamw" && name != "adam") {
      r_.refuse(name_key, fmt::format("plans have no optimizer {}", name.substr(0, 40)), "adam");
    }
    const auto number = [&](const char* word, const char* plan_key) {
      const std::string key = place(word);
      if (const auto value = r_.real(key)) r_.set(key, plan_key, fmt::format("{}", *value));
    };
    number("adam_beta1", "workload.optimizer.beta1");
    number("adam_beta2", "workload.optimizer.beta2");
    number("adam_eps", "workload.optimizer.epsilon");
  }
  r_.without_effect({"optimizer.torch_adam_is_fused", "optimizer.optimizer_factory.*", "optimizer.adam_*"},
                    "which kernels update weights is the software's");
  set_or_assume("optimizer.weight_decay", "workload.optimizer.weight_decay",
                fmt::format("{}", r_.real("optimizer.weight_decay").value_or(0.0)));
  r_.without_effect({"optimizer.weight_decay_exclude_named_params"}, "which weights decay costs nothing");
  if (const auto bound = r_.real("optimizer.clip_grad")) {
    if (*bound > 0.0) {
      r_.set("optimizer.clip_grad", "workload.clip_norm", fmt::format("{}", *bound));
    } else {
      r_.take("optimizer.clip_grad", "no bound of the gradients' norm");
    }
  }
  if (const auto seed = r_.whole("general.seed", 0, std::uint64_t{1} << 52)) {
    r_.set("general.seed", "workload.seed", std::to_string(*seed));
  }
}

void NanotronReading::learning_rate() {
  const auto in = [](const char* word) { return std::string("optimizer.learning_rate_scheduler.") + word; };
  const auto rate = r_.real(in("learning_rate"));
  if (rate && *rate > 0.0) r_.set(in("learning_rate"), "workload.optimizer.learning_rate", fmt::format("{}", *rate));
  const std::uint64_t warmup = r_.whole(in("lr_warmup_steps")).value_or(0);
  const std::uint64_t steps = r_.whole("tokens.train_steps", 1).value_or(0);
  const std::uint64_t begins = r_.whole(in("lr_decay_starting_step")).value_or(warmup);
  const std::uint64_t left = steps > begins ? steps - begins : 0;
  const std::uint64_t falls = r_.whole(in("lr_decay_steps")).value_or(left);
  const auto shape = r_.word(in("lr_decay_style"), {"linear", "cosine", "1-sqrt"}).value_or("linear");
  const double least = r_.real(in("min_decay_lr")).value_or(rate.value_or(0.0));
  const bool flat = rate && least >= *rate;  // a fall to the rate itself
  if (falls > 0 && !flat) {
    set_or_assume(in("lr_decay_style"), "workload.schedule.kind", shape == "cosine" ? "\"cosine\"" : "\"linear\"");
    set_or_assume(has(in("lr_decay_steps")) ? in("lr_decay_steps") : std::string("tokens.train_steps"),
                  "workload.schedule.total_steps", std::to_string(begins + falls));
    if (rate && *rate > 0.0 && least >= 0.0 && least <= *rate) {
      set_or_assume(in("min_decay_lr"), "workload.schedule.minimum_ratio", fmt::format("{}", least / *rate));
    }
  }
  set_or_assume(in("lr_warmup_steps"), "workload.schedule.warmup_steps", std::to_string(warmup));
  r_.without_effect({"optimizer.learning_rate_scheduler.*", "tokens.train_steps"},
                    "the learning rate changes no step's time");
}

void NanotronReading::no_effects() {
  if (r_.toggle("model.model_config._use_doc_masking").value_or(false)) {
    r_.take("model.model_config._use_doc_masking", "each sequence counts as one document, the most work it can be");
  }
  if (const LaunchValue* stages = r_.value("data_stages"); stages != nullptr) {
    const std::string length = r_.text("tokens.sequence_length").value_or("");
    for (const LaunchValue& stage : stages->items) {
      for (const LaunchValue& v : stage.items) {
        if (v.key != "sequence_length" || v.kind == LaunchValue::Kind::none || v.text == length) continue;
        r_.refuse("data_stages", fmt::format("a stage with sequences of {} is not in plans", v.text.substr(0, 20)),
                  "the length in tokens.sequence_length for all");
      }
    }
  }
  r_.without_effect({"data_stages", "data_stages.*", "data.*", "tokenizer", "tokenizer.*", "doremi.*"},
                    "data and tokenizer are no part of a plan");
  r_.without_effect({"checkpoints.*", "s3_upload.*", "lighteval.*", "tokens.val_check_interval",
                     "tokens.limit_val_batches", "tokens.limit_test_batches"},
                    "checkpoints and validation lie outside of a step");
  r_.without_effect({"general.*", "logging.*", "metrics_logging.*", "profiler.*", "experiment_logger.*"},
                    "names, logs and traces are no part of a plan");
  r_.without_effect({"model.init_method.*", "model.make_vocab_size_divisible_by"},
                    "how weights begin, and padding below that of a plan, costs nothing");
  r_.without_effect({"parallelism.tp_linear_async_communication"},
                    "how messages hide behind products is a cost of the software");
  const auto in = [](const char* word) { return std::string("model.model_config.") + word; };
  for (const char* word :
       {"bos_token_id", "eos_token_id", "pad_token_id", "initializer_range", "pretraining_tp", "use_cache",
        "rope_interleaved", "interleaved_rotary", "rope_scaling", "rope_seq_len_interpolation_factor",
        "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "scale_attn_weights"}) {
    r_.without_effect({in(word), in(word) + ".*"}, "it changes no shape");
  }
  for (const char* word : {"_fused_rms_norm", "_fused_rotary_emb", "_use_qkv_packed", "_use_doc_masking",
                           "flex_attention_mask", "log_attn_probs", "z_loss_enabled", "z_loss_coefficient", "z_loss"}) {
    r_.without_effect({in(word)}, "which kernels run is the software's");
  }
  for (const LaunchValue& v : r_.file().values) {  // families that the file is not of
    if (v.key.starts_with("model.model_config.is_")) r_.without_effect({v.key}, "it names a family");
  }
}

}  // namespace orrery
