#include <benchmark/benchmark.h>

#include <QImage>
#include <random>

#include "gui/model/timeline_strip.hpp"
#include "gui/widgets/timeline_view.hpp"

// Painting of a step with this many slices on 16 ranks of four lanes, at 1600 x 900, without a display:
//
//     QT_QPA_PLATFORM=offscreen perf_timeline
//
// Each picture paints all rows anew, as zooming and panning do; `cursor` paints over rows that stay.

namespace orrery::gui {
namespace {

constexpr int ranks = 16, lanes = 4;

/// Slices of random lengths, a tenth of the time idle.
TimelinePointer timeline_of(std::int64_t slices) {
  std::mt19937_64 random(1);
  auto out = std::make_shared<Timeline>();
  out->names = {"gemm", "flash attention", "all_reduce tensor"};
  out->microbatches = 64;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    TimelineRank rank{.rank = Rank{r}, .stage = r, .lanes = {}, .idle = {}, .memory = {}, .kernels = {}};
    for (std::uint8_t l = 0; l < lanes; ++l) {
      TimelineLane lane{{l == 0 ? LaneKind::compute : LaneKind::collective, l}, "lane", {}};
      std::int64_t clock = 0;
      for (std::int64_t i = 0; i < slices / (ranks * lanes); ++i) {
        const auto length = static_cast<std::int64_t>(1'000'000 + random() % 9'000'000);
        if (random() % 4 == 0) {
          const auto gap = static_cast<std::int64_t>(random() % 4'000'000);
          if (l == 0) rank.idle.push_back({{clock, clock + gap}, IdlePart::Cause::bubble, 0});
          clock += gap;
        }
        lane.slices.push_back({clock, clock + length, OpId{static_cast<std::uint32_t>(i)},
                               static_cast<std::uint32_t>(random() % 3), static_cast<std::uint32_t>(random() % 64), 0,
                               static_cast<SliceKind>(random() % slice_kind_count)});
        clock += length;
        if (l == 0) rank.memory.push_back({clock, random() % 1000, 1000});
      }
      out->duration = std::max(out->duration, clock);
      out->slices += lane.slices.size();
      rank.lanes.push_back(std::move(lane));
    }
    out->ranks.push_back(std::move(rank));
  }
  out->most_memory = 1000;
  return out;
}

struct Shown {
  explicit Shown(std::int64_t slices) : timeline(timeline_of(slices)), view(focus) {
    view.resize(1600, 900);
    focus.set_duration(timeline->duration);
    view.set_timeline(timeline);
    paint();
  }
  void paint() { view.viewport()->render(&image); }
  TimelinePointer timeline;
  Focus focus;
  TimelineView view;
  QImage image{1600, 900, QImage::Format_ARGB32_Premultiplied};
};

/// `share` is the part of the step on the screen.
void paint_share(benchmark::State& state, double share) {
  Shown shown(state.range(0));
  const std::int64_t length = static_cast<std::int64_t>(static_cast<double>(shown.timeline->duration) * share);
  std::int64_t turn = 0;
  for (auto _ : state) {
    const std::int64_t start = turn++ % 2 == 0 ? 0 : shown.timeline->duration - length;
    shown.focus.set_visible({start, start + length - 1000 * (turn % 5)});
    shown.paint();
  }
  state.counters["slices"] = static_cast<double>(shown.timeline->slices);
}

void timeline_whole(benchmark::State& state) { paint_share(state, 1.0); }
void timeline_hundredth(benchmark::State& state) { paint_share(state, 0.01); }
void timeline_cursor(benchmark::State& state) {
  Shown shown(state.range(0));
  std::int64_t at = 0;
  for (auto _ : state) {
    shown.focus.set_cursor(at = (at + shown.timeline->duration / 997) % shown.timeline->duration);
    shown.paint();
  }
}

BENCHMARK(timeline_whole)->Arg(100'000)->Arg(1'000'000)->Arg(4'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(timeline_hundredth)->Arg(100'000)->Arg(1'000'000)->Arg(4'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(timeline_cursor)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace orrery::gui
