#include "serve/batching.hpp"

#include <chrono>

#include "core/base/random.hpp"

#include "tests/unit/serve/served.hpp"

using namespace orrery;

namespace {

Seconds a_second(const StepShape&) { return Seconds::of(1.0); }

std::vector<ServedRequest> at_once(std::uint32_t count, std::uint32_t input, std::uint32_t output) {
  return std::vector<ServedRequest>(count, ServedRequest{{}, input, output, {}, {}});
}

double first(const BatchingResult& r, std::size_t i) { return r.requests[i].first_token.in(second); }
double last(const BatchingResult& r, std::size_t i) { return r.requests[i].last_token.in(second); }

}  // namespace

TEST_CASE("a request alone takes a step for each chunk and each further token", "[serve]") {
  // 100 tokens in chunks of 40: three steps, of which the last gives the first token; then four more.
  const BatchingResult r = simulate_batching(at_once(1, 100, 5), {40, 8, 100, 16, 1, false}, a_second);
  CHECK(first(r, 0) == 3.0);
  CHECK(last(r, 0) == 7.0);
  CHECK(r.steps == 7);
  CHECK(r.most_blocks == 7);  // 104 tokens have keys at the end: ceil(104 / 16)
}

TEST_CASE("prompts share a step's tokens, and decoding comes first", "[serve]") {
  // Step 1: 16 tokens of A, 14 of B. Step 2: A's next token, 2 of B; then both decode.
  const BatchingResult r = simulate_batching(at_once(2, 16, 4), {30, 8, 100, 16, 1, false}, a_second);
  CHECK(first(r, 0) == 1.0);
  CHECK(first(r, 1) == 2.0);
  CHECK(last(r, 0) == 4.0);
  CHECK(last(r, 1) == 5.0);
}

TEST_CASE("no more sequences run than the limit", "[serve]") {
  const BatchingResult r = simulate_batching(at_once(3, 8, 3), {100, 2, 100, 16, 1, false}, a_second);
  CHECK(last(r, 0) == 3.0);
  CHECK(first(r, 2) == 4.0);  // the third begins when the first two are done
}

TEST_CASE("without blocks the last admitted gives its own back and computes again", "[serve]") {
  // Three blocks of 16: each prompt fills one, and takes a second with its next token.
  const BatchingResult r = simulate_batching(at_once(2, 16, 10), {100, 8, 3, 16, 1, false}, a_second);
  CHECK(r.preemptions == 1);
  CHECK(r.requests[0].preemptions == 0);
  CHECK(r.requests[1].preemptions == 1);
  // A: steps 1 to 10. B made one token in step 1, was preempted in step 2, and computes its 17 tokens again in step 11,
  // which gives the second; eight more.
  CHECK(last(r, 0) == 10.0);
  CHECK(first(r, 1) == 1.0);
  CHECK(last(r, 1) == 19.0);
  CHECK(r.most_blocks == 3);
}

TEST_CASE("an engine that reserves never preempts", "[serve]") {
  const BatchingResult r = simulate_batching(at_once(2, 16, 10), {100, 8, 3, 16, 1, true}, a_second);
  CHECK(r.preemptions == 0);
  CHECK(first(r, 1) == 11.0);
}

TEST_CASE("attention groups share steps and split requests", "[serve]") {
  const BatchingResult one = simulate_batching(at_once(4, 8, 5), {100, 2, 100, 16, 1, false}, a_second);
  const BatchingResult two = simulate_batching(at_once(4, 8, 5), {100, 2, 100, 16, 2, false}, a_second);
  CHECK(one.end.in(second) == 10.0);
  CHECK(two.end.in(second) == 5.0);
}

TEST_CASE("every request gets its tokens, in order, within its blocks", "[serve]") {
  const std::uint64_t seed = GENERATE(1, 2, 3, 4, 5);
  CAPTURE(seed);
  std::vector<ServedRequest> trace = poisson_requests(60, 0.4, 40, 30, seed);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    trace[i].input = 1 + static_cast<std::uint32_t>(random_bits(seed, 1, i) % 80);
    trace[i].output = 1 + static_cast<std::uint32_t>(random_bits(seed, 2, i) % 60);
  }
  const BatchingLimits limits{32, 7, 12, 16, 1, false};
  double tokens = 0.0;
  const BatchingResult r = simulate_batching(trace, limits, [&](const StepShape& s) {
    CHECK(s.sequences + s.chunk <= 32.0);
    tokens += s.sequences + s.finished;
    return Seconds::of(0.25);
  });
  CHECK(r.most_blocks <= limits.blocks);
  double made = 0.0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    CHECK(r.requests[i].first_token > trace[i].arrival);
    // A token needs a step.
    CHECK(last(r, i) - first(r, i) >= 0.25 * (trace[i].output - 1.0) - 1e-9);
    made += trace[i].output;
  }
  // Each step's decoded tokens and finished prompts are the tokens made; one that was preempted finishes its tokens
  // again, which makes the next.
  CHECK(tokens == made);
  CHECK(simulate_batching(trace, limits, [](const StepShape&) { return Seconds::of(0.25); }).requests == r.requests);
}

TEST_CASE("300 requests of 500 tokens take below twenty seconds, tables of times included", "[serve]") {
  const Served s = served("llama-3.1-8b", "h100:1");
  const auto begin = std::chrono::steady_clock::now();
  StepTimes steps(s.pricer(), s.engine.costs);
  const BatchingResult r = simulate_batching(poisson_requests(300, 0.05, 500, 500, 1), {2048, 256, 30000, 16, 1, false},
                                             [&](const StepShape& x) { return steps(x); });
  CHECK(r.steps > 100000);  // hardly two are under way at once
  // 0.1 s in a release on an idle core; address checks and a busy machine take some times that.
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 20.0);
}

// Between its points a table of times is a line; the step's time is one too, but for where an op turns from bytes to
// products.
TEST_CASE("tabled step times are those of the pricer", "[serve]") {
  const Served s = served("gpt-oss-20b", "h100:1");
  StepTimes steps(s.pricer(), s.engine.costs, 1.25);
  for (const double keys : {10.0, 100.0, 1000.5, 3333.0}) {
    const StepShape shape{17.0, keys};
    CHECK(steps(shape).in(second) ==
          Approx(1.25 * step_time(s.pricer().work(shape), s.engine.costs).in(second)).epsilon(0.01));
  }
}
