#include "report/folded_timeline.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration.hpp"
#include "core/record/operation.hpp"
#include "sim/des/simulate.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

struct Case {
  PlannedRun run;
  Program program;
  Simulation step;
};

Case simulated(std::uint64_t seed) {
  Case c{test::random_run(seed), {}, {}};
  c.run.cluster = test::small_cluster(static_cast<std::uint32_t>(c.run.plan.mesh.size()), 1, 64.0 * gibibyte);
  c.program = lower(c.run.model, c.run.workload, c.run.plan);
  const CostModel costs(*c.run.cluster, Calibration{}, c.run.plan.mesh, c.run.plan.placement, std::nullopt);
  c.step = simulate(c.run, c.program, costs);
  return c;
}

}  // namespace

TEST_CASE("bars lie behind each other inside the step, and every op lies in one", "[property][report]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Case c = simulated(seed);
    CAPTURE(seed);
    const std::vector<TimelineRow> rows = folded_timeline(c.program, c.step.trace);
    const auto end = static_cast<std::int64_t>(c.step.report.step_time.base() * 1e12 + 0.5);
    for (const TimelineRow& row : rows) {
      for (std::size_t i = 0; i < row.bars.size(); ++i) {
        CHECK(row.bars[i].start < row.bars[i].end);
        CHECK(row.bars[i].end <= end + 1);
        // Compute is one op at a time; lanes of communication are drawn on one row and may overlap.
        if (i > 0 && row.name.starts_with("stage")) CHECK(row.bars[i].start >= row.bars[i - 1].end);
      }
    }
    const RankTrace& first = c.step.trace.ranks.front();
    const std::string name = "stage " + std::to_string(c.program.mesh.coordinate(first.rank, Axis::pipeline));
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const TimelineRow& r) { return r.name == name; });
    REQUIRE(row != rows.end());
    for_each_op(c.program, c.program.classes[class_of(c.program, first.rank)].step, [&](const OpRun& run) {
      const Span span = first.spans[index(run.id)];
      if (!is_timed(*run.op) || run.op->lane.kind != LaneKind::compute || span.end <= span.start) return;
      CHECK(std::any_of(row->bars.begin(), row->bars.end(),
                        [&](const TimelineBar& bar) { return bar.start <= span.start && span.end <= bar.end; }));
    });
  }
}

TEST_CASE("each microbatch has a forward bar on each stage", "[unit][report]") {
  test::RandomRunLimits limits;
  limits.plain = true;
  limits.recompute = Recompute::none;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    test::RandomRunLimits own = limits;
    own.schedule = ScheduleName::one_f_one_b;
    Case c{test::random_run(seed, own), {}, {}};
    c.run.cluster = test::small_cluster(static_cast<std::uint32_t>(c.run.plan.mesh.size()), 1, 64.0 * gibibyte);
    c.program = lower(c.run.model, c.run.workload, c.run.plan);
    const CostModel costs(*c.run.cluster, Calibration{}, c.run.plan.mesh, c.run.plan.placement, std::nullopt);
    c.step = simulate(c.run, c.program, costs);
    for (const TimelineRow& row : folded_timeline(c.program, c.step.trace)) {
      if (!row.name.starts_with("stage")) continue;
      std::set<std::int32_t> forward;
      for (const TimelineBar& bar : row.bars) {
        if (bar.kind == BarKind::forward) forward.insert(bar.microbatch);
      }
      CAPTURE(seed, row.name);
      for (std::uint32_t m = 0; m < c.program.microbatches; ++m) CHECK(forward.contains(static_cast<std::int32_t>(m)));
    }
  }
}

TEST_CASE("a long step is folded to as many bars as are asked for", "[unit][report]") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Case c = simulated(seed);
    const auto count = [&](std::size_t most) {
      std::size_t bars = 0;
      for (const TimelineRow& row : folded_timeline(c.program, c.step.trace, most)) bars += row.bars.size();
      return bars;
    };
    // A row keeps one bar at least.
    const std::size_t rows = folded_timeline(c.program, c.step.trace).size();
    CHECK(count(10) <= std::max<std::size_t>(10, rows));
    CHECK(count(10) <= count(40'000));
  }
}
