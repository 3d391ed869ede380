#include "core/record/device_room.hpp"

#include <algorithm>
#include <optional>

#include "core/spec/node_kinds.hpp"

namespace orrery {

std::vector<ClassDevice> class_devices(const PlannedRun& run, const Program& program) {
  std::vector<ClassDevice> out(program.classes.size());
  if (!run.cluster) return out;
  const ClusterSpec& cluster = *run.cluster;
  const auto on = [&](std::uint32_t kind) {
    return ClassDevice{kind, static_cast<std::uint64_t>(device_of(cluster, kind).memory.base())};
  };
  if (!is_mixed(cluster)) {
    out.assign(out.size(), on(0));
    return out;
  }
  std::vector<bool> known(out.size(), false);
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    const std::uint32_t device = run.plan.placement.empty() ? r : run.plan.placement[r];
    const ClassDevice here = on(kind_of_device(cluster, device));
    const std::uint32_t c = class_of(program, Rank{r});
    if (!known[c] || here.memory < out[c].memory) out[c] = here;
    known[c] = true;
  }
  return out;
}

void add_device_room(Report& report, const PlannedRun& run, const Program& program) {
  const std::vector<ClassDevice> devices = class_devices(run, program);
  std::optional<std::int64_t> least_left;
  for (std::size_t c = 0; c < std::min(devices.size(), report.memory_by_stage.size()); ++c) {
    if (devices[c].memory == 0) continue;
    StageMemory& stage = report.memory_by_stage[c];
    stage.capacity = devices[c].memory;
    const std::int64_t left = static_cast<std::int64_t>(devices[c].memory) - static_cast<std::int64_t>(stage.peak);
    report.fits = report.fits && left >= 0;
    if (least_left && *least_left <= left) continue;
    least_left = left;
    report.memory_capacity_bytes = devices[c].memory;
  }
}

}  // namespace orrery
