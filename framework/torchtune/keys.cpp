#include "framework/torchtune/yaml.hpp"

// Source of the keys: pytorch/torchtune@bd2a0fc7 recipes/*.py and recipes/configs/**.

namespace orrery {

void pass_over_torchtune_keys(LaunchReading& r) {
  r.without_effect({"dataset", "dataset.*", "datasets", "dataset_val", "dataset_val.*", "dataloader", "dataloader.*",
                    "batch_size_val", "run_val_every_n_steps", "shuffle", "collate_fn"},
                   "of the data");
  r.without_effect({"tokenizer", "tokenizer.*", "resize_token_embeddings"}, "a few tokens more or less");
  r.without_effect({"checkpointer", "checkpointer.*", "output_dir", "base_model_path", "name", "resume_from_checkpoint",
                    "save_every_n_epochs", "save_every_n_steps", "save_adapter_weights_only", "keep_last_n_checkpoints",
                    "enable_async_checkpointing", "low_cpu_ram", "use_distributed_state_dict"},
                   "of loading and saving");
  r.without_effect({"metric_logger", "metric_logger.*", "log_every_n_steps", "log_peak_memory_stats", "log_level",
                    "profiler", "profiler.*", "debug_logging_enabled", "debug_num_samples_per_step"},
                   "of logs");
  r.without_effect({"seed", "cudnn_deterministic_mode", "num_steps"}, "it changes values, not their number");
  r.without_effect({"compile", "compile.*", "use_flex"}, "of kernels, which are priced with the software");
  r.without_effect({"device", "enable_expandable_segments"}, "the cluster says the device");
  // Keys of old files that no recipe asks for.
  r.without_effect({"memory_efficient_fsdp_wrap", "fsdp", "fsdp.cpu_offload"}, "torchtune has no such key");
}

}  // namespace orrery
