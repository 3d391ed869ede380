#pragma once

#include <cstdint>
#include <string>

#include "core/plan/plan.hpp"
#include "core/program/buffer.hpp"

namespace orrery::test {

/// Whether a segment holds experts, which the expert axis cuts anyway.
[[nodiscard]] inline bool of_experts(const ParameterTable& table, const ParameterSegment& segment) {
  for (const ParameterSlice& s : table.slices) {
    const bool inside = s.offset >= segment.offset && s.offset < segment.offset + segment.count;
    if (inside && s.name.find("ffn.experts.") != std::string::npos) return true;
  }
  return false;
}

/// Ranks among which ZeRO shards a segment: data x context, and x expert for all segments but experts.
[[nodiscard]] inline std::uint64_t shares(const Mesh& mesh, const ParameterTable& table, const ParameterSegment& s) {
  const std::uint64_t all = std::uint64_t{mesh.size(Axis::data)} * mesh.size(Axis::context);
  return of_experts(table, s) ? all : all * mesh.size(Axis::expert);
}

/// Elements of a table that one of them holds; all without ZeRO.
[[nodiscard]] inline std::uint64_t share_of(const Mesh& mesh, const ParameterTable& table, bool zero) {
  std::uint64_t n = 0;
  for (const ParameterSegment& s : table.segments) n += zero ? s.count / shares(mesh, table, s) : s.count;
  return n;
}

}  // namespace orrery::test
