#include "core/base/units_text.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/base/random.hpp"

using namespace orrery;

namespace {

template <class Q>
Q parsed(std::string_view text) {
  Q q;
  std::string problem;
  CAPTURE(std::string(text));
  REQUIRE(parse_quantity(text, q, problem));
  return q;
}

template <class Q>
std::string refused(std::string_view text) {
  Q q;
  std::string problem;
  CAPTURE(std::string(text));
  CHECK_FALSE(parse_quantity(text, q, problem));
  return problem;
}

}  // namespace

TEST_CASE("quantities mean what their units say", "[unit][units]") {
  CHECK(parsed<Bytes>("80 GiB") == Bytes::of(80.0 * 1073741824.0));
  CHECK(parsed<Bytes>("80 GB") == Bytes::of(80e9));
  CHECK(parsed<Bytes>("0.5kB") == Bytes::of(500));
  CHECK(parsed<Bandwidth>("3.35 TB/s") == Bandwidth::of(3.35e12));
  CHECK(parsed<Bandwidth>("400 Gbit/s") == Bandwidth::of(50e9));  // 8 bits to the byte
  CHECK(parsed<FlopRate>("989 TFLOP/s") == FlopRate::of(989e12));
  CHECK(parsed<Seconds>("5 us") == Seconds::of(5e-6));
  CHECK(parsed<Seconds>("3 min") == Seconds::of(180));
}

TEST_CASE("a quantity without its unit is refused with an example", "[unit][units]") {
  CHECK(refused<Bytes>("80") == "the unit is missing; write for example \"80 GiB\"");
  CHECK(refused<Bytes>("80 Gib") == "the unit must be one of B KiB MiB GiB TiB kB MB GB TB");
  CHECK(refused<Seconds>("GiB") == "a number and a unit are needed, for example \"5 us\"");
}

TEST_CASE("numbers that are not finite are no quantities", "[unit][units]") {
  for (const char* text :
       {"nan GiB", "inf GiB", "-inf GiB", "1e999 GiB", "1e308 TiB", "", "-", "- 5 GiB", "0x10 GiB"}) {
    refused<Bytes>(text);
  }
}

TEST_CASE("the exact text of a quantity parses back to the same bits", "[unit][units]") {
  CHECK(exact_text(80.0 * gibibyte) == "80 GiB");
  CHECK(exact_text(Bandwidth::of(3.35e12)) == "3.35 TB/s");
  CHECK(exact_text(Seconds::of(5e-6)) == "5 us");
  CHECK(exact_text(Bytes{}) == "0 B");
  const std::uint64_t seed = 7;
  CAPTURE(seed);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    // Magnitudes from 1e-12 to 1e18, all digits random.
    const double value = std::pow(10.0, 30.0 * random_uniform(seed, 1, i) - 12.0);
    CAPTURE(value);
    CHECK(parsed<Seconds>(exact_text(Seconds::of(value))).base() == value);
    CHECK(parsed<Bandwidth>(exact_text(Bandwidth::of(value))).base() == value);
    CHECK(parsed<Bytes>(exact_text(Bytes::of(std::ceil(value)))).base() == std::ceil(value));
  }
}

TEST_CASE("texts for people keep three digits and a fitting unit", "[unit][units]") {
  CHECK(short_text(12.4 * gibibyte) == "12.4 GiB");
  CHECK(short_text(Bytes::of(1)) == "1 B");
  CHECK(short_text(Seconds::of(1.3149)) == "1.31 s");
  CHECK(short_text(Seconds::of(381e-6)) == "381 us");
  CHECK(short_text(Seconds::of(0.9999)) == "1.00 s");  // not 1000 ms
  CHECK(short_text(Seconds::of(0.09999999)) == "100 ms");
  CHECK(short_text(Seconds{}) == "0 s");
  CHECK(short_count(70553706496.0) == "70.6 G");
  CHECK(short_count(42) == "42");
  CHECK(with_commas(70553706496) == "70,553,706,496");
  CHECK(with_commas(999) == "999");
}
