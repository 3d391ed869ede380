#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gui/model/timeline.hpp"

namespace orrery::gui {

/// Shortest range of time that can be looked at: ten picoseconds for each pixel of a wide screen.
inline constexpr std::int64_t least_range = 40'000;

/// Converts times to pixels and back: `range` fills `width` pixels.
///
///     x = (t - start) width / length
struct TimeAxis {
  TimeRange range;
  int width = 1;
  [[nodiscard]] double x_of(std::int64_t time) const;
  [[nodiscard]] std::int64_t time_of(double x) const;  ///< rounded down
};

/// The range after zooming by `factor` (below 1: closer) around `time`. `time` keeps its place on the screen as far as
/// the step's ends allow.
[[nodiscard]] TimeRange zoomed(TimeRange, std::int64_t around, double factor, std::int64_t duration);
/// The range moved by a share of its own length, and held inside the step.
[[nodiscard]] TimeRange panned(TimeRange, double share, std::int64_t duration);
/// The nearest range inside [0, duration) that is no shorter than least_range or the whole step.
[[nodiscard]] TimeRange clamped(TimeRange, std::int64_t duration);

struct Tick {
  std::int64_t time = 0;
  std::string label;  ///< "1.25 s"
};
/// Round times (1, 2 or 5 times a power of ten), at most one for every `spacing` pixels. Labels have as many digits as
/// tell neighbours apart.
[[nodiscard]] std::vector<Tick> ticks(const TimeAxis&, int spacing);

/// A time in picoseconds, with `step` the smallest difference that matters.
[[nodiscard]] std::string time_label(std::int64_t time, std::int64_t step);

}  // namespace orrery::gui
