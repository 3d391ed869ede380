#include "core/record/device_room.hpp"

#include <algorithm>
#include <optional>

#include "core/spec/node_kinds.hpp"

namespace orrery {

std::vector<std::vector<ClassDevice>> class_devices(const PlannedRun& run, const Program& program) {
  std::vector<std::vector<ClassDevice>> out(program.classes.size(), {ClassDevice{}});
  if (!run.cluster) return out;
  const ClusterSpec& cluster = *run.cluster;
  const auto on = [&](std::uint32_t kind) {
    return ClassDevice{kind, static_cast<std::uint64_t>(device_of(cluster, kind).memory.base())};
  };
  if (!is_mixed(cluster)) {
    out.assign(out.size(), {on(0)});
    return out;
  }
  out.assign(out.size(), {});
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    const std::uint32_t device = run.plan.placement.empty() ? r : run.plan.placement[r];
    const std::uint32_t kind = kind_of_device(cluster, device);
    std::vector<ClassDevice>& kinds = out[class_of(program, Rank{r})];
    const auto same = [&](const ClassDevice& d) { return d.kind == kind; };
    if (std::none_of(kinds.begin(), kinds.end(), same)) kinds.push_back(on(kind));
  }
  return out;
}

void add_device_room(Report& report, const PlannedRun& run, const Program& program) {
  const std::vector<std::vector<ClassDevice>> devices = class_devices(run, program);
  std::optional<std::int64_t> least_left;
  for (std::size_t c = 0; c < std::min(devices.size(), report.memory_by_stage.size()); ++c) {
    std::uint64_t least = devices[c].front().memory;
    for (const ClassDevice& d : devices[c]) least = std::min(least, d.memory);
    if (least == 0) continue;
    StageMemory& stage = report.memory_by_stage[c];
    stage.capacity = least;
    const std::int64_t left = static_cast<std::int64_t>(least) - static_cast<std::int64_t>(stage.peak);
    report.fits = report.fits && left >= 0;
    if (least_left && *least_left <= left) continue;
    least_left = left;
    report.memory_capacity_bytes = least;
  }
}

}  // namespace orrery
