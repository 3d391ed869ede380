// Bytes of model state for each parameter, under every optimizer and precision that has a published figure.
#include <catch2/catch.hpp>

#include <string>

#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "tests/support/shipped_model.hpp"

using namespace orrery;
using test::shipped_model;

namespace {

struct Held {
  double weights, gradients, states;
};

Program gpt2_on(std::uint32_t shards, std::uint32_t zero, const Workload& wanted) {
  ModelSpec m = shipped_model("gpt2-124m");
  Workload w = wanted;
  w.global_batch = shards;
  w.sequence_length = 128;
  Plan plan;
  plan.mesh.axes = {{Axis::data, shards}};
  plan.microbatch_size = 1;
  plan.zero_stage = zero;
  plan.stage_layers = std::vector<std::uint32_t>{static_cast<std::uint32_t>(m.layers)};
  plan.attention = AttentionKernel::flash;
  plan.overlap_gradients = false;
  plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
  plan.gradient_bucket = gigabyte;
  return lower(m, w, plan);
}

/// Bytes of one parameter on a rank of `shards`.
Held each_of(const Workload& wanted, std::uint32_t zero, std::uint32_t shards) {
  const RoleBytes state = totals_of(gpt2_on(shards, zero, wanted), 0).state;
  const auto of = [&](Role role) {
    return static_cast<double>(state[static_cast<std::size_t>(role)]) /
           static_cast<double>(parameter_count(shipped_model("gpt2-124m")));
  };
  return {of(Role::weight), of(Role::gradient), of(Role::master) + of(Role::moment)};
}

Workload trained_with(OptimizerKind kind, Precision precision, std::optional<DType> gradients = std::nullopt,
                      std::optional<DType> moments = std::nullopt) {
  Workload w;
  w.optimizer.kind = kind;
  w.precision = precision;
  w.gradient_dtype = gradients;
  w.moment_dtype = moments;
  return w;
}

}  // namespace

// Rajbhandari et al., "ZeRO", SC 2020, section 3.1: 2 + 2 + 12 bytes with Adam in mixed precision.  Megatron-LM sums
// gradients in f32: 18 (docs of its distributed optimizer).  Momentum alone keeps one f32 less: 12 (You et al., LARS:
// the same states as SGD with momentum).  Peng et al., "FP8-LM", 2023: 1 and 2 bytes of moments, here beside an f32
// master and two f32 scales for 128.  DeepSeek-V3, section 3.3: f32 gradients and masters, bf16 moments, which is 13
// where the weights are kept in fp8 alone and 14 where they are in bf16, as here.  Without masters PyTorch's AdamW has
// moments and gradients in the weights' type: 8 (torchtune's full fine-tuning).
TEST_CASE("optimizers take the published bytes of a parameter", "[unit][record]") {
  struct Row {
    const char* name;
    Workload workload;
    Held expected;
  };
  using O = OptimizerKind;
  using P = Precision;
  Workload plain = trained_with(O::sgd, P::bf16, DType::bf16);
  plain.optimizer.momentum = 0.0;
  const auto pure = [](Workload w) {
    w.master_weights = false;
    return w;
  };
  const Row rows[] = {
      {"Adam, 16", trained_with(O::adam, P::bf16, DType::bf16), {2, 2, 12}},
      {"Adam in fp16, 16", trained_with(O::adam, P::fp16, DType::f16), {2, 2, 12}},
      {"LAMB, 16", trained_with(O::lamb, P::fp16, DType::f16), {2, 2, 12}},
      {"Adam with f32 gradients, 18", trained_with(O::adam, P::bf16), {2, 4, 12}},
      {"the same with fp8 products", trained_with(O::adam, P::fp8), {2, 4, 12}},
      {"Adam in fp32, 16", trained_with(O::adam, P::fp32), {4, 4, 8}},
      {"SGD with momentum, 12", trained_with(O::sgd, P::bf16, DType::bf16), {2, 2, 8}},
      {"LARS, 12", trained_with(O::lars, P::bf16, DType::bf16), {2, 2, 8}},
      {"SGD alone, 8", plain, {2, 2, 4}},
      {"bf16 moments, 14", trained_with(O::adam, P::fp8, DType::f32, DType::bf16), {2, 4, 8}},
      {"bf16 alone, 8", pure(trained_with(O::adam, P::bf16)), {2, 2, 4}},
      {"bf16 alone, fp8 products", pure(trained_with(O::adam, P::fp8)), {2, 2, 4}},
      {"f32 gradients and moments, no masters",
       pure(trained_with(O::adam, P::bf16, DType::f32, DType::f32)),
       {2, 4, 8}},
      {"bf16 alone, LAMB", pure(trained_with(O::lamb, P::bf16)), {2, 2, 8}},
      {"bf16 alone, LARS, 6", pure(trained_with(O::lars, P::bf16)), {2, 2, 2}},
      {"bf16 alone, SGD, 4", pure(plain), {2, 2, 0}},
      {"8 and 16 bit moments", trained_with(O::adam, P::fp8, DType::bf16, DType::f8), {2, 2, 4 + 3 + 8.0 / 128}},
      {"codes of a byte", trained_with(O::adam, P::bf16, DType::bf16, DType::u8), {2, 2, 4 + 2 + 8.0 / 256}},
      {"codes of a byte, no masters",
       pure(trained_with(O::adam, P::bf16, DType::bf16, DType::u8)),
       {2, 2, 2 + 8.0 / 256}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Held held = each_of(row.workload, 0, 1);
    CHECK(held.weights == row.expected.weights);
    CHECK(held.gradients == row.expected.gradients);
    CHECK(held.states == Approx(row.expected.states).epsilon(1e-4));  // scales of parts below 128
  }
}

// Adam reads the gradient, and reads and writes weight, master and two moments: 4 + 2 (2 + 4 + 4 + 4) bytes of a
// parameter; without masters 2 + 2 (2 + 2 + 2). Each kernel reads the number of the step, 8 bytes.
TEST_CASE("Adam touches 32 bytes of a parameter, and 14 without masters", "[unit][record]") {
  for (const bool masters : {true, false}) {
    CAPTURE(masters);
    Workload w = trained_with(OptimizerKind::adam, Precision::bf16);
    w.master_weights = masters;
    const Program program = gpt2_on(1, 0, w);
    std::uint64_t bytes = 0;
    for_each_op(program, program.classes[0].step, [&](const OpRun& run) {
      const auto* compute = std::get_if<Compute>(&run.op->action);
      if (compute == nullptr || run.block->kernels[compute->kernel].kind != KernelKind::adam_update) return;
      bytes += touched_bytes(program, *run.block, *run.op) - 8;
    });
    CHECK(bytes == parameter_count(shipped_model("gpt2-124m")) * (masters ? 32 : 14));
    for (const Buffer& b : program.buffers) CHECK((masters || b.role != Role::master));
  }
}

// Shazeer and Stern, "Adafactor", ICML 2018: an r x c matrix has r + c numbers in place of r c; vectors have all
// theirs.
TEST_CASE("Adafactor keeps sums of rows and columns", "[unit][record]") {
  const Held held = each_of(trained_with(OptimizerKind::adafactor, Precision::bf16, DType::bf16), 0, 1);
  const double h = 768, v = 50257, s = 1024, layers = 12;
  const double of_layer = (h + 3 * h) + (h + h) + (h + 4 * h) + (4 * h + h)  // rows and columns of its four matrices
                          + 13 * h - 4 * h + 4 * h;                          // 9 h of biases, 4 h of two norms
  const double numbers = layers * of_layer + (v + h) + (s + h) + 2 * h;
  const double all = static_cast<double>(parameter_count(shipped_model("gpt2-124m")));
  CHECK(held.weights + held.gradients == 4.0);
  CHECK(held.states == Approx(4.0 + 4.0 * numbers / all).epsilon(1e-3));
  CHECK(held.weights + held.gradients + held.states == Approx(8.0).margin(0.02));  // "about 8"
}

// Megatron-LM, docs of its distributed optimizer: bf16 weights, f32 gradients: 6 + 12 / d bytes; both 16 bits: 4 + 12 /
// d.
TEST_CASE("a distributed optimizer takes 6 + 12 / d bytes of a parameter", "[unit][record]") {
  for (const std::uint32_t d : {2U, 8U, 64U}) {
    CAPTURE(d);
    const Held wide = each_of(trained_with(OptimizerKind::adam, Precision::bf16), 1, d);
    CHECK(wide.weights + wide.gradients + wide.states == Approx(6.0 + 12.0 / d).epsilon(1e-3));
    const Held narrow = each_of(trained_with(OptimizerKind::adam, Precision::bf16, DType::bf16), 1, d);
    CHECK(narrow.weights + narrow.gradients + narrow.states == Approx(4.0 + 12.0 / d).epsilon(1e-3));
  }
}
