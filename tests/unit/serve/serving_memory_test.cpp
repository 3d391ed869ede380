#include "serve/serving_memory.hpp"

#include <algorithm>
#include <cmath>

#include "tests/unit/serve/served.hpp"

using namespace orrery;

namespace {

ModelSpec shipped(const std::string& name) {
  Diagnostics d;
  return shipped_library().model(name, {}, d).value();
}

}  // namespace

// One device holds every parameter once, two bytes each: an independent count is that of the model's own.
TEST_CASE("on one device in bf16 the weights are the model's parameters, two bytes each", "[serve]") {
  const std::string name = GENERATE("llama-3-8b", "gpt2-124m", "gpt-oss-20b", "deepseek-v2-lite", "gemma-2-2b",
                                    "qwen3-30b-a3b", "starcoder2-15b");
  CAPTURE(name);
  const ModelSpec m = shipped(name);
  CHECK(serving_weights(m, {}).in(byte) == Approx(2.0 * static_cast<double>(parameter_count(m))).epsilon(1e-12));
}

// Published sizes, KiB a token in bf16: 2 L h_kv d 2 bytes (Llama, Qwen, GPT-3), L (r_kv + d_rope) 2 bytes (DeepSeek).
TEST_CASE("keys of a token take what the architectures' papers say", "[serve]") {
  const auto kib = [](const char* model) { return kv_bytes_per_token(shipped(model), false).in(kibibyte); };
  CHECK(kib("llama-3-8b") == 128.0);
  CHECK(kib("llama-3-70b") == 320.0);
  CHECK(kib("llama-3-405b") == 504.0);
  CHECK(kib("qwen3-32b") == 256.0);
  CHECK(kib("gpt3-175b") == 4608.0);
  CHECK(kib("deepseek-v3") == Approx(61.0 * 576.0 * 2.0 / 1024.0));
  CHECK(kv_bytes_per_token(shipped("llama-3-8b"), true).in(kibibyte) == 64.0);
}

TEST_CASE("more tensor ranks than KV heads hold copies of them", "[serve]") {
  const ModelSpec m = shipped("llama-3-8b");  // 8 KV heads
  ServingPlan eight, sixteen;
  eight.tensor = 8;
  sixteen.tensor = 16;
  CHECK(kv_bytes(m, eight, 1024) == kv_bytes(m, sixteen, 1024));
  CHECK(8.0 * kv_bytes(m, eight, 1024) == kv_bytes(m, {}, 1024));
}

TEST_CASE("latents are whole on every tensor rank", "[serve]") {
  ServingPlan p;
  p.tensor = 8;
  const ModelSpec m = shipped("deepseek-v3");
  CHECK(kv_bytes(m, p, 4096) == kv_bytes(m, {}, 4096));
}

// gpt-oss-120b: 36 layers, every other one with a window of 128 tokens; 2 x 8 heads x 64 x 2 bytes a layer and token.
TEST_CASE("layers with a window keep no more than it", "[serve]") {
  const ModelSpec m = shipped("gpt-oss-120b");
  CHECK(kv_bytes(m, {}, 4096).in(byte) == Approx(18.0 * (4096.0 + 128.0) * 2048.0));
  CHECK(kv_bytes(m, {}, 17).in(byte) == Approx(36.0 * 32.0 * 2048.0));  // two blocks of 16 in each layer
}

TEST_CASE("the sequences that fit are the most whose keys do", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:8");
  const double tokens = GENERATE(100.0, 2048.0, 20000.0);
  const std::uint32_t tp = GENERATE(1U, 4U);
  ServingPlan p;
  p.tensor = tp;
  const ServingMemory memory = serving_memory(s.model, p, s.cluster.device, s.engine.memory);
  const auto n = static_cast<double>(sequences_that_fit(s.model, p, memory, tokens));
  CHECK(n * kv_bytes(s.model, p, tokens) <= memory.kv);
  CHECK((n + 1.0) * kv_bytes(s.model, p, tokens) > memory.kv);
  // 0.9 of all memory is the engine's.
  CHECK((memory.kv + memory.weights + memory.held).in(byte) ==
        Approx(s.engine.memory.share * memory.capacity.in(byte)).epsilon(1e-12));
}

TEST_CASE("a model whose weights fill the device has no room for keys", "[serve]") {
  const Served s = served("llama-3.1-70b", "h100:8");
  CHECK_FALSE(serving_memory(s.model, {}, s.cluster.device, s.engine.memory).fits());
}

TEST_CASE("formats take their bits and their scales", "[serve]") {
  CHECK(bytes_of(WeightFormat::mxfp4) * 8.0 == 4.25);
  CHECK(bytes_of(WeightFormat::nvfp4) * 8.0 == 4.5);
  CHECK(bytes_of(WeightFormat::int4) * 8.0 == 4.125);
  const Served hopper = served("gpt-oss-20b", "h100:1"), blackwell = served("gpt-oss-20b", "b200:1");
  CHECK(product_rate(WeightFormat::mxfp4, hopper.cluster.device).unpacked);
  CHECK_FALSE(product_rate(WeightFormat::mxfp4, blackwell.cluster.device).unpacked);
  CHECK(product_rate(WeightFormat::int4, blackwell.cluster.device).compute == DType::bf16);
}
