#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "core/record/live_memory.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

constexpr std::uint64_t cases = 400;

/// The symbols of the papers, for one run.
struct Symbols {
  explicit Symbols(const PlannedRun& r)
      : model(r.model),
        workload(r.workload),
        plan(r.plan),
        L(r.model.layers),
        h(r.model.hidden),
        a(r.model.heads),
        k(r.model.kv_heads),
        d(r.model.head_dim),
        f(r.model.ffn),
        s(r.workload.sequence_length),
        b(r.plan.microbatch_size),
        B(r.workload.global_batch),
        t(r.plan.mesh.size(Axis::tensor)),
        dp(r.plan.mesh.size(Axis::data)),
        p(r.plan.mesh.size(Axis::pipeline)),
        c(r.plan.mesh.size(Axis::context)),
        replicas(r.plan.mesh.size(Axis::replica)),
        m(B / (replicas * dp * b) / stage_map(r.plan).pipes()),
        V(padded_vocabulary(r.plan, r.model)),
        swiglu(r.model.activation == Activation::swiglu),
        layer_norm(r.model.norm == Norm::layer_norm),
        bias(r.model.bias),
        tied(r.model.tied_embeddings),
        flash(*r.plan.attention == AttentionKernel::flash),
        sp(r.plan.sequence_parallel && t > 1),
        zero(dp > 1 ? r.plan.zero_stage : 0),
        w(size_of(weight_dtype(r.workload))),
        g(size_of(gradient_dtype(r.workload))),
        st(size_of(state_dtype(r.workload))) {}

  const ModelSpec& model;
  const Workload& workload;
  const Plan& plan;
  std::uint64_t L, h, a, k, d, f, s, b, B, t, dp, p, c, replicas, m, V;  ///< m: microbatches of each pipe
  bool swiglu, layer_norm, bias, tied, flash, sp;
  std::uint32_t zero;
  std::uint64_t w, g, st;  ///< bytes of a weight, a gradient, a state

  [[nodiscard]] bool full() const { return plan.recompute == Recompute::full; }
  [[nodiscard]] bool selective() const { return plan.recompute == Recompute::selective; }
  /// Layers of a rank whose forward pass, or attention core, is made again.
  [[nodiscard]] std::uint64_t again_on(std::uint64_t rank) const {
    return test::recomputed_on(plan, static_cast<std::uint32_t>(rank));
  }
  /// Virtual stages of the rank.
  [[nodiscard]] std::vector<std::uint32_t> parts(std::uint64_t rank) const {
    const StageMap map = stage_map(plan);
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < map.chunks; ++i) out.push_back(map.stage(static_cast<std::uint32_t>(rank), i));
    return out;
  }
  [[nodiscard]] std::uint64_t layers_of(std::uint64_t rank) const {
    std::uint64_t n = 0;
    for (const std::uint32_t v : parts(rank)) n += (*plan.stage_layers)[v];
    return n;
  }
  /// Whether the rank holds the embedding, and the head.
  [[nodiscard]] bool two_way() const { return stage_map(plan).two_way(); }
  [[nodiscard]] bool first(std::uint64_t rank) const { return rank == 0 || (two_way() && rank + 1 == p); }
  [[nodiscard]] bool last(std::uint64_t rank) const {
    const StageMap map = stage_map(plan);
    return rank == map.rank(map.stages() - 1) || (two_way() && rank == 0);
  }
  /// Whether the head has its own copy of a tied table.
  [[nodiscard]] bool copied() const { return tied && !last(0); }
};

/// Elements that one rank holds of a module's table: segments, each padded to equal parts of the data axis under ZeRO.
struct Held {
  std::uint64_t sharded = 0, sharded_bias = 0, replicated = 0;
  [[nodiscard]] std::uint64_t total(const Symbols& x) const {
    const auto padded = [&](std::uint64_t n) { return x.zero ? (n + x.dp - 1) / x.dp * x.dp : n; };
    return padded(sharded) + padded(sharded_bias) + padded(replicated);
  }
};

Held layer_held(const Symbols& x) {
  const std::uint64_t qkv = x.d * (x.a + 2 * x.k);
  const std::uint64_t up = x.swiglu ? 2 * x.f : x.f;
  Held held;
  held.sharded = (x.h * qkv + x.a * x.d * x.h + x.h * up + x.f * x.h) / x.t;
  held.sharded_bias = x.bias ? (qkv + up) / x.t : 0;
  held.replicated = (x.layer_norm ? 4 : 2) * x.h + (x.bias ? 2 * x.h : 0);
  return held;
}

Held embedding_held(const Symbols& x) {
  Held held;
  held.sharded = x.V / x.t * x.h;
  held.replicated = x.model.positions == PositionEncoding::learned ? x.model.max_positions * x.h : 0;
  return held;
}

Held head_held(const Symbols& x) {
  Held held;
  held.sharded = !x.tied || x.copied() ? x.V / x.t * x.h : 0;
  held.replicated = (x.layer_norm ? 2 : 1) * x.h;
  return held;
}

std::uint64_t stage_held(const Symbols& x, std::uint64_t stage) {
  std::uint64_t n = x.layers_of(stage) * layer_held(x).total(x);
  if (x.first(stage)) n += embedding_held(x).total(x);
  if (x.last(stage)) n += head_held(x).total(x);
  return n;
}

struct Volume {
  std::uint64_t count = 0, payload = 0;
  friend bool operator==(const Volume&, const Volume&) = default;
  void add(std::uint64_t times, std::uint64_t bytes) {
    if (bytes == 0) return;
    count += times;
    payload += times * bytes;
  }
};

Volume volume(const Program& p, const ClassTotals& totals, Collective::Kind kind, const Group& group) {
  Volume v;
  for (const CollectiveTotal& c : totals.collectives) {
    if (c.kind == kind && p[c.group] == group) v.count += c.count, v.payload += c.payload;
  }
  return v;
}

/// The closed forms of grids are in grid_totals_test.cpp.
// Mixtures have their own formulas (mixture_test.cpp).
test::RandomRunLimits dense() {
  test::RandomRunLimits limits;
  limits.mixture = false;
  return limits;
}
test::RandomRunLimits one_d() {
  test::RandomRunLimits limits = dense();
  limits.tensor = TensorAlgorithm::one_d;
  return limits;
}

/// Adafactor's statistics of a rank: R + C of a matrix of R rows and C columns, one for each element of a vector;
/// whole, and without padding.  Messages of a module: for each segment its sums, and a number for each tensor.
struct Statistics {
  std::uint64_t count = 0;
  Volume messages;
  void segment(std::uint64_t statistics, std::uint64_t tensors, std::uint64_t times) {
    count += times * statistics;
    messages.add(times, 8 * statistics);
    messages.add(times, 8 * tensors);
  }
};
Statistics statistics(const Symbols& x, std::uint64_t stage) {
  Statistics out;
  if (!has_factored_moments(x.workload)) return out;
  const std::uint64_t qkv = x.d * (x.a + 2 * x.k), up = x.swiglu ? 2 * x.f : x.f, norm = (x.layer_norm ? 2 : 1) * x.h;
  const std::uint64_t norms = x.layer_norm ? 2 : 1;
  const std::uint64_t layers = x.layers_of(stage), table = x.model.vocabulary + x.h;
  out.segment((x.h + qkv) + (x.a * x.d + x.h) + (x.h + up) + (x.f + x.h), 4, layers);
  if (x.bias) out.segment(qkv + up, 2, layers);
  out.segment(2 * norm + (x.bias ? 2 * x.h : 0), 2 * norms + (x.bias ? 2 : 0), layers);
  if (x.first(stage)) {
    out.segment(table, 1, 1);
    if (x.model.positions == PositionEncoding::learned) out.segment(x.model.max_positions + x.h, 1, 1);
  }
  if (x.last(stage)) {
    if (!x.tied || x.copied()) out.segment(table, 1, 1);
    out.segment(norm, norms, 1);
  }
  return out;
}

/// What is summed for updates that look at whole tensors.  Norms: a message per segment of matrices, of two f64 for
/// each of them.
Volume tensor_norms(const Symbols& x, std::uint64_t stage) {
  if (has_factored_moments(x.workload)) return statistics(x, stage).messages;
  Volume v;
  if (!has_trust_ratio(x.workload)) return v;
  v.add(x.layers_of(stage), 16 * 4);
  if (x.first(stage)) v.add(x.model.positions == PositionEncoding::learned ? 2 : 1, 16);
  if (x.last(stage) && (!x.tied || x.copied())) v.add(1, 16);
  return v;
}

const Group tensor_group{{Axis::tensor}, {}};
const Group data_group{{Axis::data}, {}};

}  // namespace

// Forward per layer, 2 per multiply-add: qkv 2Th d(a+2k), out 2T a d h, core
// 4Ts a d (full square), mlp 4Thf or 6Thf; head 2ThV.  Backward twice that.
// Full recomputation adds a forward pass of every layer that it is for, selective one core.
TEST_CASE("FLOPs of a Program equal the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, dense());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    const double T = static_cast<double>(x.B * x.s);
    const auto n = [](std::uint64_t v) { return static_cast<double>(v); };
    const double gemms =
        2 * T * n(x.h * x.d * (x.a + 2 * x.k)) + 2 * T * n(x.a * x.d * x.h) + (x.swiglu ? 6.0 : 4.0) * T * n(x.h * x.f);
    const double core = 4 * T * n(x.s * x.a * x.d);
    const double head = 2 * T * n(x.h * x.V);
    const double layers = n(x.L);
    double recompute = 0.0, recomputed_core = 0.0;
    double again = 0.0;
    for (std::uint64_t rank = 0; rank < x.p; ++rank) again += n(x.again_on(rank)) / stage_map(run.plan).pipes();
    if (x.full()) recompute = again * gemms, recomputed_core = again * core;
    if (x.selective() && !x.flash) recomputed_core = again * core;
    const double counted = 3 * (layers * (gemms + core) + head) + recompute + recomputed_core;
    // Causal kernels skip the masked part; flash multiplies 5 instead of 4 products backward.
    // Ring self-attention makes the scores of whole rows.
    const bool whole_rows = x.c > 1 && x.plan.context == ContextAlgorithm::ring_self_attention;
    const double visible = whole_rows ? 1.0 : (n(x.s) + 1) / (2 * n(x.s));
    const double executed = 3 * (layers * gemms + head) + recompute +
                            visible * (layers * core * (1 + (x.flash ? 2.5 : 2.0)) + recomputed_core);
    const Program program = lower(run.model, run.workload, run.plan);
    const KernelFlops total = total_flops(program);
    // Sums of whole numbers below 2^53, but for the visible part: 1e-12 covers its rounding.
    CHECK(total.counted == Approx(counted).epsilon(1e-12));
    CHECK(total.executed == Approx(executed).epsilon(1e-12));
  }
}

// Storage is bf16's, so is all else: bytes, operands, messages.
TEST_CASE("in fp8 only the layers' products differ from the Program in bf16", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    run.workload.gradient_dtype.reset();
    run.workload.precision = Precision::bf16;
    Program usual = lower(run.model, run.workload, run.plan);
    run.workload.precision = Precision::fp8;
    const Program program = lower(run.model, run.workload, run.plan);
    REQUIRE(program.blocks.size() == usual.blocks.size());
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
      const bool of_layer = program.blocks[b].name.rfind("layer", 0) == 0;
      for (std::size_t k = 0; k < program.blocks[b].kernels.size(); ++k) {
        const Kernel& kernel = program.blocks[b].kernels[k];
        // A router's products stay as they are: few numbers decide there.
        const bool others = run.model.mixture && kernel.kind == KernelKind::gemm && kernel.compute != DType::f8;
        const bool product =
            of_layer && !others && (kernel.kind == KernelKind::gemm || kernel.kind == KernelKind::expert_gemm);
        CHECK(kernel.compute == (product ? DType::f8 : usual.blocks[b].kernels[k].compute));
        usual.blocks[b].kernels[k].compute = kernel.compute;
      }
    }
    CHECK(program == usual);
  }
}

// GPT: Vh + Sh + L(12h^2 + 13h) + 2h with ffn 4h; LLaMA: 2Vh + L(2had + 2hkd +
// 3hf + 2h) + h.  Here in general form, over all options.
TEST_CASE("parameters of a Program equal the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, dense());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    const std::uint64_t V = run.model.vocabulary;
    const std::uint64_t norm = (x.layer_norm ? 2 : 1) * x.h;
    const std::uint64_t qkv = x.d * (x.a + 2 * x.k);
    const std::uint64_t up = x.swiglu ? 2 * x.f : x.f;
    std::uint64_t layer = x.h * qkv + x.a * x.d * x.h + x.h * up + x.f * x.h + 2 * norm;
    if (x.bias) layer += qkv + x.h + up + x.h;
    std::uint64_t all = V * x.h + x.L * layer + norm;
    if (run.model.positions == PositionEncoding::learned) all += run.model.max_positions * x.h;
    if (!x.tied) all += V * x.h;
    const Program program = lower(run.model, run.workload, run.plan);
    CHECK(parameter_elements(program) == all);
  }
}

/// Elements of a rank's modules whose states are in host memory: of each stage e eighths of the layers, rounded up;
/// with all eighths the embedding and the head too.
std::uint64_t host_held(const Symbols& x, std::uint64_t rank) {
  const std::uint64_t e = *x.plan.offload_states;
  if (e == 8) return stage_held(x, rank);
  std::uint64_t layers = 0;
  for (const std::uint32_t v : x.parts(rank)) layers += ((*x.plan.stage_layers)[v] * e + 7) / 8;
  return layers * layer_held(x).total(x);
}

/// Elements of those of them whose weights live there too.
std::uint64_t remote_held(const Symbols& x, std::uint64_t rank) {
  std::uint64_t layers = 0;
  for (const std::uint32_t v : x.parts(rank))
    layers += ((*x.plan.stage_layers)[v] * *x.plan.offload_parameters + 7) / 8;
  return layers * layer_held(x).total(x);
}

// Weights w, gradients g, masters and moments in the state type, the last two
// divided by the data size under ZeRO-1, gradients too under ZeRO-2, weights too
// under ZeRO-3 (Rajbhandari et al. 2020, table 1): with 16-bit weights and
// gradients and Adam 16, 4 + 12/N, 2 + 14/N and 16/N bytes per parameter.
TEST_CASE("model state of every stage equals the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    const Program program = lower(run.model, run.workload, run.plan);
    const auto moments = static_cast<std::uint64_t>(optimizer_moments(run.workload));
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      const std::uint64_t n = stage_held(x, stage);
      const std::uint64_t own = x.zero ? n / x.dp : n;
      const RoleBytes state = totals_of(program, stage).state;
      // Of the part that the host updates it holds weights too.
      const std::uint64_t host = host_held(x, stage) / (x.zero ? x.dp : 1);
      CHECK(state[index(Role::weight)] == ((x.zero >= 3 ? own : n) - remote_held(x, stage) + host) * x.w);
      CHECK(state[index(Role::gradient)] == (x.zero >= 2 ? own : n) * x.g);
      CHECK(state[index(Role::master)] == (has_master_weights(run.workload) ? own * 4 : 0));
      CHECK(state[index(Role::moment)] ==
            own * moments * size_of(moment_dtype(run.workload)) + statistics(x, stage).count * x.st);
    }
  }
}

// Korthikanti et al. 2022, table 2, with the element sizes w of activations and
// 1 of masks in place of 2 and 1, the feed-forward width f in place of 4h and
// 2k key and value heads in place of 2a; no mask without dropout.  At w = 2,
// f = 4h, k = a, with dropout these are sbh(10 + 24/t + 5as/(ht)) and so on.
TEST_CASE("saved activations equal Korthikanti's table in all variants", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    const std::uint64_t masks = run.workload.hidden_dropout > 0 ? 2 : 0;
    const std::uint64_t up = x.swiglu ? 2 * x.f : x.f;
    const std::uint64_t sb = x.s * x.b / x.c;
    // Whole on every tensor rank, unless cut by sequence parallelism: the layer's
    // input, both norms' outputs, the middle of the residual stream, masks.
    const std::uint64_t replicated = sb * x.h * (4 * x.w + masks) / (x.sp ? x.t : 1);
    std::uint64_t sharded = sb * x.w * (x.d * (x.a + 2 * x.k) + x.a * x.d + up + x.f) / x.t;
    // Gathered keys and values of the whole sequence; Ulysses keeps the projections of its heads in place of its
    // positions', and flash attention's result in both layouts.
    const bool ulysses = x.c > 1 && x.plan.context == ContextAlgorithm::ulysses;
    const bool gathers = x.c > 1 && x.plan.context == ContextAlgorithm::all_gather;
    if (gathers) sharded += x.s * x.b * x.w * 2 * x.k * x.d / x.t;
    if (ulysses && x.flash) sharded += sb * x.w * x.a * x.d / x.t;
    const std::uint64_t scores = x.a * x.s * sb / x.t;
    const std::uint64_t core =
        x.flash ? 0 : scores * x.w + (run.workload.attention_dropout > 0 ? scores * (1 + x.w) : 0);
    const std::uint64_t input = sb * x.h * x.w / (x.sp ? x.t : 1);
    // Where backward is split, what is made again for the input gradients stays for the weight gradients: the inputs
    // of the four products.
    const std::uint64_t product_inputs = splits_backward(run.plan) ? 2 * input + sb * x.w * (x.a * x.d + x.f) / x.t : 0;
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      const ClassTotals totals = totals_of(program, stage);
      for (const std::uint32_t part : x.parts(stage))
        for (std::uint32_t layer = first_layer(run.plan, part); layer < first_layer(run.plan, part + 1); ++layer) {
          CAPTURE(stage, layer);
          const bool again = test::recomputes(run.plan, layer);
          const bool full = again && x.full();
          const std::uint64_t expected =
              full ? input + product_inputs : replicated + sharded + (again && x.selective() ? 0 : core);
          CHECK(totals.saved[layer].activations == expected);
          // FlashAttention keeps a log-sum-exp per head and token; norms two or one numbers per token.
          const std::uint64_t rows = x.sp ? sb / x.t : sb;
          const std::uint64_t statistics = (x.flash ? x.a / x.t * sb : 0) + 2 * rows * (x.layer_norm ? 2 : 1);
          CHECK(totals.saved[layer].statistics == (full ? 0 : statistics * x.st));
        }
    }
  }
}

// Per layer and microbatch 1D tensor parallelism sums 2 vectors of wsbh forward
// and 2 backward (again forward in full recomputation); sequence parallelism
// gathers and scatters instead, with 2 more gathers for weight gradients.
TEST_CASE("tensor-parallel traffic equals the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    if (x.t == 1) continue;
    const Program program = lower(run.model, run.workload, run.plan);
    const std::uint64_t stream = x.w * x.s * x.b * x.h / x.c;
    const std::uint64_t tokens = x.s * x.b / x.c;
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      const std::uint64_t layers = x.layers_of(stage) * x.m;
      const std::uint64_t forwards = layers + (x.full() ? x.again_on(stage) * x.m : 0);
      Volume reduce, gather, scatter;
      if (x.sp) {
        gather.add(2 * forwards + 4 * layers, stream);
        scatter.add(2 * forwards + 2 * layers, stream);
        if (x.first(stage)) gather.add(x.m, stream), scatter.add(x.m, stream);
        if (x.last(stage)) gather.add(2 * x.m, stream), scatter.add(x.m, stream);
      } else {
        reduce.add(2 * forwards + 2 * layers, stream);
        if (x.first(stage)) reduce.add(x.m, stream);
        if (x.last(stage)) reduce.add(x.m, stream);
      }
      if (x.last(stage)) {  // cross-entropy: the maximum, then sum and target together
        reduce.add(x.m, x.st * tokens);
        reduce.add(x.m, 2 * x.st * tokens);
      }
      // Under ZeRO they are sums over the data axis too.
      const Volume norms = x.zero ? Volume{} : tensor_norms(x, stage);
      reduce.count += norms.count;
      reduce.payload += norms.payload;
      const ClassTotals totals = totals_of(program, stage);
      CHECK(volume(program, totals, Collective::Kind::all_gather, tensor_group) == gather);
      CHECK(volume(program, totals, Collective::Kind::reduce_scatter, tensor_group) == scatter);
      Volume measured = volume(program, totals, Collective::Kind::all_reduce, tensor_group);
      // Sequence parallelism also sums the gradients of replicated parameters, in
      // as many messages as there are buckets: their bytes are known.
      if (x.sp) {
        // With ZeRO-2 and 3 it sums their parts, once they are scattered.
        const auto padded = [&](std::uint64_t n) {
          const std::uint64_t parts = x.zero ? (n + x.dp - 1) / x.dp : n;
          return x.zero == 1 ? parts * x.dp : parts;
        };
        std::uint64_t replicated = x.layers_of(stage) * padded(layer_held(x).replicated);
        if (x.first(stage)) replicated += padded(embedding_held(x).replicated);
        if (x.last(stage)) replicated += padded(head_held(x).replicated);
        CHECK(measured.payload == reduce.payload + replicated * x.g);
      } else {
        CHECK(measured == reduce);
      }
    }
  }
}

/// Elements of weights that a stage gathers in a step.  ZeRO-1 and 2: all, after
/// the update.  ZeRO-3: each microbatch all for the forward and again for the
/// backward pass, but for the embedding, which the backward pass does not read;
/// a table tied on one stage is gathered for the head as well.  Kept: all, once.
std::uint64_t gathered_elements(const Symbols& x, std::uint64_t stage, std::uint64_t held) {
  if (x.zero == 0) return 0;
  // What lives in host memory is gathered for each use instead, forward and backward.
  const std::uint64_t remote = remote_held(x, stage);
  if (x.zero < 3 || !x.plan.reshard_after_forward) return held - remote + 2 * x.m * remote;
  std::uint64_t n = 2 * held;
  if (x.first(stage)) n -= embedding_held(x).total(x);
  if (x.tied && x.p == 1) n += 2 * embedding_held(x).total(x);
  return n * x.m;
}

// Data parallel: all gradients once per step over data and replicas, 2(n-1)/n of
// them sent in a ring.  ZeRO-1: gradients scattered along data, weights gathered,
// the same bytes where both have the same size; replicas sum the part alone
// (hybrid sharding), 1/n of what they would sum of the whole.  ZeRO-2 and 3
// scatter after each of g microbatches: g + 1 and, with weights gathered twice
// each, 3 g times (n-1)/n of the parameters.  The last stage
// also sums the count of targets and the loss.
TEST_CASE("data-parallel traffic equals the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    if (x.dp * x.replicas * x.c == 1) continue;
    AxisList axes;
    if (x.replicas > 1) axes.axis[axes.count++] = Axis::replica;
    if (x.dp > 1) axes.axis[axes.count++] = Axis::data;
    // Positions are tokens too: gradients are sums over the context axis as well.
    if (x.c > 1) axes.axis[axes.count++] = Axis::context;
    AxisList batch;
    if (x.replicas > 1) batch.axis[batch.count++] = Axis::replica;
    if (x.dp > 1) batch.axis[batch.count++] = Axis::data;
    AxisList rest;  // without data, along which ZeRO scatters
    if (x.replicas > 1) rest.axis[rest.count++] = Axis::replica;
    if (x.c > 1) rest.axis[rest.count++] = Axis::context;
    const Group rest_group{rest, {}}, all_group{axes, {}}, batch_group{batch, {}};
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      const ClassTotals totals = totals_of(program, stage);
      const std::uint64_t n = stage_held(x, stage);
      // The loss is summed over all of them, the count over those with other sequences.
      const std::uint64_t loss = x.last(stage) ? 8 : 0;
      const std::uint64_t count = x.last(stage) && !batch.empty() ? 8 : 0;
      // The norms of tensors that ZeRO cuts travel along data, where that is all of all_group.
      const bool along_data = x.zero && x.t == 1 && x.replicas * x.c == 1;
      const std::uint64_t norms = along_data ? tensor_norms(x, stage).payload : 0;
      const std::uint64_t scalars = (x.c == 1 ? loss + count : loss) + norms;
      const Volume reduce = volume(program, totals, Collective::Kind::all_reduce, all_group);
      const Volume scatter = volume(program, totals, Collective::Kind::reduce_scatter, data_group);
      const Volume gather = volume(program, totals, Collective::Kind::all_gather, data_group);
      // Ring self-attention sums the gradients of all keys and values of each layer and microbatch over the context
      // axis.
      const std::uint64_t runs =
          test::layers_on(x.plan, static_cast<std::uint32_t>(stage)) * program.microbatches / stage_map(x.plan).pipes();
      const bool scores = x.c > 1 && x.plan.context == ContextAlgorithm::ring_self_attention;
      const std::uint64_t of_keys = scores ? runs * 2 * x.s * x.b * x.k * x.d / x.t * x.w : 0;
      CHECK(reduce.payload == (x.zero ? 0 : n * x.g) + scalars + (axes.count == 1 ? of_keys : 0));
      if (x.c > 1)
        CHECK(volume(program, totals, Collective::Kind::all_reduce, batch_group).payload ==
              count + (x.zero && x.t == 1 && x.replicas == 1 ? tensor_norms(x, stage).payload : 0));
      CHECK(scatter.payload == (x.zero ? n * x.g : 0) * (x.zero >= 2 ? x.m : 1));
      CHECK(gather.payload == gathered_elements(x, stage, n) * x.w);
      if (x.zero && x.replicas * x.c > 1) {
        CHECK(volume(program, totals, Collective::Kind::all_reduce, rest_group).payload ==
              n / x.dp * x.g + (rest.count == 1 ? of_keys : 0));
      }
      // Uneven chunks make one rank's share differ by at most two elements per message.
      for (const CollectiveTotal& c : totals.collectives) {
        if (c.kind == Collective::Kind::permute) continue;  // keys and values
        if (contains(program[c.group].axes, Axis::tensor) || contains(program[c.group].axes, Axis::pipeline)) continue;
        const auto members = static_cast<double>(group_size(program[c.group], program.mesh));
        const double factor = (c.kind == Collective::Kind::all_reduce ? 2.0 : 1.0) * (members - 1) / members;
        CHECK(std::abs(static_cast<double>(c.sent) - factor * static_cast<double>(c.payload)) <=
              2.0 * 8.0 * static_cast<double>(c.count));
      }
    }
  }
}

// One message of wsbh (its part under sequence parallelism) per microbatch and
// boundary, forward and backward; the tied table's gradient between first and
// last stage; the norm over all parts.
TEST_CASE("pipeline traffic equals the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      const ClassTotals totals = totals_of(program, stage);
      // Messages go where the next virtual stage lies on another rank.
      const StageMap map = stage_map(run.plan);
      std::uint64_t boundaries = 0;
      for (const std::uint32_t v : x.parts(stage)) {
        if (v > 0 && (x.two_way() || map.rank(v - 1) != stage)) ++boundaries;
        if (v + 1 < map.stages() && (x.two_way() || map.rank(v + 1) != stage)) ++boundaries;
      }
      CHECK(totals.messages == boundaries * x.m);
      CHECK(totals.message_bytes == boundaries * x.m * x.w * x.s * x.b * x.h / x.c / (x.sp ? x.t : 1));
      if (x.p == 1) continue;
      if (x.two_way()) {
        // Gradients of both stages, of the own part under ZeRO-1, and with the heads the loss.
        const auto low = static_cast<std::uint32_t>(std::min<std::uint64_t>(stage, x.p - 1 - stage));
        const Group pair{{Axis::pipeline}, {low, static_cast<std::uint32_t>(x.p - 1 - low)}};
        const std::uint64_t loss = low == 0 ? 8 : 0;
        CHECK(volume(program, totals, Collective::Kind::all_reduce, pair).payload ==
              stage_held(x, stage) / (x.zero ? x.dp : 1) * x.g + loss);
        continue;
      }
      const Group tied{{Axis::pipeline}, {0, static_cast<std::uint32_t>(x.p - 1)}};
      Volume expected;
      if (x.copied() && (x.first(stage) || x.last(stage))) {
        std::uint64_t table = x.V / x.t * x.h;
        if (x.zero) table = (table + x.dp - 1) / x.dp;
        expected.add(1, table * x.g);
      }
      CHECK(volume(program, totals, Collective::Kind::all_reduce, tied) == expected);
    }
  }
}

TEST_CASE("a folded peak equals the expanded one", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    CAPTURE(seed);
    const PlannedRun run = test::random_run(seed, one_d());
    const Program program = lower(run.model, run.workload, run.plan);
    LiveMemory folded;  // sums each block once, then walks slots
    folded.read(program);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      const ClassTotals expanded = totals_of(program, c);
      const StageMemory stage = folded.peak(program, c);
      CHECK(stage.peak == expanded.peak[index(Tier::device)]);
      CHECK(stage.weights == expanded.at_peak[index(Role::weight)] + expanded.at_peak[index(Role::master)]);
      CHECK(stage.workspace == expanded.at_peak[index(Role::workspace)]);
    }
  }
}

// 1F1B: stage i of p starts p - 1 - i forwards ahead, so it holds at most
// min(m, p - i) microbatches; GPipe and breadth-first hold all m.  Counted as instances of the stage's first layer
// input that are live together.
TEST_CASE("a stage holds as many microbatches as its schedule says", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    PlannedRun run = test::random_run(seed, one_d());
    run.plan.offload_activations = 0;  // what waits in host memory is not held
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    const ScheduleName schedule = run.plan.schedule;
    const bool all = schedule == ScheduleName::gpipe || schedule == ScheduleName::breadth_first;
    if (!all && schedule != ScheduleName::one_f_one_b) continue;  // schedule_laws_test.cpp
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      const std::uint32_t low = first_layer(run.plan, x.parts(stage).front());
      std::uint64_t live = 0, most = 0;
      for_each_op(program, program.classes[stage].step, [&](const OpRun& r) {
        const auto* alloc = std::get_if<Alloc>(&r.op->action);
        const auto* free = std::get_if<Free>(&r.op->action);
        if (alloc == nullptr && free == nullptr) return;
        const BufferId id = alloc != nullptr ? alloc->what : free->what;
        if (program[id].name != "hidden") return;
        const std::int8_t shift = alloc != nullptr ? alloc->layer_shift : free->layer_shift;
        if (instance_of(program, id, shift, r.layer, r.microbatch).layer != low) return;
        live += alloc != nullptr ? 1 : std::uint64_t(-1);
        most = std::max(most, live);
      });
      CAPTURE(stage);
      CHECK(most == (all ? x.m : std::min(x.m, x.p - stage)));
    }
  }
}
