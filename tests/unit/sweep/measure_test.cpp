#include "sweep/measure.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

using namespace orrery;

namespace {

SweptPoint point(double step, std::optional<double> cost, std::uint64_t gpus = 8) {
  SweptPoint p;
  p.state = SweptPoint::State::found;
  p.figures.emplace();
  p.figures->gpus = gpus;
  p.figures->step_s = step;
  p.figures->tokens_per_step = 1e6;
  p.figures->tokens_per_s = 1e6 / step;
  p.figures->cost_per_step = cost;
  return p;
}

const std::vector<const SweepMeasure*> step_and_cost = {sweep_measure_named("step-time"), sweep_measure_named("cost")};

/// Whether b is at least as good as a in all, and better in one; written apart from the table.
bool betters(const SweptPoint& b, const SweptPoint& a) {
  const auto& x = *b.figures;
  const auto& y = *a.figures;
  return x.step_s <= y.step_s && *x.cost_per_step <= *y.cost_per_step &&
         (x.step_s < y.step_s || *x.cost_per_step < *y.cost_per_step);
}

}  // namespace

TEST_CASE("the Pareto front is what brute force finds", "[unit][sweep]") {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> figure(1, 12);  // few values, so that many are equal
  for (int round = 0; round < 50; ++round) {
    std::vector<SweptPoint> points;
    for (int i = 0; i < 40; ++i) points.push_back(point(figure(random), figure(random)));
    const std::vector<std::size_t> front = pareto_front(points, step_and_cost, {});
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool bettered =
          std::any_of(points.begin(), points.end(), [&](const SweptPoint& other) { return betters(other, points[i]); });
      const auto same = [&](std::size_t j) {
        return points[j].figures->step_s == points[i].figures->step_s &&
               points[j].figures->cost_per_step == points[i].figures->cost_per_step;
      };
      // Every point that none betters is on the front, or an equal one that stands before it is.
      CHECK(std::any_of(front.begin(), front.end(), same) == !bettered);
    }
    for (std::size_t i = 1; i < front.size(); ++i) {
      CHECK(points[front[i]].figures->step_s > points[front[i - 1]].figures->step_s);
      CHECK(*points[front[i]].figures->cost_per_step < *points[front[i - 1]].figures->cost_per_step);
    }
  }
}

TEST_CASE("points without a figure are not on the front", "[unit][sweep]") {
  std::vector<SweptPoint> points = {point(1.0, std::nullopt), point(2.0, 3.0), point(3.0, 3.0)};
  points.emplace_back();  // refused
  CHECK(pareto_front(points, step_and_cost, {}) == std::vector<std::size_t>{1});
}

TEST_CASE("more is better where the measure says so", "[unit][sweep]") {
  const std::vector<SweptPoint> points = {point(1.0, 1.0, 8), point(0.5, 1.0, 16), point(2.0, 1.0, 16)};
  const std::vector<const SweepMeasure*> asked = {sweep_measure_named("tokens-per-s"), sweep_measure_named("gpus")};
  CHECK(pareto_front(points, asked, {}) == std::vector<std::size_t>{1, 0});
}

// 1e12 tokens are 1e6 steps of 1e6 tokens: at 0.864 s a step 864,000 s, which are 10 days, and at 2 a step 2e6.
TEST_CASE("days and cost of a whole run follow from its tokens", "[unit][sweep]") {
  const SweptPoint p = point(0.864, 2.0);
  const WholeRun run{1e12};
  CHECK(*sweep_measure_named("days")->get(*p.figures, run) == Approx(10.0));
  CHECK(*sweep_measure_named("run-cost")->get(*p.figures, run) == Approx(2e6));
  CHECK(*sweep_measure_named("cost-per-token")->get(*p.figures, run) == Approx(2.0));  // of a million
}
