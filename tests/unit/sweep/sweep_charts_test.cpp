#include "sweep/sweep_charts.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

namespace {

SweepAxis axis(const std::string& key, const std::string& list) {
  std::string why;
  return *sweep_axis(*sweep_key_named(key), list, why);
}

/// Every point is found but one; n devices do n million tokens a second.
std::vector<SweptPoint> swept(const SweepPoints& points, std::size_t lost) {
  std::vector<SweptPoint> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    SweptPoint p;
    p.number = i;
    p.values = points.rows[i];
    if (i != lost) {
      p.state = SweptPoint::State::found;
      p.figures.emplace();
      p.figures->gpus = std::stoull(points.value(i, "gpus"));
      p.figures->step_s = 1.0 + static_cast<double>(i);
      p.figures->cost_per_step = 10.0 - static_cast<double>(i % 3);
      p.figures->tokens_per_s = 1e6 * static_cast<double>(p.figures->gpus);
      p.figures->tokens_per_step = 1e6;
    }
    out.push_back(std::move(p));
  }
  return out;
}

}  // namespace

TEST_CASE("scaling curves are over devices, a line for each batch, a chart for each length", "[unit][sweep]") {
  const SweepPoints points = sweep_points({{axis("gpus", "8,16,32"), axis("seq", "1k,2k"), axis("batch", "4,8")}});
  const std::vector<Chart> charts = sweep_charts(points, swept(points, 3), {}, {});
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].title == "Scaling over gpus: sequence 1024");
  REQUIRE(charts[0].series.size() == 2);
  CHECK(charts[0].series[0].name == "batch 4");
  CHECK(charts[0].series[0].points == std::vector<Series::Point>{{8.0, 8e6}, {16.0, 16e6}, {32.0, 32e6}});
  CHECK(charts[1].series[1].points.size() == 2);  // the point without a plan is not drawn
}

TEST_CASE("a front is drawn with the other points beside it", "[unit][sweep]") {
  const SweepPoints points = sweep_points({{axis("gpus", "8,16,32"), axis("batch", "4,8")}});
  const std::vector<SweptPoint> all = swept(points, 99);
  const std::vector<const SweepMeasure*> asked = {sweep_measure_named("step-time"), sweep_measure_named("cost")};
  const std::vector<Chart> charts = sweep_charts(points, all, asked, {});
  REQUIRE(charts.size() == 2);
  const Chart& front = charts[1];
  REQUIRE(front.series.size() == 2);
  CHECK(front.series[0].line);
  CHECK(!front.series[1].line);
  CHECK(front.series[0].points.size() == pareto_front(all, asked, {}).size());
  CHECK(front.series[0].points.size() + front.series[1].points.size() == all.size());
}
