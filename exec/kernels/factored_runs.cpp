#include "exec/kernels/factored_runs.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/flat_parts.hpp"
#include "exec/kernels/parameter_layout.hpp"

namespace orrery {

FactoredSegment factored_segment(const Operand& operand, const KernelContext& context) {
  const Place& place = operand.place;
  ORRERY_ASSERT(place.table != nullptr);
  const std::vector<FlatPart> parts = flat_parts(*place.table, *context.mesh, place.flat_split);
  const auto at = std::find_if(parts.begin(), parts.end(), [&](const FlatPart& p) {
    return p.first <= place.flat_first && place.flat_first < p.first + p.count;
  });
  ORRERY_ASSERT(at != parts.end(), place.flat_first);
  return factored(*place.table, *at->segment, *context.mesh);
}

std::vector<FactoredRun> factored_runs(const Operand& operand, const FactoredSegment& segment,
                                       const KernelContext& context) {
  const Place& place = operand.place;
  std::vector<FactoredRun> runs;
  for_each_run(*place.table, *context.mesh, context.rank, place.flat_split, [&](const ParameterRun& part) {
    const std::uint64_t low = std::max(part.buffer_first, place.flat_first);
    const std::uint64_t high = std::min(part.buffer_first + part.count, place.flat_first + operand.count);
    if (low >= high) return;
    const auto tensor = std::find_if(segment.tensors.begin(), segment.tensors.end(),
                                     [&](const FactoredTensor& t) { return t.slice == part.slice; });
    ORRERY_ASSERT(tensor != segment.tensors.end(), part.slice->name);
    const Shard& shard = part.slice->shard;
    const Box box = box_of(shard, *context.mesh, context.rank);
    FactoredRun run;
    run.first = low - place.flat_first;
    run.count = high - low;
    run.box_first = part.slice_first + (low - part.buffer_first);
    run.matrices = tensor->matrices;
    run.all_rows = tensor->rows;
    run.all_columns = tensor->columns;
    run.statistics = tensor->first;
    run.norms = tensor->first_matrix;
    std::size_t d = segment.experts ? 1 : 0;
    if (tensor->rows > 0) {
      run.rows = box.extent[d];
      run.first_row = box.offset[d];
      run.valid_rows = shard.dims[d++].valid;
    }
    for (; d < shard.rank; ++d, ++run.dims) {
      run.columns *= box.extent[d];
      run.offset[run.dims] = box.offset[d];
      run.extent[run.dims] = box.extent[d];
      run.valid[run.dims] = shard.dims[d].valid;
    }
    runs.push_back(run);
  });
  return runs;
}

}  // namespace orrery
