#include "core/spec/batch_curve.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

TEST_CASE("steps and examples pay for each other", "[unit]") {
  for (const double batch : {1.0, 300.0, 5e4, 1e7}) {
    // (S / S_min - 1) (E / E_min - 1) = 1: McCandlish et al., equation 2.11.
    CHECK((steps_over_least(batch, 5e4) - 1.0) * (examples_over_least(batch, 5e4) - 1.0) == Approx(1.0));
  }
  CHECK(steps_over_least(5e4, 5e4) == 2.0);  // at the critical batch both are twice the least
}

TEST_CASE("a measured curve gives the steps of any batch", "[unit]") {
  Diagnostics d;
  const auto curve = parse_batch_curve(
      "progress,iteration,metric,grad_sqr,grad_var\n100,100,0.1,2.0,4.0\n300,300,0.2,1.0,10.0\n", "c.csv", 32, d);
  REQUIRE(curve);
  CHECK(curve->rows == std::vector<BatchCurve::Row>{{100, 64}, {300, 320}});
  CHECK(curve->steps_at(32) == Approx(300.0));
  CHECK(curve->examples_at(32) == Approx(1.0));
  // Twice the batch: 100 / 2 x 128 / 96, and 200 / 2 x 384 / 352.
  CHECK(curve->steps_at(64) == Approx(100.0 / 2 * 128 / 96 + 200.0 / 2 * 384 / 352));
  // An endless batch has the steps of 1 / (1 + phi / B0).
  CHECK(curve->steps_at(1e12) == Approx(100.0 / 3.0 + 200.0 / 11.0));
  // A curve of one noise scale is the critical batch's law.
  const BatchCurve flat{32, {{1000, 500}}};
  CHECK(flat.steps_at(4096) / 1000 == Approx(steps_over_least(4096, 500) / steps_over_least(32, 500)));
}

TEST_CASE("batch.curve: tables that are none", "[error]") {
  const auto problem = [](const std::string& text) {
    Diagnostics d;
    CHECK_FALSE(parse_batch_curve(text, "c.csv", 32, d));
    return render(d);
  };
  CHECK(problem("progress,grad_sqr\n1,2\n") == R"(c.csv:1:1: error: the table has no column grad_var [batch.curve]
    1 | progress,grad_sqr
      | ^
  It needs progress, grad_sqr and grad_var, named in its first line.
)");
  CHECK(problem("progress,grad_sqr,grad_var\n5,1,1\n5,1,1\n") ==
        R"(c.csv:3:1: error: this row of the curve cannot be used [batch.curve]
    3 | 5,1,1
      | ^
  Progress ascends from 5, grad_sqr is above 0, grad_var at least 0; a noise scale is at most 1e15.
)");
  for (const char* row : {"1,0,1", "1,1,-1", "nan,1,1", "1,1", "x,1,1", "1,1.91e-320,1"}) {
    CAPTURE(row);
    CHECK(problem("progress,grad_sqr,grad_var\n" + std::string(row)).find("cannot be used") != std::string::npos);
  }
  CHECK(problem("progress,grad_sqr,grad_var\n").find("no rows") != std::string::npos);
}
