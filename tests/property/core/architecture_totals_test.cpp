#include <catch2/catch.hpp>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "core/record/rates.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

constexpr std::uint64_t cases = 300;

PlannedRun draw(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.architectures = true;
  limits.context = false;
  return test::random_run(seed, limits);
}

double real(std::uint64_t v) { return static_cast<double>(v); }

/// Number of the model's layers whose forward pass, or attention core, is computed again.
double again(const PlannedRun& run) {
  double n = 0;
  for (std::uint32_t l = 0; l < run.model.layers; ++l) n += test::recomputes(run.plan, l) ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("parameters of BERT, ViT and latent attention equal the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    CHECK(parameter_elements(lower(run.model, run.workload, run.plan)) == parameter_count(run.model));
  }
}

// Forward, 2 per multiply-add, T tokens, B sequences: products of a layer and the core 2 T s a (d + e), d and e the
// widths of a key and a value. BERT's head is 2 T h V + 2 T h^2, ViT's 2 B h C, and its patches 2 B N c P^2 h, whose
// inputs need no gradient. Every tensor rank computes what it has whole, namely BERT's h x h and the products that make
// latent vectors, unless sequence parallelism gives each rank its rows.
TEST_CASE("FLOPs of BERT, ViT and latent attention equal the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    const ModelSpec& m = run.model;
    const Plan& p = run.plan;
    const std::uint64_t h = m.hidden, t = p.mesh.size(Axis::tensor), d = key_width(m), e = value_width(m);
    const double B = real(run.workload.global_batch), s = real(run.workload.sequence_length), T = B * s;
    const double copies = p.sequence_parallel && t > 1 ? 1.0 : real(t);
    const double V = real(padded_vocabulary(p, m));
    double narrow = 0.0, wide = 2 * T * real(h * m.heads * (2 * d + e));
    if (m.latent) {
      const LatentAttention& l = *m.latent;
      narrow = 2 * T * real(h * (l.query_rank + l.kv_rank + l.rope_dim));
      wide = 2 * T * real((l.query_rank > 0 ? l.query_rank : h) * m.heads * d + l.kv_rank * m.heads * (m.head_dim + e));
    }
    const double swiglu = m.activation == Activation::swiglu ? 3.0 : 2.0;
    const double products = copies * narrow + wide + 2 * T * real(m.heads * e * h) + swiglu * 2 * T * real(h * m.ffn);
    const double core = 2 * T * s * real(m.heads * (d + e)), scores = 2 * T * s * real(m.heads * d);
    double ends = 3 * 2 * T * real(h) * V;
    double of_model = 3 * 2 * T * real(h) * real(m.vocabulary);
    if (m.architecture == Architecture::bert) {
      ends += 3 * copies * 2 * T * real(h * h);
      of_model += 3 * 2 * T * real(h * h);
    }
    if (m.architecture == Architecture::vit) {
      const double patches = 2 * 2 * B * real(patch_count(*m.image) * patch_width(*m.image) * h);
      const double tables = m.image->pool == Image::Pool::class_and_mean ? 2.0 : 1.0;
      ends = tables * 3 * 2 * B * real(h) * V + patches;
      of_model = tables * 3 * 2 * B * real(h) * real(m.vocabulary) + patches;
    }
    const bool flash = p.attention == AttentionKernel::flash;
    const double L = real(m.layers);
    double more = 0.0, more_core = 0.0;
    if (p.recompute == Recompute::full) more = again(run) * products, more_core = again(run) * core;
    if (p.recompute == Recompute::selective && !flash) more_core = again(run) * core;
    const double visible = is_causal(m) ? (s + 1) / (2 * s) : 1.0;
    const KernelFlops total = total_flops(lower(m, run.workload, p));
    // These are sums of whole numbers below 2^53, except for the visible part: 1e-12 covers its rounding.
    CHECK(total.counted == Approx(3 * L * (products + core) + ends + more + more_core).epsilon(1e-12));
    CHECK(total.executed ==
          Approx(3 * L * products + ends + more + visible * (L * (3 * core + (flash ? scores : 0.0)) + more_core))
              .epsilon(1e-12));
    const double whole = products - (copies - 1) * narrow;
    CHECK(model_flops(m, run.workload) == Approx(3 * L * (whole + core) + of_model).epsilon(1e-12));
  }
}

// Korthikanti et al. 2022, table 2, holds for BERT and ViT as it stands: with
// norms behind the residual two sums are kept in place of two norms' outputs.
// Latent attention keeps its narrow vectors before and behind their norms, and
// heads of 2 d + e. DINOv2 keeps the sums of both branches, 2 h more; in 16 bits without dropout, flash, per token:
// 8 h + 4 q + 4 u + 2 a (2 d + e) + 2 a e + feed-forward.
TEST_CASE("saved activations of BERT, ViT and latent attention equal the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = draw(seed);
    CAPTURE(seed, test::describe(run));
    const ModelSpec& m = run.model;
    const Plan& p = run.plan;
    const std::uint64_t w = size_of(weight_dtype(run.workload)), state = size_of(wide_dtype(run.workload));
    const std::uint64_t t = p.mesh.size(Axis::tensor), cut = p.sequence_parallel ? t : 1;
    const std::uint64_t sb = run.workload.sequence_length * p.microbatch_size, rows = sb / cut;
    const std::uint64_t d = key_width(m), e = value_width(m), a = m.heads;
    const std::uint64_t masks = run.workload.hidden_dropout > 0 ? 2 : 0;
    const std::uint64_t narrow = m.latent ? m.latent->query_rank + m.latent->kv_rank : 0;
    const std::uint64_t up = (m.activation == Activation::swiglu ? 2 : 1) * m.ffn;
    const bool flash = p.attention == AttentionKernel::flash;
    const std::uint64_t input = rows * m.hidden * w;
    // Weights of features need again what they scale.
    const std::uint64_t streams = m.layer_scale ? 6 : 4;
    const std::uint64_t kept =
        rows * (m.hidden * (streams * w + masks) + 2 * narrow * w) + sb * w * (a * (2 * d + 2 * e) + up + m.ffn) / t;
    const std::uint64_t scores = a * run.workload.sequence_length * sb / t;
    const std::uint64_t core = flash ? 0 : scores * w + (run.workload.attention_dropout > 0 ? scores * (1 + w) : 0);
    std::uint64_t product_inputs = 0;
    if (splits_backward(p)) {
      const bool bert = m.architecture == Architecture::bert;  // the input is the first product's
      product_inputs = (bert ? 1 : 2) * input + rows * narrow * w + sb * w * (a * e + m.ffn) / t;
    }
    const std::uint64_t norms =
        2 * rows * (m.norm == Norm::layer_norm ? 2 : 1) + (m.latent ? rows * (m.latent->query_rank > 0 ? 2 : 1) : 0);
    const Program program = lower(m, run.workload, p);
    for (std::uint32_t rank = 0; rank < p.mesh.size(Axis::pipeline); ++rank) {
      const ClassTotals totals = totals_of(program, rank);
      for (const std::uint32_t part : test::stages_on(p, rank)) {
        for (std::uint32_t layer = first_layer(p, part); layer < first_layer(p, part + 1); ++layer) {
          CAPTURE(rank, layer);
          const bool more = test::recomputes(p, layer);
          const bool full = more && p.recompute == Recompute::full;
          const bool selective = more && p.recompute == Recompute::selective;
          CHECK(totals.saved[layer].activations == (full ? input + product_inputs : kept + (selective ? 0 : core)));
          CHECK(totals.saved[layer].statistics == (full ? 0 : ((flash ? a / t * sb : 0) + norms) * state));
        }
      }
    }
  }
}
