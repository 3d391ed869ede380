#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/mesh.hpp"
#include "core/program/buffer.hpp"

namespace orrery {

/// The axes among `axes` that cut none of the segment's tensors, so that their ranks hold the same parameters of it.
[[nodiscard]] AxisList uncut(AxisList axes, const ParameterTable&, const ParameterSegment&);

/// The part of one segment of its table that a flat buffer holds.
struct FlatPart {
  const ParameterSegment* segment = nullptr;
  AxisList axes;            ///< the uncut axes of the buffer's flat_split, which cut this part
  std::uint64_t parts = 1;  ///< product of their sizes
  std::uint64_t first = 0;  ///< element of the buffer where it begins
  std::uint64_t count = 0;  ///< elements: segment->count / parts
  friend bool operator==(const FlatPart&, const FlatPart&) = default;
};

/// The parts of a buffer whose segments ZeRO cuts along `flat_split`, one after
/// the other, in the order of the table.  Experts that lie along one of the axes
/// are cut along the others alone.  Requires a table that outlives the result.
[[nodiscard]] std::vector<FlatPart> flat_parts(const ParameterTable&, const Mesh&, const AxisList& flat_split);

/// Elements of all of them.
[[nodiscard]] std::uint64_t flat_count(const ParameterTable&, const Mesh&, const AxisList& flat_split);

}  // namespace orrery
