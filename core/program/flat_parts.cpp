#include "core/program/flat_parts.hpp"

namespace orrery {

AxisList uncut(AxisList axes, const ParameterTable& table, const ParameterSegment& segment) {
  for (const ParameterSlice& slice : table.slices) {
    if (slice.offset < segment.offset || slice.offset >= segment.offset + segment.count) continue;
    for (std::size_t d = 0; d < slice.shard.rank; ++d) {
      for (const Axis axis : slice.shard.dims[d].split) axes = without(axes, axis);
    }
  }
  return axes;
}

std::vector<FlatPart> flat_parts(const ParameterTable& table, const Mesh& mesh, const AxisList& flat_split) {
  std::vector<FlatPart> out;
  out.reserve(table.segments.size());
  std::uint64_t first = 0;
  for (const ParameterSegment& s : table.segments) {
    const AxisList axes = flat_split.empty() ? flat_split : uncut(flat_split, table, s);
    const std::uint64_t parts = size(mesh, axes);
    out.push_back({&s, axes, parts, first, s.count / parts});
    first += s.count / parts;
  }
  return out;
}

std::uint64_t flat_count(const ParameterTable& table, const Mesh& mesh, const AxisList& flat_split) {
  if (flat_split.empty()) return table.count;
  std::uint64_t count = 0;
  for (const FlatPart& p : flat_parts(table, mesh, flat_split)) count += p.count;
  return count;
}

}  // namespace orrery
