#include "tests/support/random_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/random.hpp"
#include "core/plan/chunk_check.hpp"
#include "core/plan/head_shares.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery::test {
namespace {

// A sequence of draws that depends on the seed alone, unlike <random>'s distributions.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : seed_(seed) {}
  // Uniform in first .. last.
  std::uint64_t in(std::uint64_t first, std::uint64_t last) {
    return first + random_bits(seed_, 0, count_++) % (last - first + 1);
  }
  std::uint32_t small(std::uint32_t first, std::uint32_t last) { return static_cast<std::uint32_t>(in(first, last)); }
  // True once in `n`.
  bool once_in(std::uint64_t n) { return in(1, n) == 1; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + in(0, list.size() - 1));
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[in(0, i - 1)]);
  }

 private:
  std::uint64_t seed_;
  std::uint64_t count_ = 0;
};

Mesh random_mesh(Draw& draw, std::uint32_t max_ranks, bool all_cut) {
  std::uint32_t t = 1;
  std::uint32_t p = 1;
  std::uint32_t d = 1;
  do {
    t = draw.of({1U, 1U, 2U, 2U, 3U, 4U});
    p = draw.of({1U, 1U, 2U, 2U, 3U, 4U, 5U});
    d = draw.of({1U, 1U, 2U, 2U, 3U, 4U});
  } while (t * p * d > max_ranks || (all_cut && std::min({t, p, d}) == 1));
  std::vector<MeshAxis> axes = {{Axis::pipeline, p}, {Axis::data, d}, {Axis::tensor, t}};
  draw.shuffle(axes);
  // An axis of size 1 may also be left out.
  if (draw.once_in(2)) std::erase_if(axes, [](const MeshAxis& a) { return a.size == 1; });
  return Mesh{axes};
}

/// Puts the tensor parallelism of one run in six on a grid.
bool random_grid(Draw& draw, Plan& plan, const RandomRunLimits& limits) {
  const bool wanted = limits.tensor ? *limits.tensor != TensorAlgorithm::one_d : draw.once_in(6) && !limits.plain;
  if (!wanted || limits.max_ranks < 4) return false;
  std::uint32_t q = 2;
  std::uint32_t depth = 1;
  std::uint32_t p = 1;
  std::uint32_t d = 1;
  do {
    q = draw.of({2U, 2U, 3U});
    depth = draw.of({1U, 2U, 3U});
    if (limits.tensor == TensorAlgorithm::two_d) depth = 1;
    if (limits.tensor == TensorAlgorithm::two_half_d) depth = draw.of({2U, 2U, 3U});
    p = draw.of({1U, 2U, 3U});
    d = draw.of({1U, 2U});
  } while (q * q * depth * p * d > limits.max_ranks);
  const bool cube = limits.tensor ? *limits.tensor == TensorAlgorithm::three_d : draw.once_in(3);
  if (cube && limits.max_ranks >= 8) {
    q = depth = 2;
    if (q * q * depth * p * d > limits.max_ranks) p = d = 1;
    plan.tensor = TensorAlgorithm::three_d;
    plan.save_gathered = draw.once_in(2);
  } else {
    plan.tensor = depth > 1 ? TensorAlgorithm::two_half_d : TensorAlgorithm::two_d;
  }
  std::vector<MeshAxis> axes = {
      {Axis::pipeline, p}, {Axis::data, d}, {Axis::depth, depth}, {Axis::row, q}, {Axis::column, q}};
  draw.shuffle(axes);
  if (draw.once_in(2)) std::erase_if(axes, [](const MeshAxis& a) { return a.size == 1; });
  plan.mesh = Mesh{axes};
  return true;
}

ModelSpec random_model(Draw& draw, std::uint32_t tensor, std::uint32_t stages) {
  ModelSpec m;
  const bool llama = draw.once_in(2);
  m.name = llama ? "tiny-llama" : "tiny-gpt";
  m.layers = draw.in(stages, std::max(6U, stages));
  m.kv_heads = tensor * draw.in(1, tensor > 2 ? 1 : 2);
  m.heads = m.kv_heads * (llama ? draw.in(1, 2) : 1);
  m.head_dim = draw.of<std::uint64_t>({2, 4});
  m.hidden = m.heads * m.head_dim;
  while (m.hidden < 8) m.hidden *= 2;
  if (draw.once_in(4)) m.hidden = 4 * draw.in(2, 6);  // heads x head_dim need not be the width
  m.ffn = tensor * draw.in(16 / tensor, 64 / tensor);
  do {
    m.vocabulary = draw.in(11, 40);
  } while (tensor > 1 && m.vocabulary % tensor == 0);
  m.max_positions = 16;
  m.norm = llama ? Norm::rms_norm : Norm::layer_norm;
  m.activation = llama ? Activation::swiglu : Activation::gelu;
  m.positions = llama ? PositionEncoding::rotary : PositionEncoding::learned;
  m.biases = Biases::of_layers(!llama);
  m.tied_embeddings = draw.once_in(2);
  m.source = "drawn at random for tests";
  return m;
}

/// Makes the model of a run in 1D a BERT, a vision transformer or one with latent attention.
void change_architecture(Draw& draw, PlannedRun& run) {
  ModelSpec& m = run.model;
  const std::uint64_t t = run.plan.mesh.size(Axis::tensor);
  const std::uint64_t kind = draw.in(0, run.plan.tensor == TensorAlgorithm::three_d ? 1 : 2);
  m.kv_heads = m.heads;
  m.norm = kind == 2 ? Norm::rms_norm : Norm::layer_norm;
  m.activation = kind == 2 && draw.once_in(2) ? Activation::swiglu : Activation::gelu;
  m.positions = kind == 2 ? PositionEncoding::rotary : PositionEncoding::learned;
  m.biases = Biases::of_layers(kind != 2);
  if (kind == 0) {
    m.name = "tiny-bert";
    m.architecture = Architecture::bert;
    m.segments = draw.in(0, 3);
    m.tied_embeddings = true;
  } else if (kind == 1) {
    m.name = "tiny-vit";
    m.architecture = Architecture::vit;
    m.tied_embeddings = false;
    const std::uint64_t side = run.plan.sequence_parallel && t == 2 ? 3 : draw.in(1, 3);
    m.image = Image{2 * side, 2, t};
    const std::uint64_t like = draw.in(0, 3);
    if (like == 1) {
      m.name = "tiny-clip";
      m.activation = Activation::quick_gelu;
      m.embedding_norm = true;
      m.image->patch_bias = m.image->head_bias = false;
    } else if (like == 2) {
      m.name = "tiny-siglip";
      m.biases.qkv = false;
      m.image->class_token = false;
      if (run.plan.sequence_parallel && t == 2) m.image->size = 4;  // an even number of patches
      m.image->pool = Image::Pool::mean;
    } else if (like == 3) {
      m.name = "tiny-dinov2";
      m.layer_scale = true;
      m.image->mask_token = draw.once_in(2);
      if (run.plan.tensor == TensorAlgorithm::one_d) m.image->pool = Image::Pool::class_and_mean;
      if (draw.once_in(2)) m.activation = Activation::swiglu;
    }
    m.max_positions = run.workload.sequence_length = image_positions(*m.image);
    if (m.max_positions % t != 0) run.plan.sequence_parallel = false;
  } else {
    m.name = "tiny-mla";
    m.latent = LatentAttention{draw.once_in(3) ? 0 : draw.in(3, 8), draw.in(3, 8), 2 * draw.in(1, 3), draw.in(2, 5)};
    if (m.latent->kv_rank % 2 == 0) {  // as DeepSeek's, which scales scores, too
      m.rope_theta = 20.0;
      m.rope_scaling = "yarn";
      m.rope_stretch = {.factor = 8.0, .original = 9, .slow = 0.2, .fast = 1.1, .length = 1.0};
      m.attention_scale = 0.8;
    }
  }
  run.model_reference = m.name;
}

void random_optimizer(Draw& draw, Workload& w) {
  Optimizer& o = w.optimizer;
  o.kind = draw.of({OptimizerKind::adam, OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::sgd,
                    OptimizerKind::lamb, OptimizerKind::lars, OptimizerKind::adafactor});
  o.learning_rate = draw.of({1e-3, 1e-2});
  const double momentum = draw.of({0.0, 0.9});
  // A plan file keeps only what the optimizer uses.
  if (o.kind == OptimizerKind::sgd || o.kind == OptimizerKind::lars) o.momentum = momentum;
  if (o.kind == OptimizerKind::lamb && momentum > 0.0) o.trust_clip = 0.5;
  if (o.kind == OptimizerKind::lars) o.trust_coefficient = 0.02;
  o.weight_decay = draw.of({0.0, 0.1});
  LearningRateSchedule& s = w.schedule;
  s.kind = draw.of({ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine});
  s.warmup_steps = draw.in(0, 3);
  s.total_steps = s.kind == ScheduleKind::constant ? 0 : draw.in(5, 12);
  s.minimum_ratio = s.kind == ScheduleKind::constant ? 0.0 : draw.of({0.0, 0.1});
  // The norm of a tiny model's gradient is of the order of 1, so one bound takes effect and the other does not.
  if (draw.once_in(2)) w.clip_norm = draw.of({0.05, 1e6});
}

std::vector<std::uint32_t> random_stages(Draw& draw, std::uint64_t layers, std::uint32_t stages) {
  std::vector<std::uint32_t> counts(stages, 1);
  for (std::uint64_t left = layers - stages; left > 0; --left) ++counts[draw.in(0, stages - 1)];
  return counts;
}

/// Cuts positions too, in a third of the runs (or in this one, if `wanted`) where ranks and lengths allow it.
void add_context(Draw& draw, PlannedRun& run, const RandomRunLimits& limits, bool wanted) {
  if (!(draw.once_in(3) || wanted || limits.double_ring)) return;
  Plan& p = run.plan;
  Workload& w = run.workload;
  std::uint32_t context = draw.of({2U, 2U, 3U, 4U, 4U, 6U});
  auto algorithm = draw.of({ContextAlgorithm::all_gather, ContextAlgorithm::ulysses, ContextAlgorithm::ring,
                            ContextAlgorithm::ring, ContextAlgorithm::ring_self_attention});
  if (limits.double_ring) {
    context = context > 3 ? 6 : 4;
    algorithm = ContextAlgorithm::ring;
  }
  const bool deals = algorithm == ContextAlgorithm::all_gather || algorithm == ContextAlgorithm::ring;
  const bool zigzag = deals && is_causal(run.model) && draw.once_in(2);
  const std::uint64_t tensor = p.mesh.size(Axis::tensor);
  const std::uint64_t parts = std::lcm(zigzag ? 2UL : 1UL, p.sequence_parallel ? tensor : 1UL);
  // With five axes, experts come where replicas are left out.
  const std::uint32_t room = limits.max_ranks / (limits.five_axes && p.mesh.size(Axis::replica) == 1 ? 2 : 1);
  while (wanted && context > 2 && (p.mesh.size() * context > room || context * parts > 16)) --context;
  const std::uint64_t unit = context * parts;
  if (p.mesh.size() * context > limits.max_ranks || unit > 16) return;
  w.sequence_length = unit * draw.in((4 + unit - 1) / unit, 16 / unit);
  p.context = algorithm;
  p.zigzag = zigzag;
  p.mesh.axes.insert(p.mesh.axes.begin() + static_cast<std::ptrdiff_t>(draw.in(0, p.mesh.axes.size())),
                     {Axis::context, context});
  if (algorithm == ContextAlgorithm::ring && context % 2 == 0 && context > 2 &&
      (draw.once_in(2) || limits.double_ring)) {
    p.inner_ring = context == 4 ? 2 : draw.of({2U, 3U});
  }
  if (algorithm == ContextAlgorithm::ulysses) {
    run.model.heads *= context;
    run.model.kv_heads *= context;
  } else {
    p.attention =
        algorithm == ContextAlgorithm::ring_self_attention ? AttentionKernel::unfused : AttentionKernel::flash;
    if (p.recompute == Recompute::selective) p.recompute = Recompute::none;
  }
  if (p.placement.empty()) return;
  p.placement.resize(p.mesh.size());
  std::iota(p.placement.begin(), p.placement.end(), 0U);
  draw.shuffle(p.placement);
}

/// Layers of experts in a fifth of the runs (or in this one, if `wanted`), and ranks that share them where there is
/// room.
void add_mixture(Draw& draw, PlannedRun& run, const RandomRunLimits& limits, bool wanted) {
  wanted = draw.once_in(5) || limits.expert || wanted;
  if (!wanted) return;
  Plan& p = run.plan;
  Workload& w = run.workload;
  const std::uint64_t tensor = p.mesh.size(p.tensor == TensorAlgorithm::one_d ? Axis::tensor : Axis::column);
  std::uint32_t ranks = limits.five_axes ? 2 : draw.of({1U, 2U, 2U, 4U});
  while (p.mesh.size() * ranks > limits.max_ranks) ranks /= 2;
  ranks = limits.expert.value_or(ranks);
  run.model.biases = {};
  Mixture& m = run.model.mixture.emplace();
  m.experts = std::max(2U, ranks * draw.small(1, 8 / ranks));
  m.per_token = draw.small(1, std::min(3U, m.experts));
  m.ffn = tensor * draw.in(2, 8);
  m.shared_ffn = draw.once_in(3) ? tensor * draw.in(2, 8) : 0;
  m.scores = draw.of({Mixture::Scores::softmax_chosen, Mixture::Scores::softmax_all, Mixture::Scores::sigmoid});
  m.scale = draw.of({1.0, 2.5});
  Routing& r = w.routing;
  r.kind = draw.of({Routing::Kind::balanced, Routing::Kind::skewed});
  if (limits.expert && draw.once_in(3)) r.kind = Routing::Kind::recorded;  // names no file
  if (r.kind == Routing::Kind::skewed) r.exponent = draw.of({0.5, 1.0, 2.0});
  if (r.kind == Routing::Kind::recorded) {
    r.table = "drawn.txt";
    r.loads.assign(run.model.layers, {});
    for (std::vector<double>& row : r.loads) {
      for (std::uint32_t e = 0; e < m.experts; ++e) row.push_back(draw.small(e < m.per_token ? 1 : 0, 9));
    }
  }
  const std::uint64_t context = p.mesh.size(Axis::context);
  const std::uint64_t piece = w.sequence_length / (context * (context > 1 && p.zigzag ? 2 : 1));
  r.group = piece;
  for (const std::uint64_t n : {2, 3, 4}) {
    if (piece % n == 0 && draw.once_in(3)) r.group = n;
  }
  if (r.group == w.sequence_length && draw.once_in(2)) r.group = 0;
  if (draw.once_in(3)) r.capacity = draw.of({0.5, 1.0, 1.25});
  if (draw.once_in(2)) r.auxiliary_loss = draw.of({0.01, 1.0});
  // Routing is by the scores where rounding does not change the choice. There is no draw here and below, so that the
  // others stay as they are.
  if (w.precision == Precision::fp64 && w.seed % 4 == 1) {
    r.kind = Routing::Kind::learned;
    r.exponent = 0.0;
    r.table.clear();
    r.loads.clear();
  }
  if (const std::uint32_t groups = m.experts % 4 == 0 && w.seed % 2 == 0 ? 4 : 2;
      m.experts % groups == 0 && m.experts > 2) {
    const std::uint32_t size = m.experts / groups, least = (m.per_token + size - 1) / size;
    if (least < groups && (r.kind == Routing::Kind::learned || m.per_token % least == 0)) {
      m.groups = groups;
      m.groups_per_token = least;
      m.group_score = w.seed / 2 % 2 == 0 ? Mixture::GroupScore::best : Mixture::GroupScore::two_best;
    }
  }
  if (w.seed % 3 == 0 && run.model.layers > 1) m.first_dense = 1 + w.seed / 3 % (run.model.layers - 1);
  if (w.seed % 5 < 2 && run.model.layers > 2) m.every = 2;
  if (w.seed % 5 == 2 && m.first_dense + 1 < run.model.layers)
    m.dense = {static_cast<std::uint32_t>(run.model.layers - 1)};
  if (ranks == 1) return;
  p.mesh.axes.insert(p.mesh.axes.begin() + static_cast<std::ptrdiff_t>(draw.in(0, p.mesh.axes.size())),
                     {Axis::expert, ranks});
  w.global_batch *= ranks;
  p.placement.clear();
}

/// Adds modules that predict further ahead, and a plan that trains them.
void add_predictions(Draw& draw, PlannedRun& run) {
  run.model.prediction_modules = draw.in(1, 2);
  if (draw.once_in(2)) run.workload.prediction_loss_weight = draw.of({0.1, 1.5});
}

/// Three of five plans run GPipe or 1F1B, the others any other schedule.
ScheduleName random_schedule(Draw& draw, const RandomRunLimits& limits) {
  const ScheduleName plain = draw.of({ScheduleName::gpipe, ScheduleName::one_f_one_b});
  const ScheduleName other =
      draw.of({ScheduleName::eager_one_f_one_b, ScheduleName::interleaved, ScheduleName::breadth_first,
               ScheduleName::zb_h1, ScheduleName::zb_h2, ScheduleName::zb_v, ScheduleName::custom, ScheduleName::v_half,
               ScheduleName::v_min, ScheduleName::dualpipe_v, ScheduleName::chimera, ScheduleName::dualpipe});
  const bool is_plain = draw.in(1, 5) <= 3 || limits.plain;
  const ScheduleName drawn = limits.schedule.value_or(is_plain ? plain : other);
  return drawn;
}

/// Makes any order that runs: again and again, some rank does something that it can.
void add_order(Draw& draw, Plan& plan, std::uint32_t microbatches) {
  using Kind = OrderedAction::Kind;
  plan.order_placement = plan.chunks > 1 && plan.mesh.size(Axis::pipeline) > 1
                             ? draw.of({StagePlacement::loop, StagePlacement::v})
                             : StagePlacement::loop;
  const StageMap map = stage_map(plan);
  const std::uint32_t last = draw.of({2U, 3U});  // steps of each microbatch in each stage
  std::vector<std::uint32_t> done(std::size_t{map.stages()} * microbatches);
  const auto steps = [&](std::uint32_t stage, std::uint32_t m) -> std::uint32_t& {
    return done[std::size_t{stage} * microbatches + m];
  };
  plan.order.resize(map.ranks);
  for (;;) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> can;
    for (std::uint32_t stage = 0; stage < map.stages(); ++stage) {
      for (std::uint32_t m = 0; m < microbatches; ++m) {
        const std::uint32_t now = steps(stage, m);
        if (now == last) continue;
        if (now == 0 && stage > 0 && steps(stage - 1, m) == 0) continue;
        if (now == 1 && stage + 1 < map.stages() && steps(stage + 1, m) < 2) continue;
        can.emplace_back(stage, m);
      }
    }
    if (can.empty()) return;
    const auto [stage, m] = can[draw.in(0, can.size() - 1)];
    const std::uint32_t now = steps(stage, m)++;
    plan.order[map.rank(stage)].push_back({now == 0   ? Kind::forward
                                           : now == 1 ? Kind::backward
                                                      : Kind::weight,
                                           map.chunk(stage), m});
  }
}

/// Some matrices of a model in 1D, without experts and split backward passes, and nothing offloaded.
void add_adapters(Draw& draw, PlannedRun& run) {
  Plan& p = run.plan;
  p.offload_states = p.offload_parameters = p.offload_activations = 0;
  p.states_tier = p.parameters_tier = p.activations_tier = OffloadTier::host;
  Adapters& a = run.workload.adapters.emplace();
  a.rank = draw.small(1, 5);
  a.alpha = draw.of({0.5, 1.0, 1.5}) * a.rank;
  if (draw.once_in(3)) return;
  do {
    a.matrices = static_cast<std::uint8_t>(draw.in(1, Adapters::all_matrices));
  } while (matrices_of(run.model, a) == 0);
}

/// ZeRO-3 does not share out what is in few bits.
void add_base(Draw& draw, PlannedRun& run) {
  Adapters& a = *run.workload.adapters;
  a.base = draw.of({BaseWeights::nf4, BaseWeights::nf4, BaseWeights::int8, BaseWeights::fp8});
  a.double_quantization = a.base == BaseWeights::nf4 && draw.once_in(2);
  a.rank_stabilized = draw.once_in(3);
  run.plan.zero_stage = std::min(run.plan.zero_stage, 2U);
  run.plan.parameter_chunk = Bytes();
}

/// Leaves a decoder fewer key-value heads than there are ranks that share out heads: one, or one for some of them.
void share_kv_heads(Draw& draw, PlannedRun& run) {
  ModelSpec& m = run.model;
  const Plan& p = run.plan;
  const std::uint64_t tensor = p.tensor == TensorAlgorithm::one_d ? p.mesh.size(Axis::tensor) : 1;
  const std::uint64_t side = p.mesh.size(Axis::column);
  const std::uint64_t ranks = tensor * side * (p.context == ContextAlgorithm::ulysses ? p.mesh.size(Axis::context) : 1);
  std::vector<std::uint64_t> fewer;
  for (std::uint64_t n = side; n < ranks; ++n) {
    if (ranks % n == 0 && (n % tensor == 0 || tensor % n == 0) && n % side == 0) fewer.push_back(n);
  }
  if (fewer.empty() || m.architecture != Architecture::decoder || m.latent) return;
  const ModelSpec whole = m;
  m.kv_heads = fewer[draw.in(0, fewer.size() - 1)];
  if (!kv_copies_obstacle(m, run.workload, tensor).empty()) m = whole;
}

}  // namespace

PlannedRun random_run(std::uint64_t seed, const RandomRunLimits& limits) {
  Draw draw(seed);
  PlannedRun run;
  Plan& p = run.plan;
  Workload& w = run.workload;
  p.name = fmt::format("random-{}", seed);
  const bool grid = (!limits.architectures || limits.tensor) && !limits.five_axes && !limits.double_ring &&
                    random_grid(draw, p, limits);
  // With five axes one of the last three is left out; two of them take at least 4 ranks.
  const std::uint64_t left_out = limits.five_axes ? draw.in(1, 3) : 0;
  const std::uint32_t room = limits.five_axes ? 4 : limits.double_ring ? 6 : 1;  // of the axes that come on top
  if (!grid) p.mesh = random_mesh(draw, limits.max_ranks / room, limits.five_axes);
  const std::uint32_t tensor = grid ? p.mesh.size(Axis::row) : p.mesh.size(Axis::tensor);
  const std::uint32_t stages = p.mesh.size(Axis::pipeline);
  p.schedule = random_schedule(draw, limits);
  if (rules_of(p.schedule).placement == StagePlacement::two_way && stages % 2 != 0) p.schedule = ScheduleName::gpipe;
  const ScheduleRules& rules = rules_of(p.schedule);
  p.chunks = rules.most_chunks == 0 && stages < 3 ? draw.small(rules.least_chunks, 3) : rules.least_chunks;
  run.model = random_model(draw, tensor, stages * p.chunks);
  if (grid) run.model.hidden = (run.model.hidden + tensor - 1) / tensor * tensor;
  if (p.tensor == TensorAlgorithm::three_d) {
    run.model.hidden = (run.model.hidden + 3) / 4 * 4;
    run.model.ffn = (run.model.ffn + 3) / 4 * 4;
  }
  run.model_reference = run.model.name;

  const Precision precision =
      draw.of({Precision::fp64, Precision::fp64, Precision::fp32, Precision::bf16, Precision::fp16});
  w.precision = limits.precision.value_or(precision);
  // Some runs in bf16 have their products in fp8; there is no draw, so that the others stay as they are.
  if (w.precision == Precision::bf16 && !limits.precision && seed % 3 == 0) w.precision = Precision::fp8;
  const bool half = weight_dtype(w) != wide_dtype(w);
  if (draw.once_in(4) && half) w.gradient_dtype = weight_dtype(w);
  w.loss_scale = draw.of({1.0, 128.0, 1024.0});
  random_optimizer(draw, w);
  w.seed = draw.in(1, 1000000);
  // No draw either.
  const bool narrow = optimizer_moments(w) > 0 && w.optimizer.kind != OptimizerKind::lamb;
  if (w.seed % 4 == 0 && narrow && w.precision != Precision::fp64) {
    const DType scaled = w.seed % 16 == 4 ? DType::u8 : DType::f8;
    w.moment_dtype = w.seed % 8 == 4 && w.optimizer.kind == OptimizerKind::adam ? scaled : DType::bf16;
  }
  if (w.seed % 3 == 0 && half && w.precision != Precision::fp16) {
    w.master_weights = false;
    if (w.seed % 2 == 0 && !w.gradient_dtype) w.gradient_dtype = DType::f32;
    if (w.seed % 5 < 2 && optimizer_moments(w) > 0 && !w.moment_dtype) w.moment_dtype = DType::f32;
    if (w.seed % 5 > 2 && w.optimizer.kind == OptimizerKind::adam)
      w.moment_dtype = w.seed % 5 == 3 ? DType::u8 : DType::f8;
  }

  p.sequence_parallel = !grid && tensor > 1 && draw.once_in(2);
  // The range is 2 .. : a cut sequence has equal parts; an uncut one may have any length.
  w.sequence_length = p.sequence_parallel ? tensor * draw.in((4 + tensor - 1) / tensor, 16 / tensor) : draw.in(4, 16);
  p.microbatch_size = draw.small(1, 2);
  const std::uint64_t microbatches = rules.whole_rounds       ? stages * draw.in(1, 3)
                                     : rules.least_rounds > 0 ? stages * rules.least_rounds + 2 * draw.in(0, 1)
                                                              : draw.in(1, 6);
  if (p.schedule == ScheduleName::zb_v && draw.once_in(2)) {
    p.action_times = {draw.small(1, 9), draw.small(1, 9), draw.small(1, 9), draw.small(0, 3)};
  }
  w.global_batch = microbatches * p.microbatch_size * size(p.mesh, sequence_axes(p));
  if (p.schedule == ScheduleName::custom) add_order(draw, p, static_cast<std::uint32_t>(microbatches));

  p.stage_layers = random_stages(draw, run.model.layers, stages * p.chunks);
  p.recompute = limits.recompute.value_or(draw.of({Recompute::none, Recompute::selective, Recompute::full}));
  p.attention =
      draw.once_in(2) && p.recompute != Recompute::selective ? AttentionKernel::flash : AttentionKernel::unfused;
  p.zero_stage = draw.small(0, 1);
  p.gradient_bucket = draw.of({1.0, 256.0, 4096.0, 1e9}) * byte;
  p.overlap_gradients = draw.once_in(2);
  if (draw.once_in(3) && limits.dropout) {
    w.hidden_dropout = draw.of({0.0, 0.1, 0.3});
    w.attention_dropout = draw.of({0.0, 0.2});
  }
  if (draw.once_in(4) && limits.placement) {
    p.placement.resize(p.mesh.size());
    std::iota(p.placement.begin(), p.placement.end(), 0U);
    draw.shuffle(p.placement);
  }
  if (!limits.plain) p.zero_stage = limits.zero_stage.value_or(draw.of({0U, 1U, 2U, 2U, 3U, 3U}));
  if (p.zero_stage == 3) {
    p.reshard_after_forward = !draw.once_in(2);
    p.prefetch = draw.small(0, 1);
  }
  const bool replicated = limits.five_axes ? left_out != 1 : draw.once_in(3) && !limits.plain;
  if (replicated) {
    const std::uint32_t replicas = limits.five_axes ? 2 : draw.small(2, 3);
    if (p.mesh.size() * replicas <= limits.max_ranks) {
      const std::uint64_t at = draw.in(0, p.mesh.axes.size());
      p.mesh.axes.insert(p.mesh.axes.begin() + static_cast<std::ptrdiff_t>(at), {Axis::replica, replicas});
      w.global_batch *= replicas;
      p.placement.clear();
    }
  }
  if (limits.architectures) {
    change_architecture(draw, run);
  }
  if (!limits.plain && limits.context && run.model.architecture != Architecture::vit && left_out != 2) {
    add_context(draw, run, limits, limits.five_axes || limits.cut_positions);
  }
  if (p.recompute != Recompute::none && !limits.plain && draw.once_in(2)) {
    for (const std::uint32_t n : *p.stage_layers) {
      if (!p.recompute_layers) p.recompute_layers.emplace();
      p.recompute_layers->push_back(draw.small(0, n));
    }
  }
  const bool states = optimizer_moments(w) > 0 || has_master_weights(w) || has_factored_moments(w);
  if (states && !limits.plain && draw.once_in(3)) {
    p.offload_states = draw.of({1U, 4U, 6U, 8U});
  }
  const bool may_mix = !limits.architectures || (run.model.latent && limits.expert);
  if (!limits.plain && limits.mixture && may_mix && left_out != 3) {
    add_mixture(draw, run, limits, limits.five_axes);
  }
  if (!limits.plain && draw.once_in(3)) p.offload_activations = draw.of({1U, 4U, 8U});
  if (p.offload_states != 0U && draw.once_in(3)) p.states_tier = OffloadTier::disk;
  if (p.offload_states != 0U && p.zero_stage < 3 && draw.once_in(2)) {
    p.offload_parameters = draw.small(1, *p.offload_states);
  }
  if (p.offload_parameters != 0U && draw.once_in(2)) p.parameters_tier = OffloadTier::disk;
  if (p.offload_activations != 0U && draw.once_in(3)) p.activations_tier = OffloadTier::disk;
  if (limits.chunks && p.zero_stage == 3 && p.mesh.size(Axis::data) > 1 && !splits_backward(p)) {
    p.reshard_after_forward = true;
    w.gradient_dtype = weight_dtype(w);
    const std::uint64_t element = size_of(weight_dtype(w)), unit = element * size(p.mesh, shard_axes_of(p));
    const double least = static_cast<double>(largest_layer_tensor(p, run.model) * element);
    const double wanted = least * draw.of({1.0, 1.3, 2.0, 5.0});
    p.parameter_chunk = Bytes::of(std::ceil(wanted / static_cast<double>(unit)) * static_cast<double>(unit));
  }
  if (limits.shared_kv_heads) share_kv_heads(draw, run);
  if (limits.predictions) add_predictions(draw, run);
  if (limits.adapters) add_adapters(draw, run);
  if (limits.few_bits) add_base(draw, run);
  // The loss in pieces, in a third of the runs where it may be; there is no draw, so that the others stay as they are.
  const bool may_cut_loss = p.tensor == TensorAlgorithm::one_d && run.model.architecture != Architecture::vit;
  if (may_cut_loss && !limits.plain && w.seed / 7 % 3 == 0) {
    const std::uint64_t positions = w.sequence_length / p.mesh.size(Axis::context);
    std::uint64_t n = 2 + w.seed / 21 % 3;
    while (positions % n != 0) --n;
    p.loss_chunks = static_cast<std::uint32_t>(n);
  }
  return run;
}

}  // namespace orrery::test
