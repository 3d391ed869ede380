#include "gui/model/timeline.hpp"

#include <algorithm>
#include <array>
#include <variant>

#include "core/record/operation.hpp"

namespace orrery::gui {
namespace {

SliceKind kind_of(const Block& block, const Op& op) {
  if (const auto* compute = std::get_if<Compute>(&op.action)) {
    switch (block.kernels[compute->kernel].pass) {
      case Pass::setup:
      case Pass::loss:
      case Pass::forward: return SliceKind::forward;
      case Pass::recompute: return SliceKind::recompute;
      case Pass::input_gradient: return SliceKind::backward;
      case Pass::weight_gradient: return SliceKind::weight_gradient;
      case Pass::optimizer: return SliceKind::optimizer;
    }
  }
  if (std::holds_alternative<Exchange>(op.action)) return SliceKind::transfer;
  if (std::holds_alternative<Copy>(op.action)) return SliceKind::copy;
  return SliceKind::collective;
}

/// Between the slices of a compute lane, before and after them.
std::vector<TimeRange> idle_ranges(const TimelineLane& compute, std::int64_t duration) {
  std::vector<TimeRange> out;
  std::int64_t clock = 0;
  for (const Slice& s : compute.slices) {
    if (s.start > clock) out.push_back({clock, s.start});
    clock = std::max(clock, s.end);
  }
  if (duration > clock) out.push_back({clock, duration});
  return out;
}

}  // namespace

const char* name_of(SliceKind kind) {
  switch (kind) {
    case SliceKind::forward: return "forward";
    case SliceKind::backward: return "input gradient";
    case SliceKind::weight_gradient: return "weight gradient";
    case SliceKind::recompute: return "recompute";
    case SliceKind::optimizer: return "optimizer";
    case SliceKind::collective: return "collective";
    case SliceKind::transfer: return "between stages";
    case SliceKind::copy: return "copy";
  }
  return "";
}

Timeline make_timeline(const Program& program, const Trace& trace) {
  Timeline out;
  out.microbatches = program.microbatches;
  std::array<std::uint32_t, operation_count> names{};  // number in out.names, plus one
  for (const RankTrace& ranks : trace.ranks) {
    TimelineRank rank{ranks.rank, program.mesh.coordinate(ranks.rank, Axis::pipeline), {}, {}};
    std::array<TimelineLane, lane_count> lanes;
    for_each_op(program, program.classes[class_of(program, ranks.rank)].step, [&](const OpRun& run) {
      const Span span = ranks.spans[index(run.id)];
      out.duration = std::max(out.duration, span.end);
      if (!is_timed(*run.op) || span.end <= span.start) return;
      const Operation operation = operation_of(program, *run.block, *run.op);
      std::uint32_t& name = names[index(operation)];
      if (name == 0) {
        out.names.push_back(name_of(operation));
        name = static_cast<std::uint32_t>(out.names.size());
      }
      TimelineLane& lane = lanes[lane_number(run.op->lane)];
      lane.lane = run.op->lane;
      lane.slices.push_back(
          {span.start, span.end, run.id, name - 1, run.microbatch, run.layer, kind_of(*run.block, *run.op)});
    });
    for (TimelineLane& lane : lanes) {
      const bool compute = &lane == &lanes.front();  // there even where it does nothing
      if (lane.slices.empty() && !compute) continue;
      lane.name = name_of(lane.lane);
      std::stable_sort(lane.slices.begin(), lane.slices.end(),
                       [](const Slice& a, const Slice& b) { return a.start < b.start; });
      out.slices += lane.slices.size();
      rank.lanes.push_back(std::move(lane));
    }
    out.ranks.push_back(std::move(rank));
  }
  for (TimelineRank& rank : out.ranks) rank.idle = idle_ranges(rank.lanes.front(), out.duration);
  return out;
}

const Slice* slice_at(const TimelineLane& lane, std::int64_t time) {
  const Slice* before = slice_before(lane, time + 1);
  const Slice* first = before == nullptr ? lane.slices.data() : before;
  for (const Slice* s = first; s != lane.slices.data() + lane.slices.size() && s->start <= time; ++s) {
    if (time < s->end) return s;
  }
  return nullptr;
}

const Slice* slice_after(const TimelineLane& lane, std::int64_t time) {
  const auto at = std::upper_bound(lane.slices.begin(), lane.slices.end(), time,
                                   [](std::int64_t t, const Slice& s) { return t < s.start; });
  return at == lane.slices.end() ? nullptr : &*at;
}

const Slice* slice_before(const TimelineLane& lane, std::int64_t time) {
  const auto at = std::upper_bound(lane.slices.begin(), lane.slices.end(), time,
                                   [](std::int64_t t, const Slice& s) { return t < s.end; });
  return at == lane.slices.begin() ? nullptr : &*std::prev(at);
}

std::vector<KindStatistics> statistics(const Timeline& timeline, TimeRange range) {
  std::vector<KindStatistics> kinds(timeline.names.size());
  for (std::size_t n = 0; n < kinds.size(); ++n) kinds[n].name = timeline.names[n];
  KindStatistics idle{"compute lane idle", 0, 0, true};
  for (const TimelineRank& rank : timeline.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      const auto first = std::partition_point(lane.slices.begin(), lane.slices.end(),
                                              [&](const Slice& s) { return s.end <= range.start; });
      for (auto s = first; s != lane.slices.end() && s->start < range.end; ++s) {
        kinds[s->name].time += std::min(s->end, range.end) - std::max(s->start, range.start);
        ++kinds[s->name].count;
      }
    }
    for (const TimeRange& gap : rank.idle) {
      const std::int64_t inside = std::min(gap.end, range.end) - std::max(gap.start, range.start);
      if (inside <= 0) continue;
      idle.time += inside;
      ++idle.count;
    }
  }
  std::erase_if(kinds, [](const KindStatistics& k) { return k.count == 0; });
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const KindStatistics& a, const KindStatistics& b) { return a.time > b.time; });
  kinds.push_back(std::move(idle));
  return kinds;
}

}  // namespace orrery::gui
