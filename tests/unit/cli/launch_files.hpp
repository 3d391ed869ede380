#pragma once

#include <string>
#include <vector>

// A small launch file of each kind, as its program's users write them.

namespace orrery::test {

struct LaunchExample {
  std::string format;     ///< as --as takes it
  std::string framework;  ///< whose it is
  std::string name;       ///< of the file
  std::string arguments;  ///< what the file leaves open
  std::string text;
  bool own_model = false;  ///< the file describes its model
};

/// A pretraining script: variables, arithmetic, arrays, and torchrun. 2 x 8 GPUs over tensor 2 x pipeline 2 leave 4
/// data-parallel ranks, so that a batch of 16 x 2 is 8 microbatches on each.
inline const std::string megatron_script = R"(#!/bin/bash
# Pretrains a small model.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${NNODES:-2}
WORLD_SIZE=$((GPUS_PER_NODE * NNODES))
TP=2
PP=${PP:-2}
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --master_port 6000
)
MODEL_ARGS=(
    --use-mcore-models
    --num-layers 24
    --hidden-size 2048
    --ffn-hidden-size 5504
    --num-attention-heads 16
    --seq-length 4096
    --max-position-embeddings 4096
    --position-embedding-type rope
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --vocab-size 32000
    --attention-dropout 0
    --hidden-dropout 0
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size $((WORLD_SIZE * 2))
    --train-iters 1000
    --lr 3e-4
    --min-lr 3e-5
    --lr-decay-style cosine
    --lr-warmup-iters 100
    --clip-grad 1.0
    --bf16
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP
    --pipeline-model-parallel-size $PP
    --sequence-parallel
    --use-distributed-optimizer
    --overlap-grad-reduce
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    ${TRAINING_ARGS[@]} \
    ${PARALLEL_ARGS[@]} \
    --log-interval 10 --save $1 --data-path $2
)";

inline const std::vector<LaunchExample> launch_examples{
    {"megatron-script", "megatron-core", "train.sh", "", megatron_script, true},
    {"deepspeed-json", "deepspeed", "ds_config.json", "--model llama-3-8b --gpus 16 --set sequence=4096", R"({
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 2,
  "gradient_clipping": "auto",
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": true,
    "reduce_bucket_size": "auto"
  }
})"},
    {"accelerate-yaml", "accelerate", "fsdp.yaml", "--model llama-3-8b --set mbs=1", R"(distributed_type: FSDP
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_activation_checkpointing: true
machine_rank: 0
mixed_precision: bf16
num_machines: 2
num_processes: 16
)"},
    {"torchtitan-toml", "torchtitan", "titan.toml", "--gpus 16", R"([model]
name = "llama3"
flavor = "8B"

[optimizer]
name = "AdamW"
lr = 3e-4

[training]
local_batch_size = 1
seq_len = 4096
max_norm = 1.0

[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
)"},
    {"nanotron-yaml", "nanotron", "nano.yaml", "", R"(general:
  project: small
  seed: 42
model:
  dtype: bfloat16
  model_config:
    is_llama_config: true
    hidden_act: silu
    hidden_size: 1024
    intermediate_size: 2816
    max_position_embeddings: 4096
    num_attention_heads: 16
    num_hidden_layers: 12
    num_key_value_heads: 16
    rms_norm_eps: 1.0e-05
    rope_theta: 10000.0
    tie_word_embeddings: false
    vocab_size: 32000
optimizer:
  accumulate_grad_in_fp32: true
  clip_grad: 1.0
  learning_rate_scheduler:
    learning_rate: 0.0003
  optimizer_factory:
    adam_beta1: 0.9
    adam_beta2: 0.95
    adam_eps: 1.0e-08
    name: adamW
  weight_decay: 0.01
  zero_stage: 1
parallelism:
  dp: 4
  pp: 2
  pp_engine: 1f1b
  tp: 1
tokens:
  batch_accumulation_per_replica: 4
  micro_batch_size: 1
  sequence_length: 2048
  train_steps: 1000
)",
     true},
    {"axolotl-yaml", "axolotl", "axolotl.yaml", "--gpus 8", R"(base_model: meta-llama/Meta-Llama-3-8B
datasets:
  - path: my/data
    type: alpaca
sequence_len: 4096
sample_packing: true
gradient_accumulation_steps: 4
micro_batch_size: 1
optimizer: adamw_torch
learning_rate: 2e-5
bf16: true
gradient_checkpointing: true
fsdp:
  - full_shard
  - auto_wrap
)"},
    {"llama-factory-yaml", "llama-factory", "sft.yaml", "--gpus 8",
     R"(model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
do_train: true
finetuning_type: full
deepspeed: examples/deepspeed/ds_z3_config.json
dataset: my_data
template: llama3
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
learning_rate: 1.0e-5
bf16: true
)"},
    {"colossal-ai-python", "colossal-ai", "train.py", "--model llama-3-8b --gpus 16 --set batch=32 --set sequence=4096",
     R"(from colossalai.booster.plugin import HybridParallelPlugin

TP = 2
PP = 2

def main():
    plugin = HybridParallelPlugin(
        tp_size=TP,
        pp_size=PP,
        zero_stage=1,
        microbatch_size=1,
        precision="bf16",
        enable_flash_attention=True,
    )
)"},
    {"torchtune-yaml", "torchtune", "tune.yaml", "--gpus 8",
     R"(output_dir: /tmp/torchtune/llama3_8B/lora
model:
  _component_: torchtune.models.llama3.lora_llama3_8b
  lora_attn_modules: ['q_proj', 'v_proj']
  apply_lora_to_mlp: True
  lora_rank: 16
  lora_alpha: 32
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: /tmp/tokenizer.model
  max_seq_len: 4096
dataset:
  _component_: my.own_dataset
  packed: True
batch_size: 1
gradient_accumulation_steps: 4
optimizer:
  _component_: torch.optim.AdamW
  lr: 3e-4
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
dtype: bf16
enable_activation_checkpointing: True
)"},
};

}  // namespace orrery::test
