#include "tests/perf/thresholds.hpp"

#include <catch2/catch.hpp>

#include "core/base/diagnostics.hpp"

using namespace orrery;
using namespace orrery::perf;

namespace {

// Two repetitions each and an aggregate that must not count.  The yardstick's best is 2 ms.
const char* const output = R"({"benchmarks": [
  {"name": "yardstick", "run_type": "iteration", "cpu_time": 3.0, "time_unit": "ms"},
  {"name": "yardstick", "run_type": "iteration", "cpu_time": 2000.0, "time_unit": "us"},
  {"name": "plans", "run_type": "iteration", "items_per_second": 900.0},
  {"name": "plans", "run_type": "iteration", "items_per_second": 1000.0},
  {"name": "plans_mean", "run_type": "aggregate", "items_per_second": 9000.0},
  {"name": "search/0/real_time", "run_type": "iteration", "real_time": 500.0, "time_unit": "ms", "peak_bytes": 6e8},
  {"name": "search/0/real_time", "run_type": "iteration", "real_time": 400.0, "time_unit": "ms", "peak_bytes": 6e8}
]})";

Verdict judge_one(const Threshold& t) {
  static Threshold kept;
  kept = t;
  return judge({kept}, {output}).front();
}

constexpr auto least = Threshold::Side::least;
constexpr auto most = Threshold::Side::most;

}  // namespace

TEST_CASE("a benchmark passes when its best repetition reaches the value", "[perf]") {
  CHECK(judge_one({"", "plans", "items_per_second", least, 1000.0}).passed);
  CHECK_FALSE(judge_one({"", "plans", "items_per_second", least, 1001.0}).passed);
  // 1000 of 1250 is a ratio of 0.8.
  CHECK(judge_one({"", "plans", "items_per_second", least, 1250.0, 0.8}).passed);
  CHECK_FALSE(judge_one({"", "plans", "items_per_second", least, 1250.0, 0.81}).passed);
}

TEST_CASE("times are compared in seconds, and counters as they are", "[perf]") {
  const Verdict time = judge_one({"", "search/0", "real_time", most, 0.5});
  CHECK(time.passed);
  CHECK(*time.measured == Approx(0.4));
  CHECK(time.ratio == Approx(1.25));
  CHECK_FALSE(judge_one({"", "search/0", "real_time", most, 0.39}).passed);
  CHECK_FALSE(judge_one({"", "search/0", "peak_bytes", most, 5e8}).passed);
}

TEST_CASE("a recorded figure counts in runs of the yardstick", "[perf]") {
  // 1000 a second are 2 in the 2 ms of one run; 400 ms are 200 runs.
  CHECK(*judge_one({"", "plans", "items_per_second", least, 1.0, 1.0, true}).measured == Approx(2.0));
  CHECK(*judge_one({"", "search/0", "real_time", most, 1.0, 1.0, true}).measured == Approx(200.0));
}

TEST_CASE("a figure that was not measured does not pass", "[perf]") {
  for (const Threshold& t : {Threshold{"", "gone", "real_time", most, 1.0}, {"", "plans", "gone", least, 1.0}}) {
    const Verdict v = judge_one(t);
    CHECK_FALSE(v.measured);
    CHECK_FALSE(v.passed);
  }
  const Threshold t{"rate", "plans", "items_per_second", least, 1001.0, 1.0, false, "a paper"};
  CHECK(table(judge({t}, {output})).find("FAILED\n    a paper\n") != std::string::npos);
  CHECK_THROWS_AS(judge({t}, {"{"}), Error);
  CHECK_THROWS_AS(judge({t}, {"{}"}), Error);
}

TEST_CASE("the thresholds in use can be read and name a source each", "[perf]") {
  const auto thresholds = read_thresholds(ORRERY_SOURCE_DIR "/tests/perf/thresholds.toml");
  CHECK(thresholds.size() >= 8);
  CHECK_THROWS_AS(read_thresholds(ORRERY_SOURCE_DIR "/tests/perf/CMakeLists.txt"), Error);
}
