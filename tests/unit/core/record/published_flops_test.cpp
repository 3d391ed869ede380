// FLOPs, utilizations and training times that papers print, computed from the counts that every report uses.
#include <catch2/catch.hpp>

#include <string>

#include "core/program/lower/lower.hpp"
#include "core/record/rates.hpp"
#include "tests/support/shipped_model.hpp"

using namespace orrery;
using test::shipped_model;

namespace {

Workload batch(std::uint64_t sequences, std::uint64_t length) {
  Workload w;
  w.global_batch = sequences;
  w.sequence_length = length;
  return w;
}

double real(std::uint64_t n) { return static_cast<double>(n); }

/// FLOPs that one device executes for a step with this recomputation.
double executed(const ModelSpec& m, const Workload& w, Recompute recompute) {
  Plan plan;
  plan.microbatch_size = 1;
  plan.stage_layers = std::vector<std::uint32_t>{static_cast<std::uint32_t>(m.layers)};
  plan.attention = AttentionKernel::unfused;
  plan.overlap_gradients = false;
  plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
  plan.gradient_bucket = gigabyte;
  plan.recompute = recompute;
  return program_flops(lower(m, w, plan));
}

constexpr double a100 = 312e12;

}  // namespace

// Table 5 of Korthikanti et al., MLSys 2023: iteration times on A100s, and the utilizations printed beside them.  The
// times are printed to a hundredth of a second, which moves the first by 0.2 points.
TEST_CASE("Korthikanti's utilizations follow from the published times", "[unit][record]") {
  struct Row {
    const char* model;
    std::uint64_t batch;
    double gpus, seconds, mfu, hfu;
  };
  const Row rows[] = {{"korthikanti-22b", 4, 8, 1.10, 41.5, 43.7},
                      {"korthikanti-175b", 64, 64, 13.75, 51.4, 52.8},
                      {"korthikanti-530b", 280, 280, 37.83, 56.0, 57.0},
                      {"korthikanti-1t", 512, 512, 71.49, 56.3, 57.0}};
  for (const Row& row : rows) {
    CAPTURE(row.model);
    const ModelSpec m = shipped_model(row.model);
    const Workload w = batch(row.batch, 2048);
    const double available = row.seconds * row.gpus * a100;
    const double model = model_flops(m, w);
    CHECK(100.0 * model / available == Approx(row.mfu).margin(0.25));
    // Their hardware FLOPs, 72 B L s h^2 (1 + s/3h + V/12hL), count the attention core 3 times more: 12 B L s^2 h.
    const double core = 4.0 * real(row.batch * m.layers * 2048 * 2048 * m.hidden);
    CHECK(100.0 * (model + 3.0 * core) / available == Approx(row.hfu).margin(0.15));
    // Only its forward pass is computed again, which is a third of that.
    CHECK(executed(m, w, Recompute::selective) == Approx(model + core).epsilon(1e-12));
  }
}

// Narayanan et al., SC '21, equation 3: 96 B s L h^2 (1 + s/6h + V/16Lh), all layers made again, the head not.
TEST_CASE("a fully recomputed step executes Narayanan's FLOPs", "[unit][record]") {
  for (const char* name : {"gpt3-175b", "megatron-sc21-1.7b", "megatron-sc21-1008b"}) {
    CAPTURE(name);
    const ModelSpec m = shipped_model(name);
    const double b = 8, s = 2048, l = real(m.layers), h = real(m.hidden), v = real(m.vocabulary);
    const double expected = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    CHECK(executed(m, batch(8, 2048), Recompute::full) == Approx(expected).epsilon(1e-12));
  }
}

// Section 5.1 there: 8 T P / (n X) seconds for T tokens at X FLOP/s on each of n GPUs.
TEST_CASE("training GPT-3 takes 34 days, a trillion parameters 84", "[unit][record]") {
  const auto days = [](const char* model, double tokens, double gpus, double rate) {
    return 8.0 * tokens * real(published_parameter_count(shipped_model(model))) / (gpus * rate) / 86400.0;
  };
  CHECK(days("gpt3-175b", 300e9, 1024, 140e12) == Approx(34.0).margin(0.5));
  CHECK(days("megatron-sc21-1008b", 450e9, 3072, 163e12) == Approx(84.0).margin(0.5));
}

// Chowdhery et al., "PaLM", appendix B: 6 N + 12 L H Q s for each token, N the parameters in products.
TEST_CASE("FLOPs of a token are 6 for each parameter in a product, and attention's", "[unit][record]") {
  for (const char* name : {"gpt3-175b", "llama-2-70b", "llama-3-8b", "llama-3-405b"}) {
    CAPTURE(name);
    const ModelSpec m = shipped_model(name);
    const double h = real(m.hidden), l = real(m.layers), v = real(m.vocabulary);
    const bool gpt = m.activation == Activation::gelu;
    const double attention = h * real(m.head_dim) * real(2 * m.heads + 2 * m.kv_heads);
    const double products = l * (attention + (gpt ? 2 : 3) * h * real(m.ffn)) + h * v;
    const double scores = 12 * l * real(m.heads) * real(m.head_dim) * 4096;
    CHECK(model_flops(m, batch(1, 4096)) / 4096 == Approx(6 * products + scores).epsilon(1e-12));
  }
  // The figure "6 N" leaves open whether the input embedding counts, 7 % of LLaMA-3 8B.
  const ModelSpec m = shipped_model("llama-3-8b");
  CHECK(6.0 * real(parameter_count(m)) == Approx(4.82e10).epsilon(1e-3));
  CHECK(6.0 * real(parameter_count(m) - m.vocabulary * m.hidden) == Approx(4.50e10).epsilon(1e-3));
}

// "The Llama 3 Herd of Models", table 4: 430, 400 and 380 TFLOP/s on each H100, 43 %, 41 % and 38 % of 989; steps of 16
// Mi tokens. The paper does not say which FLOPs it means: a causal mask halves the attention core.
TEST_CASE("Llama 3 405B: FLOPs of a token with and without the causal half, and its steps", "[unit][record]") {
  const ModelSpec m = shipped_model("llama-3-405b");
  const auto token = [&](std::uint64_t s, double core) {
    const double full = model_flops(m, batch(1, s)) / real(s);
    return full - (1.0 - core) * 12.0 * real(m.layers * m.hidden * s);
  };
  CHECK(token(8192, 1.0) == Approx(2.625e12).epsilon(5e-4));
  CHECK(token(8192, 0.5) == Approx(2.524e12).epsilon(5e-4));
  CHECK(token(131072, 1.0) == Approx(5.670e12).epsilon(5e-4));
  CHECK(token(131072, 0.5) == Approx(4.046e12).epsilon(5e-4));
  const double tokens = 16.0 * 1024 * 1024;
  CHECK(tokens * token(8192, 1.0) / (8192 * 430e12) == Approx(12.5).margin(0.05));
  CHECK(tokens * token(8192, 1.0) / (16384 * 400e12) == Approx(6.72).margin(0.005));
  CHECK(tokens * token(8192, 0.5) / (8192 * 430e12) == Approx(12.0).margin(0.05));
  CHECK(tokens * token(8192, 0.5) / (16384 * 400e12) == Approx(6.46).margin(0.005));
  CHECK(430.0 / 989 == Approx(0.435).margin(0.0005));
}

// Jiang et al., "MegaScale", NSDI 2024, table 2: 175B, 6144 sequences on 12288 A100s in 6.34 s, "55.2 %", "2166 PF/s",
// which contradict each other by 2 %: the count by Korthikanti's formula lies between.
TEST_CASE("MegaScale's largest run reaches 55.8 % of the peak", "[unit][record]") {
  ModelSpec m = shipped_model("korthikanti-175b");
  const double flops = model_flops(m, batch(6144, 2048)) / 6.34;
  CHECK(flops / 1e15 == Approx(2138).epsilon(3e-3));
  CHECK(flops / (12288 * a100) == Approx(0.558).margin(2e-3));
}

// torchvision prints 17.56, 61.55 and 167.30 G multiply-adds for an image (heads of 1000 classes).
TEST_CASE("vision transformers take torchvision's multiply-adds", "[unit][record]") {
  const std::pair<const char*, double> rows[] = {{"vit-b-16", 17.56}, {"vit-l-16", 61.55}, {"vit-h-14", 167.30}};
  for (const auto& [name, giga] : rows) {
    CAPTURE(name);
    const ModelSpec m = shipped_model(name);
    const std::uint64_t positions = patch_count(*m.image) + 1;
    const double patches = real(patch_count(*m.image) * patch_width(*m.image) * m.hidden);
    // Forward is a third, except for the patches, whose pixels have no gradient, where it is a half.
    const double step = model_flops(m, batch(1, positions));
    const double forward = (step - 4.0 * patches) / 3.0 + 2.0 * patches;
    CHECK(forward / 2.0 / 1e9 == Approx(giga).epsilon(2e-3));
  }
}

// 24 layers of 2 s (12 h^2) + 4 s^2 h: 335.0 GFLOP for a sequence of 512.
TEST_CASE("BERT-large takes 335 GFLOP forward, its head apart", "[unit][record]") {
  const ModelSpec m = shipped_model("bert-large");
  const double head = 2.0 * 512 * real(m.hidden * m.vocabulary + m.hidden * m.hidden);
  CHECK((model_flops(m, batch(1, 512)) / 3.0 - head) / 1e9 == Approx(335.0).margin(0.05));
}
