#include "exec/kernels/tensor_runs.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/parameter_layout.hpp"

namespace orrery {

std::vector<TensorRun> tensor_runs(const Operand& operand, const KernelContext& context) {
  const Place& place = operand.place;
  ORRERY_ASSERT(place.table != nullptr);
  const ParameterTable& table = *place.table;
  std::vector<TensorRun> runs;
  for_each_run(table, *context.mesh, context.rank, place.flat_split, [&](const ParameterRun& run) {
    const std::uint64_t low = std::max(run.buffer_first, place.flat_first);
    const std::uint64_t high = std::min(run.buffer_first + run.count, place.flat_first + operand.count);
    if (low >= high) return;
    const auto segment = std::find_if(table.segments.rbegin(), table.segments.rend(),
                                      [&](const ParameterSegment& s) { return s.offset <= run.slice->offset; });
    const auto before = std::count_if(table.slices.begin(), table.slices.end(), [&](const ParameterSlice& s) {
      return segment->offset <= s.offset && s.offset < run.slice->offset;
    });
    runs.push_back({static_cast<std::uint64_t>(before), low - place.flat_first, high - low});
  });
  return runs;
}

}  // namespace orrery
