#include <catch2/catch.hpp>

#include "exec/device/power.hpp"

using namespace orrery;

namespace {
const char* const the_gpu = "00112233445566778899aabbccddeeff";
}

TEST_CASE("a GPU's energy is read where library, GPU and counter are there", "[device]") {
  const auto counter = EnergyCounter::of(the_gpu, FAKE_NVML);
  REQUIRE(counter);
  const double before = counter->joules().value();
  CHECK(counter->joules().value() - before == Approx(1.5));
  CHECK_FALSE(EnergyCounter::of("ff112233445566778899aabbccddeeff", FAKE_NVML));
  CHECK_FALSE(EnergyCounter::of("", FAKE_NVML));
  CHECK_FALSE(EnergyCounter::of(the_gpu, "libno-such-library.so"));
  CHECK_FALSE(EnergyCounter::of(the_gpu, "libc.so.6"));  // a library without these functions
}

// The counter gains 1.5 J a look, which is once a step from the end of the warm-up on; 10 ms a step are 150 W.
TEST_CASE("power is that of the recorded steps", "[device]") {
  PowerOfRun power(EnergyCounter::of(the_gpu, FAKE_NVML).value(), 2);
  constexpr std::int64_t ms = 1'000'000;
  power.step_ended(0, 0);
  power.step_ended(1, 500 * ms);
  CHECK_FALSE(power.text());
  power.step_ended(2, 900 * ms);
  CHECK_FALSE(power.text());
  power.step_ended(3, 910 * ms);
  power.step_ended(4, 920 * ms);
  CHECK(power.text().value() == "the GPU used 150 W over 2 steps, 1.5 J a step, by its driver's counter");
}
