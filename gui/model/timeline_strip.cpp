#include "gui/model/timeline_strip.hpp"

#include <algorithm>
#include <array>

namespace orrery::gui {

std::uint8_t colour_key(const Slice& slice, SliceColour colour) {
  const auto kind = static_cast<std::uint8_t>(slice.kind);
  // The names of kernels tell no pass and no microbatch, so each kind of work has a colour.
  if (slice.kind == SliceKind::kernel) {
    return static_cast<std::uint8_t>(slice_kind_count + microbatch_colours + slice.name % microbatch_colours);
  }
  if (colour == SliceColour::kind) return kind;
  const auto turn = static_cast<std::uint8_t>(slice.microbatch % microbatch_colours);
  switch (slice.kind) {
    case SliceKind::forward: return static_cast<std::uint8_t>(slice_kind_count + turn);
    case SliceKind::recompute:
    case SliceKind::backward:
    case SliceKind::weight_gradient: return static_cast<std::uint8_t>(slice_kind_count + microbatch_colours + turn);
    case SliceKind::optimizer:
    case SliceKind::collective:
    case SliceKind::transfer:
    case SliceKind::copy:
    case SliceKind::kernel: return kind;
  }
  return kind;
}

std::vector<StripPixel> strip(const TimelineLane& lane, const TimeAxis& axis, SliceColour colour) {
  std::vector<StripPixel> out(static_cast<std::size_t>(std::max(0, axis.width)));
  std::array<std::int64_t, colour_key_count> time{};
  const auto& slices = lane.slices;
  auto slice =
      std::partition_point(slices.begin(), slices.end(), [&](const Slice& s) { return s.end <= axis.range.start; });
  for (std::size_t x = 0; x < out.size(); ++x) {
    const std::int64_t begin = axis.time_of(static_cast<double>(x));
    const std::int64_t end = std::max(begin + 1, axis.time_of(static_cast<double>(x + 1)));
    std::int64_t busy = 0;
    std::uint8_t least = colour_key_count, most = 0;
    while (slice != slices.end() && slice->start < end) {
      const std::int64_t inside = std::min(slice->end, end) - std::max(slice->start, begin);
      if (inside > 0) {
        const std::uint8_t key = colour_key(*slice, colour);
        time[key] += inside;
        busy += inside;
        least = std::min(least, key);
        most = std::max(most, key);
      }
      if (slice->end > end) break;  // goes on in the next pixel
      ++slice;
    }
    if (busy == 0) continue;
    std::uint8_t key = least;
    for (std::uint8_t k = least; k <= most; ++k) {
      if (time[k] > time[key]) key = k;
    }
    std::fill(time.begin() + least, time.begin() + most + 1, 0);
    out[x] = {key, static_cast<float>(static_cast<double>(busy) / static_cast<double>(end - begin))};
  }
  return out;
}

std::vector<std::uint64_t> memory_strip(const std::vector<MemoryPoint>& points, const TimeAxis& axis) {
  std::vector<std::uint64_t> out(static_cast<std::size_t>(std::max(0, axis.width)), 0);
  auto next = std::partition_point(points.begin(), points.end(),
                                   [&](const MemoryPoint& p) { return p.time < axis.range.start; });
  std::uint64_t live = next == points.begin() ? 0 : std::prev(next)->live;
  for (std::size_t x = 0; x < out.size(); ++x) {
    const std::int64_t end =
        std::max(axis.time_of(static_cast<double>(x)) + 1, axis.time_of(static_cast<double>(x + 1)));
    std::uint64_t most = live;
    for (; next != points.end() && next->time < end; ++next) {
      most = std::max(most, next->peak);
      live = next->live;
    }
    out[x] = most;
  }
  return out;
}

void for_each_wide(const TimelineLane& lane, TimeRange range, std::int64_t least,
                   const std::function<void(const Slice&)>& visit) {
  auto s = std::partition_point(lane.slices.begin(), lane.slices.end(),
                                [&](const Slice& slice) { return slice.end <= range.start; });
  for (; s != lane.slices.end() && s->start < range.end; ++s) {
    if (s->end - s->start >= least) visit(*s);
  }
}

}  // namespace orrery::gui
