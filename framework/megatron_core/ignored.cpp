#include "framework/megatron_core/read.hpp"

// Flags of NVIDIA/Megatron-LM@d98e8a64 (training/arguments.py, training/config/, core/transformer/transformer_config.py,
// core/model_parallel_config.py, core/optimizer/optimizer_config.py) that change neither the time nor the memory of a
// step as plans have them.

namespace orrery {

void ignore_megatron_flags(MegatronFlags& f) {
  f.without_effect({"--data-path", "--data-cache-path", "--data-args-path", "--per-split-data-args-path",
                    "--per-dataset-sequences-path", "--train-data-path", "--valid-data-path", "--test-data-path",
                    "--data-impl", "--split", "--mock-data", "--dataloader-*", "--num-workers", "--num-dataset-builder-threads",
                    "--object-storage-cache-path", "--mid-level-dataset-surplus", "--no-mmap-bin-files",
                    "--no-create-attention-mask-in-dataloader", "--reset-position-ids", "--reset-attention-mask",
                    "--eod-mask-loss", "--sample-rate", "--short-seq-prob", "--phase-transition-iterations", "--fim-*",
                    "--no-data-sharding", "--allow-ambiguous-pad-tokens", "--sft", "--sft-*", "--enable-msc",
                    "--disable-msc", "--decoder-seq-length"},
                   "it is about the data");
  f.without_effect({"--tokenizer-*", "--vocab-file", "--merge-file", "--vocab-extra-ids", "--special-tokens",
                    "--tiktoken-*", "--trust-remote-code", "--null-tokenizer-*", "--chat-template", "--metadata-path",
                    "--use-gigatoken", "--no-tokenizer-*", "--disable-tokenizer-*", "--no-pad-vocab-size",
                    "--disable-pad-vocab-size"},
                   "it is about the tokenizer");
  f.without_effect({"--save", "--save-*", "--load", "--load-*", "--no-save-*", "--no-load-*", "--disable-save-*",
                    "--disable-load-*", "--ckpt-*", "--no-ckpt-*", "--disable-ckpt-*", "--use-checkpoint-*",
                    "--use-mp-args-from-checkpoint-args", "--no-use-tokenizer-model-from-checkpoint-args",
                    "--disable-use-tokenizer-model-from-checkpoint-args", "--auto-detect-ckpt-format", "--async-*",
                    "--use-persistent-ckpt-worker", "--use-dist-ckpt", "--use-dist-ckpt-deprecated", "--dist-ckpt-*",
                    "--distrib-optim-*", "--finetune", "--pretrained-checkpoint", "--exit-on-missing-checkpoint",
                    "--non-persistent-*", "--persistent-save-interval", "--most-recent-k", "--replication*",
                    "--verify-integrity", "--override-ckpt-iteration", "--fully-parallel-*", "--no-strict-fsdp-dtensor-load",
                    "--disable-strict-fsdp-dtensor-load", "--hetereogenous-dist-checkpoint", "--adlr-autoresume*",
                    "--override-opt*", "--moe-use-upcycling", "--moe-upcycling-granularity"},
                   "it is about checkpoints");
  f.without_effect({"--log-*", "--no-log-*", "--disable-log-*", "--logging-*", "--tensorboard-*", "--wandb-*",
                    "--timing-*", "--throughput-*", "--memory-keys", "--runtime-time-unit", "--barrier-with-*",
                    "--no-barrier-with-*", "--no-one-logger", "--one-logger-*", "--enable-one-logger", "--app-tag-*",
                    "--otel-*", "--moe-per-layer-logging", "--moe-routing-trace-*", "--no-record-throughput",
                    "--dump-param-*", "--config-logger-dir", "--set-level-*", "--no-filter-warnings",
                    "--disable-filter-warnings", "--modules-to-filter", "--clearml-*", "--mlflow-*"},
                   "it is about logs");
  f.without_effect({"--profile*", "--use-pytorch-profiler", "--pytorch-profiler-*", "--use-nsys-profiler",
                    "--record-*", "--memory-snapshot-path", "--nvtx-ranges", "--run-workload-inspector-server",
                    "--straggler-*", "--disable-straggler-*", "--flight-recorder-*", "--no-flight-recorder-*",
                    "--disable-flight-recorder-*", "--result-rejected-tracker-filename"},
                   "it is about measurements");
  f.without_effect({"--eval-*", "--start-eval-at-iter", "--test-mode", "--full-validation",
                    "--multiple-validation-sets", "--validation-set-names"},
                   "it is about evaluation");
  f.without_effect({"--exit-*", "--rerun-*", "--error-injection-*", "--inprocess-*", "--enable-ft-package",
                    "--calc-ft-timeouts", "--ft-*", "--check-*", "--no-check-*", "--disable-check-*",
                    "--iterations-to-skip", "--gpu-sniff-*", "--grad-norm-skip-threshold", "--train-sync-interval",
                    "--decrease-batch-size-if-needed", "--fault-*"},
                   "it is about mishaps");
  f.without_effect({"--distributed-*", "--local-rank", "--local_rank", "--lazy-mpu-init", "--nccl-communicator-config-path",
                    "--use-gloo-process-groups", "--disable-gloo-process-groups", "--enable-gloo-process-groups",
                    "--use-sharp", "--sharp-enabled-group", "--high-priority-*", "--use-nccl-ub", "--create-all-gather-group",
                    "--fsdp-manual-registration", "--disable-symmetric-registration", "--pipeline-model-parallel-comm-backend",
                    "--fake-process-group", "--use-ring-exchange-p2p", "--disable-jit-fuser"},
                   "it is about processes and their library");
  f.without_effect({"--init-method-*", "--embedding-init-*", "--perform-initialization", "--no-initialization",
                    "--use-cpu-initialization", "--init-model-with-meta-device", "--data-parallel-random-init",
                    "--te-rng-tracker", "--use-te-rng-tracker", "--inference-rng-tracker", "--use-mup", "--mup-*",
                    "--start-weight-decay", "--end-weight-decay", "--weight-decay-incr-style", "--apply-wd-to-qk-layernorm",
                    "--no-weight-decay-cond-type", "--moe-z-loss-coeff", "--moe-input-jitter-eps", "--qk-clip*",
                    "--muon-*", "--no-muon-*", "--disable-muon-*", "--lion-*", "--soap-*", "--adaptive-muon-*",
                    "--use-layer-wise-*", "--no-use-layer-wise-*", "--adam-*", "--sgd-*", "--no-decoupled-weight-decay",
                    "--disable-decoupled-weight-decay", "--no-store-param-remainders", "--disable-store-param-remainders",
                    "--calculate-per-token-loss"},
                   "it changes values alone");
  f.without_effect({"--moe-router-load-balancing-type", "--moe-router-bias-update-rate", "--moe-router-dtype",
                    "--moe-router-force-*", "--moe-router-quantile-*", "--moe-router-topk-limited-devices",
                    "--moe-enable-routing-replay", "--moe-aux-loss-coeff"},
                   "plans state which experts tokens visit");
  f.without_effect({"--moe-grouped-gemm", "--moe-use-legacy-grouped-gemm", "--moe-permute-fusion*", "--moe-router-fusion",
                    "--moe-router-padding-for-*", "--moe-pad-*", "--moe-token-drop*", "--moe-apply-probs-on-input",
                    "--moe-use-grouped-tensor", "--moe-single-grouped-*", "--moe-flex-dispatcher-*", "--moe-enable-deepep",
                    "--moe-deepep-*", "--moe-hybridep-*", "--moe-ncclep-*", "--moe-shared-expert-glu-*",
                    "--moe-mlp-glu-*", "--use-grouped-gemm-*", "--moe-dispatch-fwd-dtype", "--moe-combine-bwd-dtype",
                    "--moe-expert-rank-capacity-factor", "--moe-paged-stash*"},
                   "kernels are priced as the chosen software has them");
  f.without_effect({"--no-masked-softmax-fusion", "--no-bias-*", "--bias-*", "--masked-softmax-fusion", "--no-rope-fusion",
                    "--apply-rope-fusion", "--no-persist-layer-norm", "--persist-layer-norm", "--memory-efficient-layer-norm",
                    "--no-gradient-accumulation-fusion", "--gradient-accumulation-fusion", "--fused-*",
                    "--cross-entropy-*", "--use-fused-weighted-squared-relu", "--use-transformer-engine-op-fuser",
                    "--use-te-activation-func", "--attention-softmax-in-fp32", "--no-attention-softmax-in-fp32",
                    "--disable-attention-softmax-in-fp32", "--apply-query-key-layer-scaling", "--flash-attention-version",
                    "--deterministic-mode", "--batch-invariant-*", "--disable-bf16-reduced-precision-matmul",
                    "--cuda-graph-*", "--enable-cuda-graph", "--external-cuda-graph", "--no-cuda-graph-*",
                    "--disable-cuda-graph-*", "--optimizer-cuda-graph", "--use-kitchen*", "--kitchen-*", "--quant-recipe",
                    "--te-precision-config-file", "--use-mcore-models", "--spec", "--enable-experimental",
                    "--fp16-lm-cross-entropy", "--output-logit-dtype", "--onnx-safe", "--openai-gelu",
                    "--apply-layernorm-1p", "--layernorm-zero-centered-gamma", "--rotary-interleaved",
                    "--glu-linear-offset", "--mla-down-proj-fusion", "--cache-mla-latents", "--symmetric-ar-type",
                    "--disable-parameter-transpose-cache", "--keep-fp8-transpose-cache", "--mscale*", "--rotary-scaling-factor",
                    "--yarn-*", "--no-yarn-*", "--beta-fast", "--beta-slow", "--fp32-residual-connection",
                    "--no-clone-scatter-*", "--disable-clone-scatter-*", "--mlp-chunks-for-*"},
                   "kernels are priced as the chosen software has them");
  f.without_effect({"--fp8-recipe", "--fp8-margin", "--fp8-interval", "--fp8-amax-*", "--no-fp8-wgrad",
                    "--disable-fp8-wgrad", "--fp8-output-proj", "--fp8-dot-product-attention", "--fp8-multi-head-attention",
                    "--tp-only-amax-red", "--activation-func-fp8-input-store", "--fp4-recipe", "--fp4-param*",
                    "--reuse-grad-buf-for-mxfp8-param-ag"},
                   "plans have one kind of fp8");
  f.without_effect({"--overlap-param-gather", "--overlap-param-gather-with-optimizer-step", "--no-align-*", "--disable-align-*",
                    "--align-param-gather", "--ddp-pad-*", "--ddp-average-in-collective", "--ddp-reduce-scatter-*",
                    "--ddp-param-name-*", "--no-gradient-reduce-div-fusion", "--disable-gradient-reduce-div-fusion",
                    "--fsdp-double-buffer", "--fsdp-db-*", "--megatron-fsdp-*", "--suggested-communication-unit-size",
                    "--enable-full-sharding-in-hsdp", "--use-torch-optimizer-for-cpu-offload",
                    "--overlap-cpu-optimizer-d2h-h2d", "--no-pin-cpu-*", "--disable-pin-cpu-*", "--no-overlap-p2p-*",
                    "--overlap-p2p-*", "--batch-p2p-*", "--no-batch-p2p-*", "--disable-batch-p2p-*",
                    "--deallocate-pipeline-outputs", "--defer-embedding-wgrad-compute", "--wgrad-deferral-limit",
                    "--variable-seq-lengths", "--tp-comm-*", "--no-tp-comm-*", "--disable-tp-comm-*",
                    "--data-parallel-sharding-strategy", "--outer-dp-sharding-strategy", "--mtp-standalone",
                    "--overlap-dispatch-*", "--ep-overlap-*", "--empty-unused-memory-level", "--manual-gc*",
                    "--no-manual-gc*", "--disable-manual-gc*", "--torch-fsdp2-*", "--max-seqlen-per-dp-cp-rank"},
                   "plans do not say it: communication that the program hides is in its software's costs");
  f.without_effect({"--inference-*", "--rl-*", "--grpo-*", "--langrl-*", "--flash-decode", "--use-flashinfer-*",
                    "--return-log-probs", "--enable-chunked-prefill", "--use-legacy-static-engine", "--top_*",
                    "--temperature", "--prompts", "--output-path", "--incoming-requests-*", "--bert-*", "--ict-*",
                    "--vision-*", "--num-classes", "--img-*", "--num-channels", "--patch-dim", "--mask-*",
                    "--relative-attention-*", "--retriever-*", "--dino-*"},
                   "it is for other runs");
}

}  // namespace orrery
