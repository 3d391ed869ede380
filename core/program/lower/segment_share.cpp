#include "core/program/lower/segment_share.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/flat_parts.hpp"
#include "core/program/lower/state.hpp"

namespace orrery::lowering {
namespace {

void add_lane(std::vector<Lane>& lanes, const AxisList& axes) {
  const Lane lane = lane_over(axes);
  if (!axes.empty() && std::find(lanes.begin(), lanes.end(), lane) == lanes.end()) lanes.push_back(lane);
}

/// The axes along which ranks may hold the same values of a parameter.
AxisList alike_axes(const State& s) {
  AxisList axes;
  for (const Axis axis : {Axis::context, Axis::expert, Axis::tensor, Axis::depth, Axis::row, Axis::column}) {
    if (axis == Axis::context && !contains(s.expert_axes, axis)) continue;
    if (s.shard_states && contains(s.shard_axes, axis)) continue;  // each has a part
    if (s.plan.mesh.size(axis) > 1) axes.axis[axes.count++] = axis;
  }
  return axes;
}

}  // namespace

SegmentShares segment_shares(const State& s) {
  SegmentShares out;
  const AxisList alike = alike_axes(s), split = s.shard_states ? s.shard_axes : AxisList{};
  for (const ParameterTable& table : s.program.parameter_tables) {
    std::vector<SegmentShare>& shares = out.of_table.emplace_back();
    shares.reserve(table.segments.size());
    for (const FlatPart& part : flat_parts(table, s.program.mesh, split)) {
      const AxisList sum = uncut(s.token_axes, table, *part.segment);
      AxisList left = sum;
      for (const Axis axis : part.axes) left = without(left, axis);
      shares.push_back({part.axes, sum, left, uncut(alike, table, *part.segment), part.first, part.count});
      out.left_to_sum = out.left_to_sum || !left.empty();
    }
  }
  for (const std::vector<SegmentShare>& shares : out.of_table) {
    for (const SegmentShare& share : shares) {
      if (!s.shard_states) continue;
      add_lane(out.scatter_lanes, share.own.empty() && s.zero >= 2 ? AxisList{Axis::data} : share.own);  // share_group
    }
  }
  out.gradient_sum_lanes = out.scatter_lanes;
  for (const std::vector<SegmentShare>& shares : out.of_table) {
    for (const SegmentShare& share : shares) add_lane(out.gradient_sum_lanes, share.left);
  }
  return out;
}

const SegmentShare& share_of(const State& s, const ParameterTable& table, const ParameterSegment& segment) {
  const auto number = static_cast<std::size_t>(&table - s.program.parameter_tables.data());
  ORRERY_ASSERT(number < s.shares.of_table.size(), table.module);
  const auto at = std::lower_bound(table.segments.begin(), table.segments.end(), segment.offset,
                                   [](const ParameterSegment& a, std::uint64_t offset) { return a.offset < offset; });
  ORRERY_ASSERT(at != table.segments.end() && at->offset == segment.offset, table.module, segment.offset);
  return s.shares.of_table[number][static_cast<std::size_t>(at - table.segments.begin())];
}

Operand own_part(const State& c, BufferId buffer, const ParameterSegment& s, View::Use use, std::int8_t layer_shift) {
  if (!c.shard_states) return {buffer, use, layer_shift, s.offset, s.count, {}};
  const Buffer& b = c.program[buffer];
  const SegmentShare& share = share_of(c, c.program.parameter_tables[*b.parameters], s);
  // States that are stored sharded hold only this rank's part of every segment.
  if (!b.flat_split.empty()) return {buffer, use, layer_shift, share.first, share.count, {}};
  return {buffer, use, layer_shift, s.offset, share.count, share.own};
}

GroupId share_group(State& c, const AxisList& axes) { return c.group(axes.empty() ? AxisList{Axis::data} : axes); }

Lane lane_over(const AxisList& axes) {
  if (cut_experts(axes)) return {LaneKind::collective, static_cast<std::uint8_t>(Axis::expert)};
  return {LaneKind::collective, axes.count == 1 ? static_cast<std::uint8_t>(axes.axis[0]) : all_lane};
}

}  // namespace orrery::lowering
