#include "gui/model/time_axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery::gui {

double TimeAxis::x_of(std::int64_t time) const {
  return static_cast<double>(time - range.start) * width /
         static_cast<double>(std::max<std::int64_t>(1, range.length()));
}

std::int64_t TimeAxis::time_of(double x) const {
  return range.start +
         static_cast<std::int64_t>(std::floor(x * static_cast<double>(range.length()) / std::max(1, width)));
}

TimeRange clamped(TimeRange r, std::int64_t duration) {
  const std::int64_t whole = std::max<std::int64_t>(1, duration);
  const std::int64_t length = std::clamp(r.length(), std::min(least_range, whole), whole);
  const std::int64_t start = std::clamp<std::int64_t>(r.start, 0, whole - length);
  return {start, start + length};
}

TimeRange zoomed(TimeRange r, std::int64_t around, double factor, std::int64_t duration) {
  const double length = std::clamp(static_cast<double>(r.length()) * factor,
                                   static_cast<double>(std::min(least_range, duration)), static_cast<double>(duration));
  const double share =
      static_cast<double>(around - r.start) / static_cast<double>(std::max<std::int64_t>(1, r.length()));
  const auto start = static_cast<std::int64_t>(std::llround(static_cast<double>(around) - share * length));
  return clamped({start, start + std::llround(length)}, duration);
}

TimeRange panned(TimeRange r, double share, std::int64_t duration) {
  const std::int64_t by = std::llround(share * static_cast<double>(r.length()));
  return clamped({r.start + by, r.end + by}, duration);
}

std::vector<Tick> ticks(const TimeAxis& axis, int spacing) {
  const double least = static_cast<double>(axis.range.length()) * spacing / std::max(1, axis.width);
  std::int64_t step = 1;
  for (std::int64_t power = 1; static_cast<double>(step) < least; power *= 10) {
    for (const std::int64_t digit : {1, 2, 5}) {
      step = digit * power;
      if (static_cast<double>(step) >= least) break;
    }
  }
  std::vector<Tick> out;
  for (std::int64_t t = (axis.range.start + step - 1) / step * step; t < axis.range.end; t += step) {
    out.push_back({t, time_label(t, step)});
  }
  return out;
}

std::string time_label(std::int64_t time, std::int64_t step) {
  struct Unit {
    std::int64_t size;
    const char* name;
  };
  static constexpr Unit units[] = {
      {1'000'000'000'000, "s"}, {1'000'000'000, "ms"}, {1'000'000, "us"}, {1'000, "ns"}, {1, "ps"}};
  const Unit* unit = &units[4];
  for (const Unit& u : units) {
    if (std::max(time, step) >= u.size) {
      unit = &u;
      break;
    }
  }
  int decimals = 0;
  for (std::int64_t scale = unit->size; step > 0 && scale > 1 && step % scale != 0; scale /= 10) ++decimals;
  return fmt::format("{:.{}f} {}", static_cast<double>(time) / static_cast<double>(unit->size), decimals, unit->name);
}

}  // namespace orrery::gui
