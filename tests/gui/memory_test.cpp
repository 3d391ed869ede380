#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

#include "core/record/live_memory.hpp"
#include "gui/model/memory_course.hpp"
#include "gui/model/tables.hpp"
#include "tests/gui/demo_step.hpp"

using namespace orrery;
using namespace orrery::gui;

// LiveMemory sums blocks and walks slots; the course walks the ops of the step by the times of its trace.
TEST_CASE("the course of a rank's memory has the peak of its stage, role by role", "[gui][oracle]") {
  const DemoStep& step = demo_step();
  const Program& program = *step.prediction.program;
  LiveMemory memory;
  memory.read(program);
  for (std::size_t r = 0; r < step.simulation.trace.ranks.size(); ++r) {
    const RankTrace& rank = step.simulation.trace.ranks[r];
    const std::vector<HeldMemory> course = memory_course(program, rank);
    const auto fullest = std::max_element(
        course.begin(), course.end(), [](const HeldMemory& a, const HeldMemory& b) { return a.total() < b.total(); });
    const StageMemory peak = memory.peak(program, class_of(program, rank.rank));
    CAPTURE(r);
    CHECK(fullest->total() == peak.peak);
    for (std::size_t role = 0; role < memory_role_count; ++role) {
      CHECK(fullest->held[role] == memory_in_role(peak, role));
    }
    // The course is the timeline's curve, split by role.
    for (std::size_t i = 0; i < course.size(); ++i) {
      if (i > 0) REQUIRE(course[i].time >= course[i - 1].time);
      if (i + 1 < course.size() && course[i + 1].time == course[i].time) continue;  // not yet what is left
      REQUIRE(course[i].total() == memory_at(step.timeline.ranks[r], course[i].time));
    }
  }
}

TEST_CASE("a part of a course is its fullest moment", "[gui][oracle]") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<HeldMemory> course{{0, {7, 0, 0, 0, 0}}};
    for (int i = 0; i < 200; ++i) {
      course.push_back({course.back().time + static_cast<std::int64_t>(random() % 500),
                        {random() % 100, random() % 100, 0, random() % 100, 0}});
    }
    const auto from = static_cast<std::int64_t>(random() % 20'000);
    const TimeRange range{from, from + 1 + static_cast<std::int64_t>(random() % 60'000)};
    const std::size_t parts = 1 + random() % 90;
    const std::vector<HeldMemory> seen = course_in(course, range, parts);
    REQUIRE(seen.size() == parts);
    for (std::size_t p = 0; p < parts; ++p) {
      const std::int64_t begin = seen[p].time, end = p + 1 < parts ? seen[p + 1].time : range.end + 1;
      std::uint64_t most = 0;
      for (std::size_t i = 0; i < course.size(); ++i) {
        const std::int64_t until = i + 1 < course.size() ? course[i + 1].time : INT64_MAX;
        const bool starts_in = course[i].time >= begin && course[i].time < end;
        if (starts_in || (course[i].time < begin && until >= begin)) most = std::max(most, course[i].total());
      }
      CAPTURE(round, p, begin, end);
      CHECK(seen[p].total() == most);
    }
  }
  CHECK(course_in({}, {0, 10}, 4).empty());
  CHECK(course_in({{0, {1, 0, 0, 0, 0}}}, {3, 3}, 4).empty());
}

TEST_CASE("the table of tensors has what the stage holds at its peak, and its sum", "[gui]") {
  const Prediction p = completed(demo_step().prediction);
  REQUIRE_FALSE(p.tensors.empty());
  for (const PeakTensors& stage : p.tensors) {
    const TableContent table = tensors_table(stage);
    REQUIRE(table.rows.size() == stage.tensors.size() + 1);
    double sum = 0.0;
    for (std::size_t i = 0; i < stage.tensors.size(); ++i) sum += *table.rows[i].cells[1].order;
    CHECK(sum == static_cast<double>(stage.bytes));
    CHECK(*table.rows.back().cells[1].order == sum);
    const auto in_report = std::find_if(p.report.memory_by_stage.begin(), p.report.memory_by_stage.end(),
                                        [&](const StageMemory& m) { return m.stage == stage.stage; });
    CHECK(in_report->peak >= stage.bytes);  // of the stage the fullest class of ranks
    for (const CellRow& row : table.rows) CHECK(row.cells.size() == table.headers.size());
  }
}
