#include "framework/trainer/keys.hpp"

#include <utility>

// Source of the keys: huggingface/transformers v4.56.2 src/transformers/training_args.py and training_args_seq2seq.py.

namespace orrery {

void pass_over_trainer_keys(LaunchReading& r) {
  r.without_effect({"output_dir", "overwrite_output_dir", "run_name", "push_to_hub*", "hub_*", "save_*",
                    "load_best_model_at_end", "metric_for_best_model", "greater_is_better", "resume_from_checkpoint",
                    "restore_callback_states_from_checkpoint", "ignore_data_skip"},
                   "of checkpoints");
  r.without_effect({"logging_*", "log_level*", "log_on_each_node", "report_to", "disable_tqdm", "debug", "project",
                    "trackio_space_id", "include_tokens_per_second", "include_num_input_tokens_seen",
                    "skip_memory_metrics", "include_for_metrics", "include_inputs_for_metrics"},
                   "of logs");
  r.without_effect({"do_eval", "eval_*", "evaluation_strategy", "per_device_eval_batch_size", "per_gpu_eval_batch_size",
                    "prediction_loss_only", "predict_with_generate", "generation_max_length", "generation_num_beams",
                    "generation_config", "sortish_sampler", "batch_eval_metrics", "bf16_full_eval", "fp16_full_eval",
                    "label_names", "past_index", "use_legacy_prediction_loop", "jit_mode_eval"},
                   "of evaluation");
  r.without_effect({"dataloader_*", "remove_unused_columns", "length_column_name", "group_by_length", "data_seed",
                    "train_sampling_strategy", "accelerator_config", "accelerator_config.*"},
                   "of data loading");
  r.without_effect({"seed", "full_determinism", "num_train_epochs", "label_smoothing_factor", "neftune_noise_alpha",
                    "average_tokens_across_devices", "optim_target_modules"},
                   "it changes values, not their number");
  r.without_effect(
      {"ddp_backend", "ddp_timeout", "ddp_find_unused_parameters", "ddp_broadcast_buffers", "ddp", "local_rank",
       "ray_scope", "mp_parameters", "fsdp_min_num_params", "fsdp_transformer_layer_cls_to_wrap"},
      "of the processes' group");
  r.without_effect({"torch_compile*", "torchdynamo", "use_ipex", "half_precision_backend", "fp16_backend",
                    "fp16_opt_level", "torch_empty_cache_steps", "tf32", "optim_args", "use_cache",
                    "gradient_checkpointing_kwargs", "gradient_checkpointing_kwargs.*"},
                   "of kernels, which are priced with the software");
  r.without_effect({"no_cuda", "use_cpu", "use_mps_device", "tpu_*"}, "the cluster says the device");
}

void end_reading(LaunchReading& r, std::string_view key, std::string message, std::vector<std::string> details) {
  r.error(key, std::move(message), std::move(details));
  r.without_effect({"*"}, "");
}

}  // namespace orrery
