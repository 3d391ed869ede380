#include "framework/trainer/keys.hpp"
#include "framework/llama_factory/yaml.hpp"

// Source of the keys: hiyouga/LLaMA-Factory@ff6d4d12 src/llamafactory/hparams/*.py.

namespace orrery {

void pass_over_llama_factory_keys(LaunchReading& r) {
  r.without_effect({"dataset",
                    "dataset_dir",
                    "eval_dataset",
                    "media_dir",
                    "template",
                    "train_on_prompt",
                    "mask_history",
                    "streaming",
                    "buffer_size",
                    "mix_strategy",
                    "interleave_probs",
                    "overwrite_cache",
                    "preprocessing_*",
                    "max_samples",
                    "ignore_pad_token_for_loss",
                    "val_size",
                    "tool_format",
                    "default_system",
                    "enable_thinking",
                    "preserve_thinking",
                    "tokenized_path",
                    "data_shared_file_system",
                    "dispatch_batches",
                    "data_*",
                    "efficient_eos",
                    "split"},
                   "of the data");
  r.without_effect({"cache_dir",           "use_fast_tokenizer", "resize_vocab",        "split_special_tokens",
                    "add_tokens",          "add_special_tokens", "new_special_tokens*", "skip_special_tokens",
                    "init_special_tokens", "model_revision",     "low_cpu_mem_usage",   "rope_scaling*",
                    "train_from_scratch",  "offload_folder",     "use_kv_cache",        "infer_*",
                    "hf_hub_token",        "ms_hub_token",       "om_hub_token",        "print_param_status",
                    "trust_remote_code",   "adapter_*",          "compute_dtype",       "device_map",
                    "model_max_length"},
                   "of loading the model");
  r.without_effect({"image_*", "video_*", "crop_to_patches", "use_audio_in_video", "audio_sampling_rate",
                    "freeze_vision_tower", "freeze_multi_modal_projector", "freeze_language_model"},
                   "of images and sound, which this model does not take");
  r.without_effect(
      {"upcast_*", "use_v1_kernels", "use_reentrant_gc", "fp8_backend", "block_diag_attn", "moe_aux_loss_coef"},
      "of kernels, which are priced with the software");
  r.without_effect(
      {"use_dft_loss", "use_eaft_loss", "eaft_alpha", "asft_alpha", "use_asft_loss", "disable_shuffling", "loraplus_*"},
      "it changes values, not their number");
  r.without_effect({"swanlab_*", "use_swanlab", "plot_loss", "compute_accuracy", "early_stopping_steps",
                    "include_effective_tokens_per_second", "enable_torch_profiler", "profiler_*", "profile_modules",
                    "task*", "lang", "n_shot", "batch_size", "save_dir", "download_mode"},
                   "of logs and evaluation");
  r.without_effect({"do_sample", "temperature", "top_p", "top_k", "num_beams", "max_length", "max_new_tokens",
                    "repetition_penalty", "length_penalty", "vllm_*", "sglang_*", "export_*"},
                   "of serving and export");
  r.without_effect({"pissa_*"}, "it changes values, not their number");
  r.without_effect({"lora_*",   "use_rslora",     "use_dora",      "create_new_adapter", "additional_target",
                    "oft_*",    "module_dropout", "freeze_*",      "quantization_*",     "double_quantization",
                    "kt_*",     "use_kt",         "use_llama_pro", "mixture_of_depths",  "galore_*",
                    "apollo_*", "badam_*",        "use_badam",     "use_hyper_parallel", "hyper_parallel_*"},
                   "of what this run does not use");
  r.without_effect({"pref_*", "dpo_*", "kto_*", "simpo_gamma", "ppo_*", "ref_model*", "reward_model*", "ld_alpha"},
                   "of other stages than this");
  r.without_effect({"stage", "finetuning_type", "do_train", "do_predict", "use_mca", "use_megatron_bridge", "ray_*",
                    "master_addr", "master_port", "resources_per_worker*", "placement_strategy"},
                   "of the program's start");
  pass_over_trainer_keys(r);
}

}  // namespace orrery
