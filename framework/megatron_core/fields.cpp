#include "framework/megatron_core/fields.hpp"

#include <array>

// src/megatron/bridge/training/config.py of NVIDIA-NeMo/Megatron-Bridge@003e863a, and the configurations of
// Megatron-Core that it inherits.

namespace orrery {

std::span<const BridgeField> bridge_fields() {
  static constexpr std::array fields{
      BridgeField{"model.virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"},
      BridgeField{"model.num_layers_in_first_pipeline_stage", "--decoder-first-pipeline-num-layers"},
      BridgeField{"model.num_layers_in_last_pipeline_stage", "--decoder-last-pipeline-num-layers"},
      BridgeField{"model.num_moe_experts", "--num-experts"},
      BridgeField{"model.layernorm_epsilon", "--norm-epsilon"},
      BridgeField{"model.gated_linear_unit", "--swiglu"},
      BridgeField{"model.add_bias_linear", "--disable-bias-linear", true},
      BridgeField{"model.share_embeddings_and_output_weights", "--untie-embeddings-and-output-weights", true},
      BridgeField{"model.fp8", "--fp8-format"},
      BridgeField{"model.apply_rope_fusion", "--no-rope-fusion", true},
      BridgeField{"model.cpu_offloading_num_layers", "--cpu-offloading-num-layers"},
      BridgeField{"model.seq_length", "--seq-length"},
      BridgeField{"dataset.seq_length", "--seq-length"},
      BridgeField{"dataset.sequence_length", "--seq-length"},
      BridgeField{"train.micro_batch_size", "--micro-batch-size"},
      BridgeField{"train.global_batch_size", "--global-batch-size"},
      BridgeField{"ddp.bucket_size", "--ddp-bucket-size"},
      BridgeField{"ddp.grad_reduce_in_fp32", "--grad-reduce-in-bf16", true},
      BridgeField{"ddp.use_distributed_optimizer", "--use-distributed-optimizer"},
      BridgeField{"ddp.overlap_grad_reduce", "--overlap-grad-reduce"},
      BridgeField{"ddp.use_megatron_fsdp", "--use-megatron-fsdp"},
      BridgeField{"ddp.data_parallel_sharding_strategy", "--data-parallel-sharding-strategy"},
      BridgeField{"ddp.num_distributed_optimizer_instances", "--num-distributed-optimizer-instances"},
      BridgeField{"dist.use_megatron_fsdp", "--use-megatron-fsdp"},
      BridgeField{"dist.use_tp_pp_dp_mapping", "--use-tp-pp-dp-mapping"},
      BridgeField{"optimizer.optimizer", "--optimizer"},
      BridgeField{"optimizer.lr", "--lr"},
      BridgeField{"optimizer.min_lr", "--min-lr"},
      BridgeField{"optimizer.weight_decay", "--weight-decay"},
      BridgeField{"optimizer.clip_grad", "--clip-grad"},
      BridgeField{"optimizer.adam_beta1", "--adam-beta1"},
      BridgeField{"optimizer.adam_beta2", "--adam-beta2"},
      BridgeField{"optimizer.adam_eps", "--adam-eps"},
      BridgeField{"optimizer.sgd_momentum", "--sgd-momentum"},
      BridgeField{"optimizer.use_precision_aware_optimizer", "--use-precision-aware-optimizer"},
      BridgeField{"optimizer.store_param_remainders", "--no-store-param-remainders", true},
      BridgeField{"optimizer.exp_avg_dtype", "--exp-avg-dtype"},
      BridgeField{"optimizer.exp_avg_sq_dtype", "--exp-avg-sq-dtype"},
      BridgeField{"optimizer.optimizer_cpu_offload", "--optimizer-cpu-offload"},
      BridgeField{"optimizer.optimizer_offload_fraction", "--optimizer-offload-fraction"},
      BridgeField{"scheduler.lr_decay_style", "--lr-decay-style"},
      BridgeField{"scheduler.lr_decay_iters", "--lr-decay-iters"},
      BridgeField{"scheduler.lr_warmup_iters", "--lr-warmup-iters"},
      BridgeField{"comm_overlap.tp_comm_overlap", "--tp-comm-overlap"},
      BridgeField{"rng.seed", "--seed"},
      BridgeField{"checkpoint.ckpt_format", "--ckpt-format"},
      BridgeField{"trainer.strategy.virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"},
      BridgeField{"trainer.strategy.num_layers_in_first_pipeline_stage", "--decoder-first-pipeline-num-layers"},
      BridgeField{"trainer.strategy.num_layers_in_last_pipeline_stage", "--decoder-last-pipeline-num-layers"},
      BridgeField{"trainer.max_steps", "--train-iters"},
      BridgeField{"optim.config.lr", "--lr"}};
  return fields;
}

}  // namespace orrery
