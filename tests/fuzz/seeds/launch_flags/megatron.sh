#!/bin/bash
TP=${TP:-2}
PP=2
GPUS=$((8 * 1))
MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096
    --num-attention-heads 32
    --seq-length 4096
)
torchrun --nproc_per_node $GPUS pretrain_gpt.py "${MODEL_ARGS[@]}" \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
    --micro-batch-size 1 --global-batch-size 64 --bf16  # the rest is usual
