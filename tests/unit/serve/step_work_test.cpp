#include "serve/step_work.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "serve/engine_costs.hpp"
#include "tests/unit/serve/served.hpp"

using namespace orrery;

namespace {

/// Factors of 1 and no terms: what sim/cost says alone.
const EngineCosts bare;

Seconds bytes_of_part(const StepWork& w, StepPart part) {
  Seconds sum;
  for (const ServingOp& op : w.ops) {
    if (op.part == part) sum += op.bytes;
  }
  return sum;
}

}  // namespace

// One sequence: all weights but the embedding are read once, and nothing else is large. The floor is bytes over
// bandwidth at the calibration's efficiency (0.91 on H100): 2 (8.03e9 - 0.525e9) / (0.91 x 3.35e12) = 4.92 ms.
TEST_CASE("decoding one sequence takes the time of reading the weights", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const double read = 2.0 * (static_cast<double>(parameter_count(s.model)) - 128256.0 * 4096.0);
  const double floor = read / (s.calibration.memory_efficiency * 3.35e12);
  const Seconds t = step_time(s.pricer().work({1.0, 1.0}), bare);
  CHECK(t.in(second) >= floor);
  // Keys of one token, norms and activations are below 2 % of it.
  CHECK(t.in(second) <= 1.02 * floor);
}

// Keys of B sequences of n tokens: B n x 128 KiB (Llama-3-8B), each read once.
TEST_CASE("keys are read once a step", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const Seconds t = bytes_of_part(s.pricer().work({32.0, 4096.0}), StepPart::keys);
  CHECK(t.in(second) == Approx(32.0 * 4096.0 * 131072.0 / (s.calibration.memory_efficiency * 3.35e12)).epsilon(1e-9));
}

// With T tokens that choose k of E experts at random, E (1 - (1 - k/E)^T) are met in the mean; counted here by drawing.
TEST_CASE("the experts read are those that tokens meet", "[serve]") {
  const Served s = served("qwen3-30b-a3b", "h100:1");
  const double all = bytes_of_part(s.pricer().work({100000.0, 1.0}), StepPart::expert).in(second);
  const double weights = 48.0 * 128.0 * 3.0 * 2048.0 * 768.0 * 2.0 / (s.calibration.memory_efficiency * 3.35e12);
  CHECK(all > weights);  // activations are on top
  const auto read = [&](double tokens) {
    const double rows = tokens * 8.0 * 48.0 * 2.0 * (2.0 * 768.0 + 2048.0 + 768.0 + 2048.0);
    return bytes_of_part(s.pricer().work({tokens, 1.0}), StepPart::expert).in(second)-rows /
           (s.calibration.memory_efficiency * 3.35e12);
  };
  const int tokens = GENERATE(1, 4, 16, 64);
  // A linear congruential generator draws 8 different experts of 128 for each token.
  std::uint64_t state = 12345;
  double met = 0.0;
  constexpr int rounds = 400;
  for (int r = 0; r < rounds; ++r) {
    std::vector<bool> hit(128);
    for (int t = 0; t < tokens; ++t) {
      std::vector<bool> own(128);
      for (int k = 0; k < 8;) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const auto e = static_cast<std::size_t>((state >> 33) % 128);
        if (own[e]) continue;
        own[e] = true;
        hit[e] = true;
        ++k;
      }
    }
    met += static_cast<double>(std::count(hit.begin(), hit.end(), true)) / rounds;
  }
  CAPTURE(tokens, met);
  // 400 rounds leave a standard error below 1 %.
  CHECK(read(tokens) / weights == Approx(met / 128.0).epsilon(0.02));
}

// A prompt's FLOPs: 2 P s, and attention 2 L s^2 h under a causal mask; nothing can be faster than the peak.
TEST_CASE("a prompt takes at least its FLOPs at the peak, and no more than thrice that", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const double n = GENERATE(2048.0, 8192.0);
  const double flops = 2.0 * (8.03e9 - 2.0 * 128256.0 * 4096.0) * n + 2.0 * 32.0 * n * n * 4096.0;
  const double t = step_time(s.pricer().work({0.0, 0.0, n, 0.0, 1.0}), bare).in(second);
  CHECK(t > flops / 989e12);
  CHECK(t < 3.0 * flops / 989e12);
}

TEST_CASE("a prompt in chunks computes the same attention", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const StepPricer pricer = s.pricer();
  const auto attention = [&](double before, double chunk) {
    Seconds sum;
    for (const ServingOp& op : pricer.work({0.0, 0.0, chunk, before, 0.0}).ops) {
      if (op.part == StepPart::prompt_attention) sum += op.products;
    }
    return sum.in(second);
  };
  CHECK(attention(0, 2048) + attention(2048, 2048) + attention(4096, 4096) == Approx(attention(0, 8192)).epsilon(1e-9));
}

TEST_CASE("the parts of a step sum to its time", "[serve]") {
  const Served s = served("deepseek-v3", "h200:8", "sglang");
  ServingPlan p;
  p.tensor = 8;
  p.expert = 8;
  set_formats(p, WeightFormat::fp8, s.model);
  const StepWork w = s.pricer(p).work({32.0, 1500.0, 512.0, 0.0, 1.0});
  const StepTimeParts parts = step_time_parts(w, s.engine.costs);
  Seconds sum = parts.layers + parts.collectives + parts.host;
  for (const Seconds t : parts.ops) sum += t;
  CHECK(sum.in(second) == Approx(step_time(w, s.engine.costs).in(second)).epsilon(1e-12));
  CHECK(w.collectives == 122.0);  // two all-reduces in each of 61 layers
}

// Over the network a collective has NCCL's latency in its own time; the engine's is that of kernels inside a node.
TEST_CASE("a collective's latency counts once", "[serve]") {
  Served s = served("deepseek-v3", "h200:8x2");
  const auto step = [&](const ServingPlan& p) { return step_time(s.pricer(p).work({8.0, 1500.0}), s.engine.costs); };
  ServingPlan inside, across, groups;
  inside.tensor = 8;
  across.tensor = 16;
  groups.attention_data = 16;
  groups.expert = 16;
  const Seconds a = step(inside), b = step(across), c = step(groups);
  s.engine.costs[EngineCost::collective] += 1e-5;
  CHECK((step(inside) - a).in(second) == Approx(122.0 * 1e-5));
  CHECK(step(across) == b);
  CHECK(step(groups) == c);
}

TEST_CASE("more sequences, more keys and longer prompts never take less time", "[serve]") {
  const std::string model = GENERATE("llama-3.1-8b", "gpt-oss-20b", "deepseek-v2-lite");
  CAPTURE(model);
  const Served s = served(model, "h100:1");
  const StepPricer pricer = s.pricer();
  const auto t = [&](const StepShape& shape) { return step_time(pricer.work(shape), s.engine.costs); };
  for (const double b : {1.0, 8.0, 64.0}) {
    CHECK(t({2.0 * b, 1000.0}) >= t({b, 1000.0}));
    CHECK(t({b, 2000.0}) >= t({b, 1000.0}));
    CHECK(t({b, 1000.0, 1024.0, 0.0, 1.0}) >= t({b, 1000.0, 512.0, 0.0, 1.0}));
    CHECK(t({b, 1000.0, 512.0, 4096.0, 1.0}) >= t({b, 1000.0, 512.0, 0.0, 1.0}));
  }
}
