#pragma once

#include <cstdint>
#include <string>

#include "core/plan/plan.hpp"
#include "core/program/buffer.hpp"

namespace orrery::test {

/// Whether ranks along the axis hold other experts than those of a segment.
[[nodiscard]] inline bool other_experts(const ParameterTable& table, const ParameterSegment& segment, Axis axis) {
  for (const ParameterSlice& s : table.slices) {
    const bool inside = s.offset >= segment.offset && s.offset < segment.offset + segment.count;
    if (!inside || s.name.find("ffn.experts.") == std::string::npos) continue;
    return axis == Axis::expert || contains(s.shard.dims[0].split, axis);
  }
  return false;
}

/// Ranks among which ZeRO shards a segment: data x context x expert, but for axes along which experts differ.
[[nodiscard]] inline std::uint64_t shares(const Mesh& mesh, const ParameterTable& table, const ParameterSegment& s) {
  std::uint64_t n = 1;
  for (const Axis axis : {Axis::data, Axis::context, Axis::expert}) {
    if (!other_experts(table, s, axis)) n *= mesh.size(axis);
  }
  return n;
}

/// Elements of a table that one of them holds; all without ZeRO.
[[nodiscard]] inline std::uint64_t share_of(const Mesh& mesh, const ParameterTable& table, bool zero) {
  std::uint64_t n = 0;
  for (const ParameterSegment& s : table.segments) n += zero ? s.count / shares(mesh, table, s) : s.count;
  return n;
}

}  // namespace orrery::test
