#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// Communication of one kind and group, such as "reduce_scatter data", that compute lanes wait for.
struct ExposedOperation {
  std::string name;
  Seconds time;  ///< mean over ranks
};

/// The groups whose communication is exposed, longest first, by the rules of account() (core/record/summarize.hpp).
/// Together they are the report's exposed communication. `counts` says how many ranks each rank of the trace stands
/// for; empty: equally many.
[[nodiscard]] std::vector<ExposedOperation> exposed_operations(const Program&, const Trace&, bool concurrent_lanes,
                                                               std::span<const std::uint32_t> counts);

}  // namespace orrery
