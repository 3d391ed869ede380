#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "core/record/live_memory.hpp"
#include "gui/model/timeline_strip.hpp"
#include "tests/gui/demo_step.hpp"

using namespace orrery;
using namespace orrery::gui;

namespace {

/// Slices of random lengths and gaps, some far shorter than a pixel, some longer than many.
TimelineLane random_lane(std::mt19937_64& random, int count) {
  TimelineLane lane;
  std::int64_t clock = 0;
  for (int i = 0; i < count; ++i) {
    if (random() % 3 == 0) clock += static_cast<std::int64_t>(random() % 5'000);
    const auto length = static_cast<std::int64_t>(random() % 8 == 0 ? random() % 90'000 : 1 + random() % 900);
    Slice s{clock,
            clock + std::max<std::int64_t>(1, length),
            OpId{static_cast<std::uint32_t>(i)},
            0,
            static_cast<std::uint32_t>(random() % 11),
            0,
            static_cast<SliceKind>(random() % slice_kind_count)};
    clock = s.end;
    lane.slices.push_back(s);
  }
  return lane;
}

/// The result of strip(), worked out pixel by pixel from every slice.
std::vector<StripPixel> naive_strip(const TimelineLane& lane, const TimeAxis& axis, SliceColour colour) {
  std::vector<StripPixel> out;
  for (int x = 0; x < axis.width; ++x) {
    const std::int64_t begin = axis.time_of(x), end = axis.time_of(x + 1);
    std::array<std::int64_t, colour_key_count> time{};
    std::int64_t busy = 0;
    for (const Slice& s : lane.slices) {
      const std::int64_t inside = std::min(s.end, end) - std::max(s.start, begin);
      if (inside <= 0) continue;
      time[colour_key(s, colour)] += inside;
      busy += inside;
    }
    const auto most = std::max_element(time.begin(), time.end());
    if (busy == 0) {
      out.push_back({});
    } else {
      out.push_back({static_cast<std::uint8_t>(most - time.begin()),
                     static_cast<float>(static_cast<double>(busy) / static_cast<double>(end - begin))});
    }
  }
  return out;
}

}  // namespace

TEST_CASE("the strip of a lane is what a look at every slice gives", "[gui][oracle]") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 40; ++round) {
    const TimelineLane lane = random_lane(random, 400);
    const std::int64_t last = lane.slices.back().end;
    const auto from = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(last));
    const TimeRange range = clamped({from, from + static_cast<std::int64_t>(random() % 3'000'000)}, last + 1000);
    const TimeAxis axis{range, 1 + static_cast<int>(random() % 700)};
    const SliceColour colour = round % 2 == 0 ? SliceColour::kind : SliceColour::microbatch;
    CAPTURE(round, range.start, range.end, axis.width);
    CHECK(strip(lane, axis, colour) == naive_strip(lane, axis, colour));
  }
}

TEST_CASE("wide slices are all of those, in order", "[gui][oracle]") {
  std::mt19937_64 random(12);
  const TimelineLane lane = random_lane(random, 3000);
  const TimeRange range{50'000, 3'000'000};
  std::vector<std::uint32_t> seen, expected;
  for_each_wide(lane, range, 5'000, [&](const Slice& s) { seen.push_back(index(s.op)); });
  for (const Slice& s : lane.slices) {
    if (s.end > range.start && s.start < range.end && s.end - s.start >= 5'000) expected.push_back(index(s.op));
  }
  CHECK(seen == expected);
}

TEST_CASE("the slice at a time is the one that covers it", "[gui][oracle]") {
  std::mt19937_64 random(13);
  const TimelineLane lane = random_lane(random, 200);
  for (std::int64_t t = -5; t < lane.slices.back().end + 5; t += 137) {
    const auto covers =
        std::find_if(lane.slices.begin(), lane.slices.end(), [&](const Slice& s) { return s.start <= t && t < s.end; });
    const Slice* expected = covers == lane.slices.end() ? nullptr : &*covers;
    CHECK(slice_at(lane, t) == expected);
  }
  CHECK(slice_at(TimelineLane{}, 0) == nullptr);
}

TEST_CASE("a timeline has every op that takes time, once, and no two of a lane overlap", "[gui][oracle]") {
  const DemoStep& step = demo_step();
  std::uint64_t spans = 0;
  for (const RankTrace& rank : step.simulation.trace.ranks) {
    const auto& slots = step.prediction.program->classes[class_of(*step.prediction.program, rank.rank)].step;
    for_each_op(*step.prediction.program, slots, [&](const OpRun& run) {
      const Span s = rank.spans[index(run.id)];
      spans += is_timed(*run.op) && s.end > s.start ? 1 : 0;
    });
  }
  CHECK(step.timeline.slices == spans);
  for (const TimelineRank& rank : step.timeline.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      bool apart = true;
      for (std::size_t i = 1; i < lane.slices.size(); ++i) apart &= lane.slices[i - 1].end <= lane.slices[i].start;
      CHECK(apart);
    }
  }
  CHECK(static_cast<double>(step.timeline.duration) * 1e-12 ==
        Approx(step.simulation.report.step_time.base()).epsilon(1e-9));
}

TEST_CASE("busy and idle time of the compute lanes fill the step, and are the report's", "[gui][oracle]") {
  const DemoStep& step = demo_step();
  double idle = 0.0;
  for (const TimelineRank& rank : step.timeline.ranks) {
    std::int64_t busy = 0, gaps = 0;
    for (const Slice& s : rank.lanes.front().slices) busy += s.end - s.start;
    for (const IdleRange& gap : rank.idle) gaps += gap.range.length();
    CHECK(busy + gaps == step.timeline.duration);
    idle += static_cast<double>(gaps) * 1e-12;
  }
  // Classes are equally large here, so the mean over traced ranks is that over all.
  const Report& r = step.simulation.report;
  const double mean = idle / static_cast<double>(step.timeline.ranks.size());
  CHECK(mean == Approx((r.step_time - r.compute).base()).epsilon(1e-9));
  // The bubble of the report is what is shaded as bubble, with moving messages included; the rest are collectives.
  double bubble = 0.0, waits = 0.0;
  for (const TimelineRank& rank : step.timeline.ranks) {
    for (const IdleRange& gap : rank.idle) {
      const double length = static_cast<double>(gap.range.length()) * 1e-12;
      (gap.cause == IdlePart::Cause::collective ? waits : bubble) += length;
    }
  }
  const auto ranks = static_cast<double>(step.timeline.ranks.size());
  CHECK(bubble / ranks == Approx(r.bubble_fraction * r.step_time.base()).epsilon(1e-9));
  CHECK(waits / ranks == Approx(exposed_collectives(r).base()).epsilon(1e-9));
  CHECK(waits > 0.0);
}

// Buffers begin and end in issue order, so the curve's top is the maximum prefix sum of LiveMemory.
TEST_CASE("the memory curve rises to the peak of its stage and ends where it began", "[gui][oracle]") {
  const DemoStep& step = demo_step();
  const Program& program = *step.prediction.program;
  LiveMemory memory;
  memory.read(program);
  for (const TimelineRank& rank : step.timeline.ranks) {
    std::uint64_t peak = 0;
    for (const MemoryPoint& p : rank.memory) {
      CHECK(p.peak >= p.live);
      peak = std::max(peak, p.peak);
    }
    CAPTURE(index(rank.rank));
    CHECK(peak == memory.peak(program, class_of(program, rank.rank)).peak);
    CHECK(rank.memory.front().live == rank.memory.back().live);  // a step leaves live what it found
    CHECK(memory_at(rank, step.timeline.duration) == rank.memory.back().live);
  }
}

TEST_CASE("the strip of a memory curve is the most of every pixel", "[gui][oracle]") {
  std::mt19937_64 random(21);
  for (int round = 0; round < 30; ++round) {
    std::vector<MemoryPoint> points{{0, 5, 5}};
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t live = random() % 1000;
      points.push_back({points.back().time + 1 + static_cast<std::int64_t>(random() % 4'000), live,
                        std::max(points.back().live, live) + random() % 50});
    }
    const auto from = static_cast<std::int64_t>(random() % 500'000);
    const TimeAxis axis{{from, from + 40'000 + static_cast<std::int64_t>(random() % 400'000)},
                        1 + static_cast<int>(random() % 300)};
    const std::vector<std::uint64_t> strip = memory_strip(points, axis);
    for (int x = 0; x < axis.width; ++x) {
      const std::int64_t begin = axis.time_of(x), end = axis.time_of(x + 1);
      std::uint64_t most = 0;
      for (std::size_t i = 0; i < points.size(); ++i) {
        const std::int64_t until = i + 1 < points.size() ? points[i + 1].time : INT64_MAX;
        if (points[i].time >= begin && points[i].time < end) most = std::max(most, points[i].peak);
        if (points[i].time < end && until > begin) most = std::max(most, points[i].live);
      }
      CAPTURE(round, x, begin, end);
      CHECK(strip[static_cast<std::size_t>(x)] == most);
    }
  }
}

TEST_CASE("statistics of parts add up to those of the whole", "[gui][property]") {
  const DemoStep& step = demo_step();
  const std::int64_t end = step.timeline.duration, middle = end / 3;
  const auto sum = [&](TimeRange range) {
    std::map<std::string, std::int64_t> out;
    for (const KindStatistics& k : statistics(step.timeline, range)) out[k.name] += k.time;
    return out;
  };
  auto whole = sum({0, end});
  auto parts = sum({0, middle});
  for (const auto& [name, time] : sum({middle, end})) parts[name] += time;
  CHECK(whole == parts);
  std::int64_t spans = 0, counted = 0;
  for (const TimelineRank& rank : step.timeline.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      for (const Slice& s : lane.slices) spans += s.end - s.start;
    }
  }
  for (const KindStatistics& k : statistics(step.timeline, {0, end})) counted += k.idle ? 0 : k.time;
  CHECK(counted == spans);
}

TEST_CASE("pixels and times go into each other", "[gui][property]") {
  const TimeAxis axis{{1'000'000, 9'000'000}, 800};
  for (int x = 0; x < axis.width; ++x) {
    // A pixel is 10,000 ps here, so its left edge is a whole time.
    CHECK(axis.x_of(axis.time_of(x)) == Approx(x).margin(1e-9));
  }
  const std::int64_t duration = 20'000'000;
  const TimeRange near = zoomed(axis.range, 3'000'000, 0.5, duration);
  CHECK(near.length() == 4'000'000);
  const TimeAxis closer{near, axis.width};
  CHECK(closer.x_of(3'000'000) == Approx(axis.x_of(3'000'000)));  // what is zoomed around stays where it is
  CHECK(zoomed(near, 3'000'000, 2.0, duration) == axis.range);
  CHECK(zoomed(axis.range, 3'000'000, 1e9, duration) == TimeRange{0, duration});
  CHECK(panned({0, 1000'000}, -0.5, duration) == TimeRange{0, 1'000'000});
  CHECK(panned({19'000'000, 20'000'000}, 2.0, duration) == TimeRange{19'000'000, 20'000'000});
}

TEST_CASE("ticks are round, apart and inside the range", "[gui]") {
  for (const std::int64_t length : {40'000LL, 7'654'321LL, 123'456'789'012LL, 16'000'000'000'000LL}) {
    const TimeAxis axis{{length / 7, length / 7 + length}, 900};
    const std::vector<Tick> all = ticks(axis, 110);
    REQUIRE(all.size() >= 2);
    CHECK(all.size() <= 900 / 110 + 1);
    std::set<std::string> labels;
    for (const Tick& t : all) {
      CHECK(t.time >= axis.range.start);
      CHECK(t.time < axis.range.end);
      labels.insert(t.label);
    }
    CHECK(labels.size() == all.size());
  }
  CHECK(time_label(1'250'000'000'000, 250'000'000'000) == "1.25 s");
  CHECK(time_label(1'000'000'000'000, 1'000'000'000'000) == "1 s");
  CHECK(time_label(40'000, 10'000) == "40 ns");
}
