#include "exec/kernels/parameter_layout.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/flat_parts.hpp"

namespace orrery {

void for_each_run(const ParameterTable& table, const Mesh& mesh, Rank rank, const AxisList& flat_split,
                  const std::function<void(const ParameterRun&)>& visit) {
  for (const FlatPart& part : flat_parts(table, mesh, flat_split)) {
    ORRERY_ASSERT(part.segment->count % part.parts == 0, part.segment->count, part.parts);
    const std::uint64_t begin = part.segment->offset + coordinate(mesh, rank, part.axes) * part.count;  // unsplit
    for (const ParameterSlice& slice : table.slices) {
      const std::uint64_t first = std::max(begin, slice.offset);
      const std::uint64_t last = std::min(begin + part.count, slice.offset + local_count(slice.shard, mesh));
      if (first >= last) continue;
      visit({&slice, part.first + (first - begin), first - slice.offset, last - first});
    }
  }
}

const ParameterSlice* slice_at(const ParameterTable& table, const Mesh& mesh, std::uint64_t at) {
  for (const ParameterSlice& slice : table.slices) {
    if (at >= slice.offset && at < slice.offset + local_count(slice.shard, mesh)) return &slice;
  }
  return nullptr;
}

std::uint64_t valid_index(const Shard& shard, const Box& box, std::uint64_t local) {
  std::uint64_t at = 0;
  std::uint64_t stride = 1;
  for (std::size_t i = shard.rank; i-- > 0;) {
    const std::uint64_t here = box.offset[i] + local % box.extent[i];
    if (here >= shard.dims[i].valid) return outside;
    at += here * stride;
    local /= box.extent[i];
    stride *= shard.dims[i].valid;
  }
  return at;
}

}  // namespace orrery
