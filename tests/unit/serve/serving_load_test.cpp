#include "serve/serving_load.hpp"

#include <cmath>

#include "serve/batching.hpp"
#include "tests/unit/serve/served.hpp"

using namespace orrery;

namespace {

LoadWork work(const Served& s, const ServingPlan& p, const ServingLoad& load) {
  const ServingMemory memory = serving_memory(s.model, p, s.cluster.device, s.engine.memory);
  return load_work(s.pricer(p), s.model, p, memory, s.engine.batch, load);
}

}  // namespace

TEST_CASE("one request alone decodes at the time of a step", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const LoadWork w = work(s, {}, {1000.0, 2000.0, 1.0});
  const ServingTimes t = serving_times(w, s.engine.costs);
  // Its own prompt is done before its first token.
  CHECK(t.tpot.in(second) == Approx(step_time(w.decode, s.engine.costs).in(second)).epsilon(1e-9));
  CHECK_FALSE(t.saturated);
  CHECK(t.tokens_per_second == Approx(2000.0 / (t.ttft + 1999.0 * t.tpot).in(second)).epsilon(1e-6));
}

TEST_CASE("requests beyond the room for keys wait as Little's law says", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const ServingLoad load{2000.0, 1000.0, 4000.0};
  const ServingTimes t = serving_times(work(s, {}, load), s.engine.costs);
  CHECK(t.saturated);
  CHECK(t.running < load.concurrency);
  // concurrency = rate x time in the system, over all requests.
  const double rate = t.tokens_per_second / load.output;
  const double stay = (t.ttft + (load.output - 1.0) * t.tpot).in(second);
  CHECK(rate * stay == Approx(load.concurrency).epsilon(1e-3));
}

TEST_CASE("requests on two pools are those that wait, and those that decode", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:8");
  const double concurrency = GENERATE(4.0, 256.0);
  PoolWork w;
  w.prompts = work(s, {}, {4000.0, 1.0, 1.0});
  w.decode = work(s, {}, {4000.0, 200.0, concurrency});
  w.prompt_workers = GENERATE(1.0, 6.0);
  CAPTURE(concurrency, w.prompt_workers);
  const ServingTimes t = pool_times(w, s.engine.costs);
  const double rate = t.tokens_per_second / 200.0;
  CHECK(rate * (t.ttft + 199.0 * t.tpot).in(second) == Approx(w.decode.running).epsilon(0.01));
  // No more prompts a second than their pool computes.
  CHECK(rate * step_time(w.prompts.mixed, s.engine.costs).in(second) <= w.prompt_workers * (1.0 + 1e-9));
  if (concurrency > 4.0 && w.prompt_workers < 2.0) CHECK(t.saturated);
}

TEST_CASE("a pipeline's token waits for all stages", "[serve]") {
  const Served s = served("llama-3.1-70b", "h100:8");
  ServingPlan tp, pp;
  tp.tensor = 8;
  pp.tensor = 4;
  pp.pipeline = 2;
  const Seconds of_tensor = serving_times(work(s, tp, {512.0, 512.0, 8.0}), s.engine.costs).tpot;
  const Seconds of_pipeline = serving_times(work(s, pp, {512.0, 512.0, 8.0}), s.engine.costs).tpot;
  CHECK(of_pipeline > of_tensor);
  // Half of the tensor ranks read twice the weights, so at most twice the time.
  CHECK(of_pipeline < 2.0 * of_tensor);
}

// Stages share the weights and work at once: what a prompt takes of each is a half, so more tokens come in all.
TEST_CASE("throughput grows with stages, and a prompt passes all of them", "[serve]") {
  const Served s = served("llama-3.1-70b", "h100:8");
  ServingTimes before;
  for (const std::uint32_t stages : {1U, 2U}) {
    ServingPlan p;
    p.tensor = 4;
    p.pipeline = stages;
    const LoadWork w = work(s, p, {4096.0, 128.0, 16.0});
    const ServingTimes t = serving_times(w, s.engine.costs);
    if (stages > 1) CHECK(t.tokens_per_second > before.tokens_per_second);
    CHECK(t.ttft > w.chunks * step_time(w.mixed, s.engine.costs));
    before = t;
  }
}

TEST_CASE("requests of one token end no faster than their prompts", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const LoadWork w = work(s, {}, {1000.0, 1.0, 64.0});
  const ServingTimes t = serving_times(w, s.engine.costs);
  CHECK(t.tpot == Seconds{});
  CHECK(t.tokens_per_second * step_time(w.mixed, s.engine.costs).in(second) == Approx(1.0));
  CHECK(t.tokens_per_second * t.ttft.in(second) == Approx(64.0));
  const ServingTimes alone = serving_times(work(s, {}, {1000.0, 1.0, 1.0}), s.engine.costs);
  CHECK(alone.tokens_per_second * alone.ttft.in(second) == Approx(1.0));
  CHECK(alone.ttft >= step_time(w.mixed, s.engine.costs));
}

// The closed form against requests played one by one: clients that ask again as soon as they are answered keep a
// concurrency. Lengths are equal, so what is left is the wait for prompts, which the form has in the mean alone.
TEST_CASE("the closed form agrees with events where memory is ample", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const double rate = GENERATE(1.0, 4.0);
  const std::vector<ServedRequest> trace = poisson_requests(300, rate, 512, 256, 3);
  StepTimes steps(s.pricer(), s.engine.costs);
  const BatchingLimits limits{8192, 256, 100000, 16, 1, false};
  const BatchingResult played = simulate_batching(trace, limits, [&](const StepShape& x) { return steps(x); });
  double tpot = 0.0, stay = 0.0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const RequestTimes& r = played.requests[i];
    tpot += (r.last_token - r.first_token).in(second) / 255.0 / 300.0;
    stay += (r.last_token - trace[i].arrival).in(second) / 300.0;
  }
  const ServingTimes t = serving_times(work(s, {}, {512.0, 256.0, rate * stay}), s.engine.costs);
  // Random arrivals meet more company than a steady number of clients: some per cent.
  CHECK(t.tpot.in(second) == Approx(tpot).epsilon(0.08));
}
