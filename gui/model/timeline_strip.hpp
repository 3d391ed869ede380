#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "gui/model/time_axis.hpp"
#include "gui/model/timeline.hpp"

namespace orrery::gui {

/// What colours a slice.
enum class SliceColour : std::uint8_t {
  microbatch,  ///< its microbatch, and whether it goes forward or backward
  kind,        ///< what it does
};
/// Colours of microbatches before they repeat.
inline constexpr std::uint8_t microbatch_colours = 8;
/// A colour key is below this: kinds first, then microbatches going forward, then backward.
inline constexpr std::size_t colour_key_count = slice_kind_count + 2 * microbatch_colours;
/// The key of a slice. By microbatch, slices without one (optimizer, collectives of gradients, copies) keep the key of
/// their kind.
[[nodiscard]] std::uint8_t colour_key(const Slice&, SliceColour);

/// One pixel of a lane.
struct StripPixel {
  std::uint8_t key = 0;  ///< the key with most time in the pixel; ties: the lower key
  float busy = 0.0F;     ///< share of the pixel's time in which the lane is busy, 0 to 1
  friend bool operator==(const StripPixel&, const StripPixel&) = default;
};

/// The lane, pixel by pixel: pixel x stands for the times from axis.time_of(x) to axis.time_of(x + 1), of which there
/// is at least one (least_range sees to it). It looks at every slice in the range once.
[[nodiscard]] std::vector<StripPixel> strip(const TimelineLane&, const TimeAxis&, SliceColour);

/// Most bytes live in each pixel's time.  The points are in order and begin at 0 or before the range.
[[nodiscard]] std::vector<std::uint64_t> memory_strip(const std::vector<MemoryPoint>&, const TimeAxis&);

/// Calls `visit` for the slices in the range that are at least `least` picoseconds long, in order.
void for_each_wide(const TimelineLane&, TimeRange, std::int64_t least, const std::function<void(const Slice&)>& visit);

}  // namespace orrery::gui
