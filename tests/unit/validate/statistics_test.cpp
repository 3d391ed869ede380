#include <catch2/catch.hpp>

#include "validate/statistics.hpp"

using namespace orrery;

TEST_CASE("an error is signed, in percent of what was measured", "[unit][validate]") {
  CHECK(error_pct(11.0, 10.0) == Approx(10.0));
  CHECK(error_pct(9.0, 10.0) == Approx(-10.0));
  CHECK(error_pct(10.0, 10.0) == 0.0);
}

TEST_CASE("no errors amount to nothing", "[unit][validate]") { CHECK(summarize_errors({}) == ErrorSummary{}); }

TEST_CASE("one error is every figure of its summary", "[unit][validate]") {
  CHECK(summarize_errors({-3.0}) == ErrorSummary{1, 3.0, 3.0, 3.0, 3.0, -3.0});
}

TEST_CASE("a summary is what one computes by hand", "[unit][validate]") {
  // Sizes in order: 1 2 3 4.  Mean 10 / 4; median (2 + 3) / 2; ceil(3.6) = 4th: 4; bias (1 - 2 + 3 - 4) / 4.
  const ErrorSummary four = summarize_errors({1.0, -2.0, 3.0, -4.0});
  CHECK(four == ErrorSummary{4, 2.5, 2.5, 4.0, 4.0, -0.5});
  // With ten sizes 1 .. 10 the 9th is p90 (0.9 x 10 is whole); with eleven the ceil(9.9) = 10th.
  std::vector<double> ten;
  for (int i = 1; i <= 10; ++i) ten.push_back(i);
  CHECK(summarize_errors(ten).p90_pct == 9.0);
  CHECK(summarize_errors(ten).median_pct == 5.5);
  ten.push_back(11.0);
  CHECK(summarize_errors(ten).p90_pct == 10.0);
  CHECK(summarize_errors(ten).median_pct == 6.0);
}
