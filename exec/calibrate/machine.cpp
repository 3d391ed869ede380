#include <fmt/format.h>
#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "core/base/units.hpp"
#include "core/base/units_text.hpp"
#include "exec/calibrate/calibrate.hpp"

namespace orrery {

namespace {

struct Destroy {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

/// Null when hwloc cannot look at this machine.
Topology look() {
  hwloc_topology_t t = nullptr;
  if (hwloc_topology_init(&t) != 0) return nullptr;
  Topology owned(t);
  if (hwloc_topology_load(t) != 0) return nullptr;
  return owned;
}

std::string cache(hwloc_topology* t, hwloc_obj_type_t type, const char* name) {
  const hwloc_obj* o = hwloc_get_obj_by_type(t, type, 0);
  if (o == nullptr || o->attr == nullptr) return "";
  return fmt::format(", {} {}", name, short_text(Bytes::of(static_cast<double>(o->attr->cache.size))));
}

/// The memory that the system says it has. hwloc adds up its NUMA nodes, which in a virtual machine may cover only a
/// part.
std::string memory() {
  const double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return bytes > 0.0 ? fmt::format(", memory {}", short_text(Bytes::of(bytes))) : "";
}

}  // namespace

std::uint32_t usable_cores() {
  if (const Topology t = look()) {
    const int units = hwloc_bitmap_weight(hwloc_topology_get_allowed_cpuset(t.get()));
    const int bound = [&] {
      const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> set(hwloc_bitmap_alloc(), hwloc_bitmap_free);
      return hwloc_get_cpubind(t.get(), set.get(), HWLOC_CPUBIND_PROCESS) == 0 ? hwloc_bitmap_weight(set.get()) : units;
    }();
    if (std::min(units, bound) > 0) return static_cast<std::uint32_t>(std::min(units, bound));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

std::string describe_machine() {
  const std::uint32_t cores = usable_cores();
  std::string text = fmt::format("{} core{}", cores, cores == 1 ? "" : "s");
  const Topology t = look();
  if (!t) return text + memory();
  const hwloc_obj* package = hwloc_get_obj_by_type(t.get(), HWLOC_OBJ_PACKAGE, 0);
  const char* model =
      package == nullptr ? nullptr : hwloc_obj_get_info_by_name(const_cast<hwloc_obj*>(package), "CPUModel");
  if (model != nullptr) text += fmt::format(", {}", model);
  text += cache(t.get(), HWLOC_OBJ_L2CACHE, "L2") + cache(t.get(), HWLOC_OBJ_L3CACHE, "L3");
  return text + memory();
}

}  // namespace orrery
