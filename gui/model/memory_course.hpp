#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/trace.hpp"
#include "gui/model/tables.hpp"
#include "gui/model/time_axis.hpp"

// The memory that a rank holds while a step runs, by role: the memory's chart over time.

namespace orrery::gui {

/// Device memory that is live from `time` on, in bytes, by role in the order of the memory's table.
struct HeldMemory {
  std::int64_t time = 0;  ///< picoseconds from the start of the step
  std::array<std::uint64_t, memory_role_count> held{};
  [[nodiscard]] std::uint64_t total() const;
  friend bool operator==(const HeldMemory&, const HeldMemory&) = default;
};

/// Every instant of the rank's step at which memory is allocated or freed, in order, the first at 0. An instant with
/// several changes has the fullest moment, and, where that is not the last, a second entry with what is left.
[[nodiscard]] std::vector<HeldMemory> memory_course(const Program&, const RankTrace&);

/// The course over a range, in `parts` of equal length: the fullest moment of each part, at the part's beginning. Empty
/// where the range or the course is.
[[nodiscard]] std::vector<HeldMemory> course_in(const std::vector<HeldMemory>&, TimeRange, std::size_t parts);

/// The table of a course.  Ids count.
[[nodiscard]] TableContent course_table(const std::vector<HeldMemory>&);

}  // namespace orrery::gui
