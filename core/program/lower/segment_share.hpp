#pragma once

#include <cstdint>
#include <vector>

#include "core/program/lower/draft.hpp"

namespace orrery::lowering {

struct State;

/// How ranks share one segment of a parameter table, and the sum that is its gradient.
struct SegmentShare {
  AxisList own;    ///< axes over which ZeRO shares it out: those of State::shard_axes that do not cut its parameters
                   ///< anyway
  AxisList sum;    ///< axes over which ranks hold parts of the sum: those that cut tokens and none of its parameters
  AxisList left;   ///< axes of `sum` that are left to sum over once ZeRO has scattered the sums over `own`
  AxisList alike;  ///< axes of tensor parallelism, and those of experts, along which ranks hold the same values
  std::uint64_t first = 0;  ///< element where the rank's part begins in a buffer that holds such parts alone
  std::uint64_t count = 0;  ///< elements of that part
};

/// The shares of all segments, with what follows from them for a whole plan. The tables' declaration finds them once,
/// because passes ask for them for each module of each bucket of each stage.
struct SegmentShares {
  std::vector<std::vector<SegmentShare>> of_table;  ///< by parameter table and segment
  std::vector<Lane> scatter_lanes;                  ///< of the collectives over SegmentShare::own
  std::vector<Lane> gradient_sum_lanes;             ///< on which gradients are summed over token_axes
  bool left_to_sum = false;                         ///< whether any SegmentShare::left has axes
};
/// The shares of every segment of the parameter tables, which the state has.
[[nodiscard]] SegmentShares segment_shares(const State&);

/// `table` is one of the state's, and the segment (or what it is a copy of) one of the table's.
[[nodiscard]] const SegmentShare& share_of(const State&, const ParameterTable& table, const ParameterSegment&);

/// The part of a segment that this rank updates: all of it, or its share under ZeRO.
[[nodiscard]] Operand own_part(const State&, BufferId buffer, const ParameterSegment&, View::Use,
                               std::int8_t layer_shift = 0);
/// SegmentShare::own.
[[nodiscard]] inline const AxisList& own_axes(const State& s, const ParameterTable& table,
                                              const ParameterSegment& segment) {
  return share_of(s, table, segment).own;
}
/// The group of the collectives over these axes. Without axes it is a group of one rank, which keeps what it sends.
[[nodiscard]] GroupId share_group(State&, const AxisList& own_axes);
[[nodiscard]] Lane lane_over(const AxisList&);

}  // namespace orrery::lowering
