#include "forecast/spare_nodes.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("2,048 nodes with 6.5 failures per 1,000 node-days need 22, 55 and 116 spares for 99 %", "[forecast]") {
  const double rate = 6.5 / 1000.0 / 86400.0;
  const auto spares = [&](double hours) {
    return spares_for(mean_nodes_down(2048, rate, Seconds::of(3600.0 * hours)), 0.99);
  };
  CHECK(mean_nodes_down(2048, rate, Seconds::of(86400.0)) == Approx(13.312));  // 2048 x 6.5 / 1000
  CHECK(spares(24) == 22);
  CHECK(spares(72) == 55);
  CHECK(spares(168) == 116);
}

TEST_CASE("the least number of spares is the least", "[forecast]") {
  for (const double mean : {0.001, 0.5, 3.0, 40.0, 2000.0}) {
    CAPTURE(mean);
    const std::uint64_t n = spares_for(mean, 0.99);
    CHECK(share_without_spare(mean, n) <= 0.01);
    if (n > 0) CHECK(share_without_spare(mean, n - 1) > 0.01);
  }
  CHECK(spares_for(0.0, 0.99) == 0);
}

TEST_CASE("spares of very many nodes take no time, and are the normal distribution's", "[forecast]") {
  // The 99th percentile of a normal distribution is 2.3263 deviations above its mean; skewness adds a few nodes.
  const double mean = 1e10;
  CHECK(static_cast<double>(spares_for(mean, 0.99)) == Approx(mean + 2.3263 * 1e5).margin(1e3));
  CHECK(share_without_spare(mean, 10'000'000'000) == Approx(0.5).margin(1e-3));
  CHECK(share_without_spare(mean, 9'000'000'000) == 1.0);
}
