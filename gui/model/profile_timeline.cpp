#include "gui/model/profile_timeline.hpp"

#include <algorithm>
#include <map>

namespace orrery::gui {

Timeline make_timeline(const Program& program, const ProfiledStep& step) {
  Timeline out;
  out.duration = step.duration;
  // Computing kinds stand first, whether they ran or not, so that one kind has the same colour in every profile.
  std::map<std::pair<WorkKind, std::uint32_t>, std::uint32_t> kinds;
  for (std::size_t k = 0; k < work_kind_count; ++k) {
    const auto kind = static_cast<WorkKind>(k);
    if (!is_transfer(kind)) kinds[{kind, 0}] = 0;
  }
  for (const ProfiledKernel& k : step.kernels) kinds[{k.kind, k.ranks}] = 0;
  for (auto& [kind, number] : kinds) {
    number = static_cast<std::uint32_t>(out.names.size());
    out.names.push_back(orrery::name_of(kind.first, kind.second));
  }
  for (const ProfiledKernel& k : step.kernels) out.kernels.push_back(k.name);
  for (const StepOfRank& of : step.ranks) {
    TimelineRank rank{of.rank, program.mesh.coordinate(of.rank, Axis::pipeline), {}, {}, {}, {}};
    const auto slice = [&](const StepRun& run) {
      const ProfiledKernel& k = step.kernels[run.kernel];
      const SliceKind kind = k.kind == WorkKind::copy       ? SliceKind::copy
                             : k.kind == WorkKind::exchange ? SliceKind::transfer
                             : is_collective(k.kind)        ? SliceKind::collective
                                                            : SliceKind::kernel;
      const OpId op{static_cast<std::uint32_t>(rank.kernels.size())};
      rank.kernels.push_back(run.kernel);
      return Slice{run.span.start, run.span.end, op, kinds.at({k.kind, k.ranks}), 0, 0, kind};
    };
    TimelineLane compute{{}, "compute", {}};
    for (const StepRun& run : computing(step, of)) compute.slices.push_back(slice(run));
    rank.lanes.push_back(std::move(compute));
    std::vector<TimelineLane> streams(of.streams.size());
    for (const StepRun& run : of.runs) {
      if (!is_transfer(step.kernels[run.kernel].kind)) continue;
      std::vector<Slice>& lane = streams[run.stream].slices;
      Slice s = slice(run);
      if (!lane.empty()) s.start = std::max(s.start, lane.back().end);  // a stream does one thing at a time
      if (s.end > s.start) lane.push_back(s);
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].slices.empty()) continue;
      streams[i].lane = {LaneKind::transfer, 0};
      streams[i].name = of.streams[i];
      rank.lanes.push_back(std::move(streams[i]));
    }
    for (const TimelineLane& lane : rank.lanes) out.slices += lane.slices.size();
    static_cast<void>(account(step, of, [&](Span span, IdlePart::Cause cause, const StepRun* run) {
      std::uint32_t name = 0;
      if (run != nullptr) {
        const ProfiledKernel& k = step.kernels[run->kernel];
        name = kinds.at({k.kind, k.ranks});
      }
      rank.idle.push_back({{span.start, span.end}, cause, name});
    }));
    out.ranks.push_back(std::move(rank));
  }
  return out;
}

}  // namespace orrery::gui
