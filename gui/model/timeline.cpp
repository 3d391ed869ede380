#include "gui/model/timeline.hpp"

#include <algorithm>
#include <array>
#include <variant>

#include "core/record/live_memory.hpp"
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

/// Numbers of operations' names, given as they come up.
class Names {
 public:
  explicit Names(std::vector<std::string>& names) : names_(names) {}
  std::uint32_t of(Operation operation) {
    std::uint32_t& known = number_[index(operation)];
    if (known == 0) {
      names_.push_back(name_of(operation));
      known = static_cast<std::uint32_t>(names_.size());
    }
    return known - 1;
  }

 private:
  std::vector<std::string>& names_;
  std::array<std::uint32_t, operation_count> number_{};  ///< plus one
};

/// Live bytes from the Alloc and Free ops of setup and step, at the instants of the trace.
std::vector<MemoryPoint> memory_of(const Program& program, const RankTrace& trace) {
  std::int64_t live = 0, peak = 0;
  const auto apply = [&](const OpRun& run) {
    const std::optional<LiveChange> change = live_change(program, *run.op);
    if (!change) return false;
    live += change->bytes;
    peak = std::max(peak, live);
    return true;
  };
  const RankClass& ranks = program.classes[class_of(program, trace.rank)];
  for_each_op(program, ranks.setup, apply);
  peak = live;
  std::vector<MemoryPoint> out{{0, static_cast<std::uint64_t>(live), static_cast<std::uint64_t>(live)}};
  for_each_op(program, ranks.step, [&](const OpRun& run) {
    if (is_timed(*run.op)) return;
    const std::int64_t time = std::max(out.back().time, trace.spans[index(run.id)].start);
    if (time > out.back().time) peak = live;
    if (!apply(run)) return;
    if (time > out.back().time) out.push_back({time, 0, 0});
    out.back().live = static_cast<std::uint64_t>(live);
    out.back().peak = static_cast<std::uint64_t>(peak);
  });
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
    case SliceKind::kernel: return "kernel";
  }
  return "";
}

Timeline make_timeline(const Program& program, const Trace& trace) {
  Timeline out;
  out.microbatches = program.microbatches;
  Names names(out.names);
  for (const RankTrace& ranks : trace.ranks) {
    TimelineRank rank{ranks.rank, program.mesh.coordinate(ranks.rank, Axis::pipeline), {}, {}, {}, {}};
    std::array<TimelineLane, lane_count> lanes;
    for_each_op(program, program.classes[class_of(program, ranks.rank)].step, [&](const OpRun& run) {
      const Span span = ranks.spans[index(run.id)];
      out.duration = std::max(out.duration, span.end);
      if (!is_timed(*run.op) || span.end <= span.start) return;
      const std::uint32_t name = names.of(operation_of(program, *run.block, *run.op));
      TimelineLane& lane = lanes[lane_number(run.op->lane)];
      lane.lane = run.op->lane;
      lane.slices.push_back(
          {span.start, span.end, run.id, name, run.microbatch, run.layer, kind_of(*run.block, *run.op)});
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
    static_cast<void>(account(program, ranks, trace.concurrent_lanes, [&](const IdlePart& part) {
      const bool named = part.cause == IdlePart::Cause::collective;
      rank.idle.push_back({{part.span.start, part.span.end}, part.cause, named ? names.of(part.operation) : 0});
    }));
    rank.memory = memory_of(program, ranks);
    for (const MemoryPoint& p : rank.memory) out.most_memory = std::max(out.most_memory, p.peak);
    out.ranks.push_back(std::move(rank));
  }
  for (TimelineRank& rank : out.ranks) {
    std::int64_t end = rank.lanes.front().slices.empty() ? 0 : rank.lanes.front().slices.back().end;
    if (!rank.idle.empty()) end = std::max(end, rank.idle.back().range.end);
    if (end < out.duration) rank.idle.push_back({{end, out.duration}, IdlePart::Cause::bubble, 0});
  }
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

std::uint64_t memory_at(const TimelineRank& rank, std::int64_t time) {
  const auto at = std::upper_bound(rank.memory.begin(), rank.memory.end(), time,
                                   [](std::int64_t t, const MemoryPoint& p) { return t < p.time; });
  return at == rank.memory.begin() ? 0 : std::prev(at)->live;
}

std::optional<std::int64_t> next_event(const Timeline& timeline, std::int64_t time) {
  std::optional<std::int64_t> out;
  for (const TimelineRank& rank : timeline.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      const Slice* s = slice_after(lane, time);
      if (s != nullptr && (!out || s->start < *out)) out = s->start;
    }
  }
  return out;
}

std::optional<std::int64_t> previous_event(const Timeline& timeline, std::int64_t time) {
  std::optional<std::int64_t> out;
  for (const TimelineRank& rank : timeline.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      const auto at = std::lower_bound(lane.slices.begin(), lane.slices.end(), time,
                                       [](const Slice& s, std::int64_t t) { return s.start < t; });
      if (at != lane.slices.begin() && (!out || std::prev(at)->start > *out)) out = std::prev(at)->start;
    }
  }
  return out;
}

std::vector<KindStatistics> statistics(const Timeline& timeline, TimeRange range) {
  // First come the names of what lanes do; then the names of what compute lanes wait for, messages, and the bubble.
  const std::size_t names = timeline.names.size();
  std::vector<KindStatistics> kinds(2 * names + 2);
  for (std::size_t n = 0; n < names; ++n) {
    kinds[n].name = timeline.names[n];
    kinds[names + n].name = "waiting for " + timeline.names[n];
  }
  kinds[2 * names].name = "bubble, a message moving";
  kinds[2 * names + 1].name = "bubble";
  for (std::size_t k = names; k < kinds.size(); ++k) kinds[k].idle = true;
  const auto add = [&](KindStatistics& k, std::int64_t start, std::int64_t end) {
    k.time += std::min(end, range.end) - std::max(start, range.start);
    ++k.count;
  };
  for (const TimelineRank& rank : timeline.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      const auto first = std::partition_point(lane.slices.begin(), lane.slices.end(),
                                              [&](const Slice& s) { return s.end <= range.start; });
      for (auto s = first; s != lane.slices.end() && s->start < range.end; ++s) add(kinds[s->name], s->start, s->end);
    }
    const auto first = std::partition_point(rank.idle.begin(), rank.idle.end(),
                                            [&](const IdleRange& i) { return i.range.end <= range.start; });
    for (auto i = first; i != rank.idle.end() && i->range.start < range.end; ++i) {
      const std::size_t kind = i->cause == IdlePart::Cause::collective ? names + i->name
                               : i->cause == IdlePart::Cause::message  ? 2 * names
                                                                       : 2 * names + 1;
      add(kinds[kind], i->range.start, i->range.end);
    }
  }
  std::erase_if(kinds, [](const KindStatistics& k) { return k.count == 0; });
  std::stable_sort(kinds.begin(), kinds.end(), [](const KindStatistics& a, const KindStatistics& b) {
    return a.idle != b.idle ? b.idle : a.time > b.time;
  });
  return kinds;
}

}  // namespace orrery::gui
