#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <set>

#include "core/program/tail_history.hpp"
#include "gui/model/dependencies.hpp"
#include "gui/model/tables.hpp"
#include "tests/gui/demo_step.hpp"

using namespace orrery;
using namespace orrery::gui;

namespace {

TimelinePointer demo_timeline() { return {TimelinePointer(), &demo_step().timeline}; }

const Dependencies& demo_dependencies() {
  static const Dependencies all = [] {
    Prices prices;
    price(prices, *demo_step().prediction.program, costs_of(demo_step().prediction));
    return Dependencies(*demo_step().prediction.program, prices, demo_timeline());
  }();
  return all;
}

/// The ops that a rank's ops wait for on the same rank, straight from the Program's waits and lanes.
std::vector<std::set<std::uint32_t>> naive_waits(const Program& program, Rank rank) {
  constexpr std::uint32_t none = UINT32_MAX;
  std::vector<std::set<std::uint32_t>> out;
  TailHistory<std::uint32_t> tails(none);
  std::uint32_t run = none, first = 0;
  for_each_op(program, program.classes[class_of(program, rank)].step, [&](const OpRun& r) {
    if (r.block_run != run) {
      run = r.block_run;
      first = index(r.id);
      tails.enter(r.receives_ahead);
    }
    std::set<std::uint32_t>& before = out.emplace_back();
    if (!is_timed(*r.op)) return;
    const std::size_t lane = lane_number(r.op->lane);
    before.insert(tails.last(lane));
    for (std::uint32_t w = r.op->waits.first; w < r.op->waits.first + r.op->waits.count; ++w) {
      const Wait& wait = r.block->waits[w];
      before.insert(wait.kind == Wait::Kind::tail ? tails.at_entry(lane_number(wait.lane)) : first + wait.op);
    }
    before.erase(none);
    tails.issued(lane, index(r.id));
  });
  return out;
}

}  // namespace

TEST_CASE("what an op waited for on its rank is what the Program says, and ended before it began", "[gui][oracle]") {
  const Timeline& timeline = demo_step().timeline;
  for (std::uint32_t r = 0; r < timeline.ranks.size(); ++r) {
    const auto expected = naive_waits(*demo_step().prediction.program, timeline.ranks[r].rank);
    for (std::uint32_t op = 0; op < expected.size(); op += 7) {
      std::set<std::uint32_t> found;
      std::int64_t latest = -1, marked = -1;
      const auto here = place_of(timeline, {r, OpId{op}});
      for (const Dependency& d : demo_dependencies().waited_for({r, OpId{op}})) {
        CHECK(d.to == OpPlace{r, OpId{op}});
        if (d.kind != Dependency::Kind::lane && d.kind != Dependency::Kind::wait) continue;
        found.insert(index(d.from.op));
        const auto from = place_of(timeline, d.from);
        if (!from || !here) continue;
        const std::int64_t end = slice_of(timeline, *from).end;
        CHECK(end <= slice_of(timeline, *here).start);
        latest = std::max(latest, end);
        if (d.last) marked = end;
      }
      CAPTURE(r, op);
      CHECK(found == expected[op]);
      if (here) CHECK(marked == latest);
    }
  }
}

TEST_CASE("who waits for an op is who says that it waited for it", "[gui][property]") {
  const Timeline& timeline = demo_step().timeline;
  std::mt19937 random(5);
  std::set<Dependency::Kind> kinds;
  const SliceQuery messages(timeline, "exchange");
  std::optional<SlicePlace> message;
  for (int round = 0; round < 400; ++round) {
    const auto r = static_cast<std::uint32_t>(random() % timeline.ranks.size());
    const std::size_t ops = demo_step().simulation.trace.ranks[r].spans.size();
    OpPlace place{r, OpId{static_cast<std::uint32_t>(random() % ops)}};
    if (round % 4 == 0) {  // of which there are few
      message = next_match(timeline, messages, message, true);
      place = op_of(timeline, *message);
    }
    for (const Dependency& d : demo_dependencies().waited_by(place)) {
      const auto back = demo_dependencies().waited_for(d.to);
      CAPTURE(r, index(place.op), name_of(d.kind), index(d.to.op));
      CHECK(std::any_of(back.begin(), back.end(),
                        [&](const Dependency& b) { return b.from == place && b.kind == d.kind; }));
      kinds.insert(d.kind);
    }
    for (const Dependency& d : demo_dependencies().waited_for(place)) {
      const auto on = demo_dependencies().waited_by(d.from);
      CHECK(std::any_of(on.begin(), on.end(), [&](const Dependency& b) { return b.to == place && b.kind == d.kind; }));
    }
  }
  CHECK(kinds.count(Dependency::Kind::lane) == 1);
  CHECK(kinds.count(Dependency::Kind::wait) == 1);
  CHECK(kinds.count(Dependency::Kind::message) == 1);
}

TEST_CASE("the critical path on the timeline goes on without a gap to the end of the step", "[gui][property]") {
  const Timeline& timeline = demo_step().timeline;
  const CriticalPath& path = *demo_step().simulation.critical_path;
  const std::vector<PathMark> marks = path_marks(timeline, path);
  REQUIRE(marks.size() == path.steps.size());
  std::int64_t clock = 0;
  for (const PathMark& m : marks) {
    CHECK(m.start == clock);
    clock = m.end;
    const Slice& s = slice_of(timeline, m.place);
    CHECK(s.end == m.end);
  }
  CHECK(clock == timeline.duration);
  StepAnalysis analysis;
  analysis.path = path;
  analysis.gains = demo_step().simulation.gains;
  const TableContent quick = path_table(analysis);
  analysis.complete = true;
  const TableContent whole = path_table(analysis);
  CHECK(whole.rows.size() == quick.rows.size() + 1);  // all kernels together
  double sum = 0.0;
  for (const CellRow& row : quick.rows) sum += *row.cells[1].order;
  CHECK(sum == Approx(static_cast<double>(timeline.duration) * 1e-12));
}

TEST_CASE("a search finds what a look at every slice finds, forwards and backwards", "[gui][oracle]") {
  const Timeline& timeline = demo_step().timeline;
  const std::string rank = std::to_string(index(timeline.ranks.back().rank));
  const std::vector<std::string> texts{"optimizer", "exchange stage 1", "GEMM microbatch 3 layer 5 rank " + rank,
                                       "no such",   "gemm backward",    "op 400"};
  for (const std::string& text : texts) {
    const SliceQuery query(timeline, text);
    std::vector<SlicePlace> expected;
    for (std::uint32_t r = 0; r < timeline.ranks.size(); ++r) {
      for (std::uint32_t l = 0; l < timeline.ranks[r].lanes.size(); ++l) {
        for (std::uint32_t s = 0; s < timeline.ranks[r].lanes[l].slices.size(); ++s) {
          if (query.matches(timeline.ranks[r], timeline.ranks[r].lanes[l].slices[s])) expected.push_back({r, l, s});
        }
      }
    }
    std::stable_sort(expected.begin(), expected.end(), [&](const SlicePlace& a, const SlicePlace& b) {
      return slice_of(timeline, a).start < slice_of(timeline, b).start;
    });
    CAPTURE(text, expected.size());
    CHECK(count_matches(timeline, query) == expected.size());
    if (text == "no such") CHECK(expected.empty());
    std::optional<SlicePlace> at;
    const std::size_t some = std::min<std::size_t>(expected.size(), 50);
    for (std::size_t i = 0; i < some; ++i) {
      at = next_match(timeline, query, at, true);
      REQUIRE(at);
      CHECK(*at == expected[i]);
    }
    if (expected.empty()) continue;
    CHECK(next_match(timeline, query, expected.back(), true) == expected.front());  // goes round
    CHECK(next_match(timeline, query, expected.front(), false) == expected.back());
    CHECK(next_match(timeline, query, std::nullopt, false) == expected.back());
  }
  CHECK(SliceQuery(timeline, "  ").is_empty());
}

TEST_CASE("events step through every start, forwards and backwards", "[gui][oracle]") {
  const Timeline& timeline = demo_step().timeline;
  std::set<std::int64_t> starts;
  for (const TimelineRank& rank : timeline.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      for (const Slice& s : lane.slices) starts.insert(s.start);
    }
  }
  std::optional<std::int64_t> now = -1;
  auto expected = starts.begin();
  for (int i = 0; i < 300 && expected != starts.end(); ++i, ++expected) {
    now = next_event(timeline, *now);
    REQUIRE(now);
    CHECK(*now == *expected);
    if (expected != starts.begin()) CHECK(previous_event(timeline, *now) == *std::prev(expected));
  }
  CHECK_FALSE(next_event(timeline, *starts.rbegin()));
  CHECK_FALSE(previous_event(timeline, *starts.begin()));
  for (std::uint32_t r = 0; r < timeline.ranks.size(); ++r) {
    for (std::uint32_t l = 0; l < timeline.ranks[r].lanes.size(); ++l) {
      for (std::uint32_t s = 0; s < timeline.ranks[r].lanes[l].slices.size(); s += 11) {
        CHECK(place_of(timeline, op_of(timeline, {r, l, s})) == SlicePlace{r, l, s});
      }
    }
  }
}
