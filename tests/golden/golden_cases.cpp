#include "tests/golden/golden_cases.hpp"

namespace orrery::test {

namespace {

PlannedRun base(std::uint32_t pipeline, std::uint32_t data, std::uint32_t tensor) {
  PlannedRun run;
  run.model.name = "golden-gpt";
  run.model.layers = 2;
  run.model.hidden = 8;
  run.model.heads = run.model.kv_heads = 2;
  run.model.head_dim = 4;
  run.model.ffn = 16;
  run.model.vocabulary = 15;
  run.model.max_positions = 4;
  run.workload.global_batch = 4;
  run.workload.sequence_length = 4;
  run.workload.precision = Precision::fp32;
  run.plan.name = "golden";
  run.plan.mesh.axes = {{Axis::pipeline, pipeline}, {Axis::data, data}, {Axis::tensor, tensor}};
  run.plan.stage_layers = std::vector<std::uint32_t>(pipeline, 2 / pipeline);
  run.plan.gradient_bucket = Bytes::of(1e9);
  run.plan.overlap_gradients = false;
  run.plan.attention = AttentionKernel::unfused;
  return run;
}

PlannedRun llama(PlannedRun run) {
  run.model.name = "golden-llama";
  run.model.kv_heads = 1;
  run.model.norm = Norm::rms_norm;
  run.model.activation = Activation::swiglu;
  run.model.positions = PositionEncoding::rotary;
  run.model.biases = {};
  run.model.tied_embeddings = false;
  return run;
}

}  // namespace

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  // One rank: every kernel of the GPT family, nothing to communicate.
  cases.push_back({"gpt-one-rank", base(1, 1, 1)});

  // Two stages in 1F1B with a tied table, clipping and fp16 loss scaling.
  PlannedRun tied = base(2, 1, 1);
  tied.workload.precision = Precision::fp16;
  tied.workload.clip_norm = 1.0;
  cases.push_back({"gpt-pipeline-tied-fp16", tied});

  // ZeRO-1 in buckets of one module, reduced beside the last backward pass; dropout.
  PlannedRun zero = base(1, 2, 1);
  zero.plan.zero_stage = 1;
  zero.plan.gradient_bucket = Bytes::of(1);
  zero.plan.overlap_gradients = true;
  zero.workload.hidden_dropout = zero.workload.attention_dropout = 0.1;
  cases.push_back({"gpt-zero-dropout", zero});

  // Tensor and sequence parallel LLaMA with flash attention.
  PlannedRun sequence = llama(base(1, 1, 2));
  sequence.model.kv_heads = 2;
  sequence.plan.sequence_parallel = true;
  sequence.plan.attention = AttentionKernel::flash;
  cases.push_back({"llama-sequence-parallel-flash", sequence});

  // GPipe with full recomputation and SGD.
  PlannedRun recompute = llama(base(2, 1, 1));
  recompute.plan.schedule = ScheduleName::gpipe;
  recompute.plan.recompute = Recompute::full;
  recompute.workload.optimizer.kind = OptimizerKind::sgd;
  cases.push_back({"llama-gpipe-recompute-sgd", recompute});

  // A prediction module on the second stage, which has a copy of the word table.
  PlannedRun prediction = llama(base(2, 1, 1));
  prediction.model.prediction_modules = 1;
  prediction.plan.attention = AttentionKernel::flash;
  cases.push_back({"llama-pipeline-prediction", prediction});
  return cases;
}

std::string golden_path(const GoldenCase& c) {
  return std::string(ORRERY_SOURCE_DIR) + "/tests/golden/lowered/" + c.name + ".program";
}

}  // namespace orrery::test
