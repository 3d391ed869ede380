#include "tests/support/other_plan.hpp"

#include <algorithm>

#include "core/plan/chunk_check.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery::test {
namespace {

PlannedRun subject(ModelSpec model, Precision precision, OptimizerKind kind) {
  PlannedRun run;
  run.model = std::move(model);
  run.model_reference = run.model.name;
  Workload& w = run.workload;
  w.global_batch = 12;
  w.sequence_length = 12;
  w.precision = precision;
  w.optimizer.kind = kind;
  w.optimizer.learning_rate = 1e-2;
  w.optimizer.weight_decay = 0.1;
  w.seed = 7;
  return run;
}

}  // namespace

std::vector<PlannedRun> subjects() {
  // The vocabulary is a multiple of no axis, so that tables are padded; the other sizes are multiples of nearly all.
  Size size;
  size.layers = 8;
  size.hidden = 24;
  size.heads = 12;
  size.head_dim = 2;
  size.ffn = 24;
  size.vocabulary = 29;
  size.positions = 12;
  const auto decoder = [&](bool llama, bool tied) {
    size.tied = tied;
    return llama ? tiny_llama(size) : tiny_gpt(size);
  };
  std::vector<PlannedRun> list;
  // These are tied, with masters, and moments in f8 and f16 with scales.
  list.push_back(subject(decoder(false, true), Precision::bf16, OptimizerKind::adam));
  list.back().workload.moment_dtype = DType::f8;
  // These are untied, with gradients that chunks can take over.
  list.push_back(subject(decoder(true, false), Precision::fp32, OptimizerKind::lamb));
  list.push_back(subject(decoder(true, true), Precision::bf16, OptimizerKind::adam));
  list.back().workload.gradient_dtype = DType::bf16;
  list.back().workload.moment_dtype = DType::bf16;
  list.back().workload.hidden_dropout = 0.1;
  // bf16 alone.
  list.push_back(subject(decoder(true, true), Precision::bf16, OptimizerKind::adam));
  list.back().workload.master_weights = false;
  // A loss scale, clipping.
  list.push_back(subject(decoder(false, true), Precision::fp16, OptimizerKind::sgd));
  list.back().workload.optimizer.momentum = 0.9;
  list.back().workload.clip_norm = 0.05;
  list.back().workload.loss_scale = 65536.0;
  list.back().workload.loss_scale_window = 2;
  list.push_back(subject(decoder(false, false), Precision::fp64, OptimizerKind::adam));
  list.push_back(subject(decoder(false, true), Precision::fp64, OptimizerKind::adafactor));
  list.push_back(subject(decoder(true, true), Precision::fp64, OptimizerKind::lars));
  list.back().workload.optimizer.momentum = 0.9;
  list.back().workload.optimizer.trust_coefficient = 0.02;
  // These have experts, with factored moments and with whole ones.
  for (const bool factored : {true, false}) {
    list.push_back(subject(decoder(true, true), factored ? Precision::fp64 : Precision::bf16,
                           factored ? OptimizerKind::adafactor : OptimizerKind::adam));
    Mixture& m = list.back().model.mixture.emplace();
    m.experts = 8;
    m.per_token = 2;
    m.ffn = 12;
    m.shared_ffn = factored ? 12 : 0;
    m.first_dense = 2;
    if (!factored) list.back().workload.moment_dtype = DType::u8;
  }
  list.push_back(subject(decoder(true, true), Precision::fp64, OptimizerKind::adam));
  list.back().model.prediction_modules = 2;
  // Tensor ranks may share one of two key-value heads.
  list.push_back(subject(decoder(true, true), Precision::fp64, OptimizerKind::adafactor));
  list.back().model.kv_heads = 2;
  // Latent attention, an encoder, images.
  list.push_back(subject(decoder(true, false), Precision::fp32, OptimizerKind::adam));
  list.back().model.latent = LatentAttention{6, 6, 2, 2};
  list.push_back(subject(decoder(false, true), Precision::fp64, OptimizerKind::adam));
  list.back().model.architecture = Architecture::bert;
  list.back().model.segments = 2;
  list.push_back(subject(decoder(false, false), Precision::fp64, OptimizerKind::adafactor));
  list.back().model.architecture = Architecture::vit;
  list.back().model.image = Image{6, 2, 1};
  list.back().model.max_positions = list.back().workload.sequence_length = 10;
  return list;
}

std::optional<PlannedRun> under_plan(const PlannedRun& subject, std::uint64_t seed, std::uint32_t max_ranks) {
  RandomRunLimits limits;
  limits.max_ranks = max_ranks;
  limits.mixture = false;
  limits.cut_positions = seed % 5 == 0;
  if (subject.model.mixture) {
    limits.mixture = true;
    limits.expert = 1U << (seed % 3);
    limits.max_ranks = max_ranks / *limits.expert;
  }
  PlannedRun run = subject;
  run.plan = random_run(seed, limits).plan;
  Plan& p = run.plan;
  const StageMap map = stage_map(p);
  const std::uint32_t layers = static_cast<std::uint32_t>(run.model.layers);
  if (map.stages() > layers) return std::nullopt;
  std::vector<std::uint32_t> counts(map.stages(), layers / map.stages());
  for (std::uint32_t left = layers % map.stages(), at = 0; left > 0; --left, ++at) {
    ++counts[(seed + at) % map.stages()];  // some more here, some there
  }
  p.stage_layers = counts;
  p.recompute_layers.reset();
  const bool cuts_loss = run.model.architecture != Architecture::vit &&
                         run.workload.sequence_length % (p.loss_chunks * p.mesh.size(Axis::context)) == 0;
  if (!cuts_loss) p.loss_chunks = 1;
  if (p.zero_stage == 3 && p.mesh.size(Axis::data) > 1 && !splits_backward(p) &&
      gradient_dtype(run.workload) == weight_dtype(run.workload)) {
    p.reshard_after_forward = true;
    const std::uint64_t unit = size_of(weight_dtype(run.workload)) * size(p.mesh, shard_axes_of(p));
    const std::uint64_t least = largest_layer_tensor(p, run.model) * size_of(weight_dtype(run.workload));
    p.parameter_chunk = Bytes::of(static_cast<double>((least + unit - 1) / unit * unit));
  }
  const std::uint64_t each = p.microbatch_size * size(p.mesh, sequence_axes(p));
  if (run.workload.global_batch % each != 0) return std::nullopt;
  Diagnostics wrong;
  check(p, run.model, run.workload, nullptr, wrong);
  if (!wrong.empty() || !is_resolved(p)) return std::nullopt;
  return run;
}

std::vector<PlannedRun> under_plans(const PlannedRun& subject, std::uint64_t seed, std::size_t count,
                                    std::uint32_t max_ranks) {
  std::vector<PlannedRun> list;
  for (std::uint64_t tried = 0; list.size() < count && tried < 100000; ++tried) {
    if (auto run = under_plan(subject, seed + tried, max_ranks)) list.push_back(*std::move(run));
  }
  return list;
}

}  // namespace orrery::test
