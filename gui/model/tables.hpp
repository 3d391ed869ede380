#pragma once

#include <optional>
#include <vector>

#include "gui/model/cell_table.hpp"
#include "gui/model/metric.hpp"
#include "gui/model/services.hpp"
#include "gui/model/timeline.hpp"
#include "planner/search.hpp"

namespace orrery::gui {

/// Headers and rows of a CellTable.
struct TableContent {
  std::vector<QString> headers;
  std::vector<CellRow> rows;
};

/// A table of metrics: the value, and where there is a baseline its value and the change. Ids are metrics.
[[nodiscard]] TableContent results_table(const Prediction&, const Prediction* baseline);
/// A table of pipeline stages: what each holds at its peak, by role, and its process, with its share of the device. Ids
/// are stages.
[[nodiscard]] TableContent memory_table(const Report&);
/// Tensors that a stage holds at its peak, equal ones together, largest first; the last row is all of them.
[[nodiscard]] TableContent tensors_table(const PeakTensors&);
/// The contents of a range of the timeline.
[[nodiscard]] TableContent statistics_table(const std::vector<KindStatistics>&, TimeRange, std::size_t ranks);
/// A table of an op, the ops that it waited for and those that wait for it. Without an op it has only headers.
[[nodiscard]] TableContent dependency_table(const Timeline&, const std::optional<OpPlace>&,
                                            const std::vector<Dependency>&);
/// The critical path by kind of operation, longest first, with the gain if it took a tenth less.
[[nodiscard]] TableContent path_table(const StepAnalysis&);
/// A table of found plans, best first. Ids are numbers in the space.
[[nodiscard]] TableContent found_table(const std::vector<FoundPlan>&);

/// The roles in which tensors hold memory, in the order of the table, and the bytes of a stage in one role.
inline constexpr std::size_t memory_role_count = 5;
[[nodiscard]] QString memory_role_name(std::size_t role);
[[nodiscard]] std::uint64_t memory_in_role(const StageMemory&, std::size_t role);
/// The same with the memory of its process beside tensors: what the allocator keeps back, and the context with the
/// communicators. The parts add up to process_of().
inline constexpr std::size_t memory_part_count = memory_role_count + 2;
[[nodiscard]] QString memory_part_name(std::size_t part);
[[nodiscard]] std::uint64_t memory_in_part(const Report&, const StageMemory&, std::size_t part);

}  // namespace orrery::gui
