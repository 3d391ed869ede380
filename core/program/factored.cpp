#include "core/program/factored.hpp"

#include <algorithm>

namespace orrery {

FactoredSegment factored(const ParameterTable& table, const ParameterSegment& segment, const Mesh& mesh) {
  FactoredSegment out;
  for (const ParameterSlice& s : table.slices) {
    if (s.offset < segment.offset || segment.offset + segment.count <= s.offset) continue;
    FactoredTensor t{&s, 1, 0, 1, out.count, out.matrices};
    const auto& outer = s.shard.dims[0].split;
    const bool experts = contains(outer, Axis::expert);
    std::size_t dim = 0;
    if (experts) {
      t.matrices = s.shard.dims[dim++].extent / size(mesh, outer);
      out.experts = true;
    }
    if (segment.decay) t.rows = s.shard.dims[dim++].valid;
    for (; dim < s.shard.rank; ++dim) t.columns *= s.shard.dims[dim].valid;
    out.count += t.matrices * t.each();
    out.matrices += t.matrices;
    out.tensors.push_back(t);
  }
  return out;
}

}  // namespace orrery
