#include "serve/serving_search.hpp"

#include "serve/pool_search.hpp"

#include <chrono>

#include "tests/unit/serve/served.hpp"

using namespace orrery;

namespace {

ServingQuestion question(const Served& s) {
  ServingQuestion q;
  q.model = s.model;
  q.cluster = s.cluster;
  q.calibration = s.calibration;
  q.engine = s.engine;
  q.concurrency = 64.0;
  q.formats = {WeightFormat::bf16, WeightFormat::fp8};
  q.kv_fp8 = {false, true};
  return q;
}

}  // namespace

TEST_CASE("the best plan has the most tokens a second, and no plan beats the front", "[serve]") {
  const ServingSearch s = search_serving(question(served("llama-3.1-70b", "h100:8")));
  REQUIRE(s.plans.size() > 3);
  for (const ServedPlan& p : s.plans) {
    CHECK(p.tokens_per_second <= s.plans.front().tokens_per_second);
    CHECK(p.devices() <= 8);
    CHECK(p.sequences_fit > 0);
  }
  for (std::size_t i = 1; i < s.front.size(); ++i) {
    CHECK(s.front[i].tpot > s.front[i - 1].tpot);
    CHECK(s.front[i].tokens_per_second_per_gpu > s.front[i - 1].tokens_per_second_per_gpu);
  }
  CHECK_FALSE(s.refused.empty());  // 70 G parameters in bf16 are too many for one of these
}

TEST_CASE("with a rate as few devices serve as keep up", "[serve]") {
  ServingQuestion q = question(served("llama-3.1-8b", "h100:8"));
  q.concurrency.reset();
  std::uint32_t before = 0;
  for (const double rate : {1.0, 20.0, 100.0}) {
    q.rate = rate;
    const ServingSearch s = search_serving(q);
    REQUIRE_FALSE(s.plans.empty());
    const ServedPlan& best = s.plans.front();
    CHECK(best.keeps_up);
    CHECK(best.devices() >= before);
    before = best.devices();
    // What comes in goes out.
    CHECK(best.tokens_per_second == Approx(rate * q.output));
    CHECK(best.replicas * best.times.tokens_per_second == Approx(rate * q.output).epsilon(rate < 2.0 ? 1.0 : 0.01));
  }
  q.rate = 1e6;
  CHECK_FALSE(search_serving(q).plans.front().keeps_up);
}

TEST_CASE("bounds put plans within them first", "[serve]") {
  ServingQuestion q = question(served("llama-3.1-8b", "h100:8"));
  const Seconds fastest = search_serving(q).front.front().tpot;
  q.tpot = 1.5 * fastest;
  q.concurrency = 8.0;
  const ServingSearch s = search_serving(q);
  CHECK(s.plans.front().within_bounds);
  CHECK(s.plans.front().times.tpot <= *q.tpot);
  q.tpot = 0.01 * fastest;
  CHECK_FALSE(search_serving(q).plans.front().within_bounds);
}

TEST_CASE("cost is the price of the devices over what they make", "[serve]") {
  ServingQuestion q = question(served("llama-3.1-8b", "h100:8"));
  q.cluster.price_per_gpu_hour = 3.6;
  const ServedPlan best = search_serving(q).plans.front();
  REQUIRE(best.cost_per_million);
  // 3.6 an hour is 0.001 a second.
  CHECK(*best.cost_per_million == Approx(best.devices() * 0.001 * 1e6 / best.tokens_per_second));
}

TEST_CASE("a search for a large mixture takes below twenty seconds", "[serve]") {
  const auto begin = std::chrono::steady_clock::now();
  const ServingSearch s = search_serving(question(served("deepseek-v3", "h200:8x4", "sglang")));
  CHECK_FALSE(s.plans.empty());
  // 0.2 s in a release; address checks and a busy machine take some times that.
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 20.0);
}

TEST_CASE("pools take no more devices than there are, and no prompts beyond their own", "[serve]") {
  ServingQuestion q = question(served("llama-3.1-70b", "h200:8"));
  q.input = GENERATE(1024.0, 8192.0);
  q.formats = {WeightFormat::fp8};
  q.kv_fp8 = {true};
  const ServingSearch s = search_serving(q);
  const auto p = search_pools(q, s);
  REQUIRE(p);
  CHECK(p->devices() <= 8);
  // 80 layers x 2 x 8 heads x 128 x 1 byte a token.
  CHECK(p->keys.in(byte) == q.input * 163840.0);
  // Little: those that decode and those that wait are all.
  CHECK(p->tokens_per_second / q.output * (p->times.ttft + (q.output - 1.0) * p->times.tpot).in(second) ==
        Approx(64.0).epsilon(0.02));
  q.cluster = served("llama-3.1-70b", "h200:1").cluster;
  CHECK_FALSE(search_pools(q, search_serving(q)));
}
