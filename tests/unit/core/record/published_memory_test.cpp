// Bytes that papers print, compared with Programs.
#include <catch2/catch.hpp>

#include <string>

#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "tests/support/shipped_model.hpp"

using namespace orrery;
using test::shipped_model;

namespace {

Plan plan_of(const ModelSpec& m, Axis axis, std::uint32_t size) {
  Plan plan;
  plan.mesh.axes = {{axis, size}};
  plan.microbatch_size = 1;
  plan.stage_layers = std::vector<std::uint32_t>{static_cast<std::uint32_t>(m.layers)};
  plan.attention = AttentionKernel::unfused;
  plan.overlap_gradients = false;
  plan.offload_states = plan.offload_parameters = plan.offload_activations = 0;
  plan.gradient_bucket = gigabyte;
  return plan;
}

}  // namespace

// Rajbhandari et al., "ZeRO", SC '20, figure 1: 7.5 billion parameters, Adam with 12 bytes of states, 64 ranks: 120,
// 31.4, 16.6 and 1.9 GB of weights, gradients and states on each.
TEST_CASE("ZeRO's four figures", "[unit][record]") {
  const ModelSpec m = shipped_model("megatron-sc21-7.5b");
  Workload w;
  w.global_batch = 64;
  w.sequence_length = 128;
  w.precision = Precision::fp16;
  w.gradient_dtype = DType::f16;
  const double published[] = {120.0, 31.4, 16.6, 1.9};
  const double formula[] = {16.0, 4.0 + 12.0 / 64, 2.0 + 14.0 / 64, 16.0 / 64};
  for (std::uint32_t stage = 0; stage <= 3; ++stage) {
    CAPTURE(stage);
    Plan plan = plan_of(m, Axis::data, 64);
    plan.zero_stage = stage;
    const ClassTotals totals = totals_of(lower(m, w, plan), 0);
    double bytes = 0.0;
    for (const Role role : {Role::weight, Role::gradient, Role::master, Role::moment}) {
      bytes += static_cast<double>(totals.state[static_cast<std::size_t>(role)]);
    }
    const double each = bytes / static_cast<double>(parameter_count(m));
    CHECK(each == Approx(formula[stage]).epsilon(1e-4));  // shares are padded to whole ones
    CHECK(7.5 * each == Approx(published[stage]).margin(0.05));
  }
}

// Korthikanti et al., MLSys 2023, figure 7: what a layer keeps, in percent of tensor parallelism alone, t = 8. The
// cases are sequence parallelism, the attention core recomputed, both, and all recomputed. The same from table 2: sbh
// (10 + 24/t + 5as/ht), (sbh/t)(34 + 5as/h), sbh (10 + 24/t), 34 sbh/t, 2 sbh.
TEST_CASE("Korthikanti's shares of activations", "[unit][record]") {
  struct Row {
    const char* model;
    double sequence, selective, both, full;
  };
  const Row rows[] = {{"korthikanti-22b", 66.8, 49.4, 16.1, 7.6},
                      {"korthikanti-175b", 62.0, 56.5, 18.5, 8.7},
                      {"korthikanti-530b", 58.3, 61.9, 20.2, 9.5},
                      {"korthikanti-1t", 58.3, 61.9, 20.2, 9.5}};
  for (const Row& row : rows) {
    CAPTURE(row.model);
    ModelSpec m = shipped_model(row.model);
    m.layers = 2;  // all layers keep the same
    Workload w;
    w.global_batch = 1;
    w.sequence_length = 2048;
    w.precision = Precision::fp16;
    w.hidden_dropout = w.attention_dropout = 0.1;
    const auto kept = [&](bool sequence, Recompute recompute) {
      Plan plan = plan_of(m, Axis::tensor, 8);
      plan.sequence_parallel = sequence;
      plan.recompute = recompute;
      return static_cast<double>(totals_of(lower(m, w, plan), 0).saved[0].activations);
    };
    const double alone = kept(false, Recompute::none);
    const double sbh = 2048.0 * static_cast<double>(m.hidden);
    const double scores = 5.0 * static_cast<double>(m.heads) * 2048.0 / static_cast<double>(m.hidden);
    CHECK(alone == Approx(sbh * (10.0 + 24.0 / 8 + scores / 8)).epsilon(1e-12));
    CHECK(100.0 * kept(true, Recompute::none) / alone == Approx(row.sequence).margin(0.06));
    CHECK(100.0 * kept(false, Recompute::selective) / alone == Approx(row.selective).margin(0.06));
    CHECK(100.0 * kept(true, Recompute::selective) / alone == Approx(row.both).margin(0.06));
    CHECK(100.0 * kept(false, Recompute::full) / alone == Approx(row.full).margin(0.06));
  }
}

// What a LLaMA layer keeps of a token with fused norms, rotation and SwiGLU and FlashAttention, in bf16: two norms'
// inputs and outputs, query, key and value, attention's result and its log-sums, gate, up and their product: h (12 + 4
// k/a) + 6 f + 4 a + 8 bytes. For a sequence that is 0.50, 1.05, 1.06 and 3.97 GiB.
TEST_CASE("LLaMA's layers keep 32 to 34 times their width of a token", "[unit][record]") {
  struct Row {
    const char* model;
    std::uint64_t tokens;
    double widths, gib;
  };
  const Row rows[] = {{"llama-2-7b", 4096, 32.2, 0.50},
                      {"llama-2-70b", 4096, 33.5, 1.05},
                      {"llama-3-8b", 8192, 34.0, 1.06},
                      {"llama-3-405b", 8192, 31.8, 3.97}};
  for (const Row& row : rows) {
    CAPTURE(row.model);
    ModelSpec m = shipped_model(row.model);
    m.layers = 2;
    Workload w;
    w.global_batch = 2;
    w.sequence_length = row.tokens;
    w.precision = Precision::bf16;
    Plan plan = plan_of(m, Axis::data, 2);
    plan.attention = AttentionKernel::flash;
    const SavedActivations saved = totals_of(lower(m, w, plan), 0).saved[0];
    const std::uint64_t each = m.hidden * 12 + 4 * m.hidden * m.kv_heads / m.heads + 6 * m.ffn + 4 * m.heads + 8;
    const std::uint64_t kept = saved.activations + saved.statistics;
    CHECK(kept == each * row.tokens);
    CHECK(static_cast<double>(each) / static_cast<double>(m.hidden) == Approx(row.widths).margin(0.06));
    CHECK(static_cast<double>(kept) / gibibyte.base() == Approx(row.gib).margin(0.006));
  }
}

// DeepSeek-V3 (arXiv 2412.19437, section 4.2: ranks 1536 and 512, 128 heads of 128 + 64 and 128, 8 of 256 experts and
// one shared of 2048), bf16, FlashAttention.  Bytes of a token in a mixture layer:
//
//     attention       4 h norm  + 4 q + 4 u latents before and behind their norms  + 4 a (d + r) queries, keys
//                     + 4 a e values, result
//     feed-forward    4 h norm  + 4 E logits in f32  + K (2 h + 6 f + 2 h) rows as they come; gate, up and product;
//                     rows as they return  + 6 f shared
//
// is 570,368.  Statistics beside it: 4 a log-sums; f32 of four norms; of each choice expert, gate, its row's slot and
// the slot's expert.  The count of 571 kB that is usually given (201,344 of attention, 369,664 of the rest) has the
// log-sums, and the key's rotated part once more before it is given to all heads: 2 r.
TEST_CASE("a mixture layer of DeepSeek-V3 keeps 571 kB of a token", "[unit][record]") {
  ModelSpec m = shipped_model("deepseek-v3");
  m.layers = 2;
  m.mixture->first_dense = 1;
  m.prediction_modules = 0;
  const std::uint64_t tokens = 4096;
  Workload w;
  w.global_batch = 1;
  w.sequence_length = tokens;
  w.precision = Precision::bf16;
  Plan plan = plan_of(m, Axis::data, 1);
  plan.attention = AttentionKernel::flash;
  const SavedActivations saved = totals_of(lower(m, w, plan), 0).saved[1];
  constexpr std::uint64_t h = 7168, q = 1536, u = 512, r = 64, d = 128, e = 128, a = 128, k = 8, f = 2048;
  constexpr std::uint64_t attention = 4 * h + 4 * q + 4 * u + 4 * a * (d + r) + 4 * a * e;
  constexpr std::uint64_t feed_forward = 4 * h + 4 * 256 + k * (4 * h + 6 * f) + 6 * f;
  CHECK(saved.activations == (attention + feed_forward) * tokens);
  CHECK(saved.statistics == (4 * a + 4 * 4 + k * 4 * 4) * tokens);
  static_assert(attention + 4 * a + 2 * r == 201'344);
  static_assert(feed_forward == 369'664);
  static_assert(attention + feed_forward + 4 * a + 2 * r == 571'008);
}
