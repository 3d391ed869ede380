#include <catch2/catch.hpp>

#include <algorithm>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "core/record/live_memory.hpp"
#include "tests/property/core/closed_forms.hpp"

using namespace orrery;
using namespace orrery::closed_forms;

// Forward per layer, 2 per multiply-add: qkv 2Th d(a+2k), out 2T a d h, core 4Ts a d (full square), mlp 4Thf or 6Thf;
// head 2ThV. Backward twice that. Full recomputation adds a forward pass of every recomputed layer, selective one core.
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

// Storage is bf16's, and so is all else: bytes, operands, messages.
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
        // A router's products stay as they are, because few numbers decide there.
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

namespace {

/// Bytes of a parameter's moments: one and two where the first is f8, one each of codes.
std::uint64_t moment_bytes(const Workload& w) {
  return moment_dtype(w) == DType::f8 ? 3 : static_cast<std::uint64_t>(optimizer_moments(w)) * size_of(moment_dtype(w));
}

/// Scales add two f32 for every 128 of a segment's part, or every 256 of codes.
std::uint64_t scale_bytes(const Symbols& x, const Program& program, std::uint32_t stage) {
  std::uint64_t bytes = 0;
  if (!has_scaled_moments(x.workload)) return bytes;
  const std::uint64_t block = moment_dtype(x.workload) == DType::u8 ? 256 : 128;
  for (const ParameterTable& t : program.parameter_tables) {
    const std::uint64_t times = t.module == "embedding" ? (x.first(stage) ? 1U : 0U)
                                : t.module == "head"    ? (x.last(stage) ? 1U : 0U)
                                                        : x.layers_of(stage);
    for (const ParameterSegment& s : t.segments) {
      const std::uint64_t part = s.count / (x.zero ? x.shares : 1);
      bytes += times * 8 * ((part + block - 1) / block);
    }
  }
  return bytes;
}

}  // namespace

// Weights w, gradients g, masters and moments in the state type, the last two
// divided by the ranks that share them under ZeRO-1, gradients too under ZeRO-2, weights too
// under ZeRO-3 (Rajbhandari et al. 2020, table 1): with 16-bit weights and
// gradients and Adam 16, 4 + 12/N, 2 + 14/N and 16/N bytes per parameter.
TEST_CASE("model state of every stage equals the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      const std::uint64_t n = stage_held(x, stage);
      const std::uint64_t own = x.zero ? n / x.shares : n;
      const RoleBytes state = totals_of(program, stage).state;
      // For the part that the host updates, it holds weights too.
      const std::uint64_t host = host_held(x, stage) / (x.zero ? x.shares : 1);
      CHECK(state[index(Role::weight)] == ((x.zero >= 3 ? own : n) - remote_held(x, stage) + host) * x.w);
      CHECK(state[index(Role::gradient)] == (x.zero >= 2 ? own : n) * x.g);
      CHECK(state[index(Role::master)] == (has_master_weights(run.workload) ? own * 4 : 0));
      const std::uint64_t factored = statistics(x, stage).count * x.st;
      CHECK(state[index(Role::moment)] == own * moment_bytes(run.workload) + scale_bytes(x, program, stage) + factored);
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
    // These are whole on every tensor rank, unless cut by sequence parallelism: the layer's input, both norms' outputs,
    // the middle of the residual stream, masks.
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
    // Where backward is split, results computed again for the input gradients stay for the weight gradients: the inputs
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
