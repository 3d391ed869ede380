#include "sim/net/import/gpu_links.hpp"

#include <algorithm>

namespace orrery::importing {

const std::vector<GpuLinks>& gpu_links() {
  static const std::vector<GpuLinks> all{
      {"p100", 60, Bandwidth::of(20e9), 4, Bandwidth::of(15.75e9)},
      {"v100", 70, Bandwidth::of(25e9), 6, Bandwidth::of(15.75e9)},
      {"a100", 80, Bandwidth::of(25e9), 12, Bandwidth::of(31.5e9)},
      {"h100", 90, Bandwidth::of(25e9), 18, Bandwidth::of(63e9)},
      {"h200", 90, Bandwidth::of(25e9), 18, Bandwidth::of(63e9)},
      {"b200", 100, Bandwidth::of(50e9), 18, Bandwidth::of(63e9)},
      {"gb200", 100, Bandwidth::of(50e9), 18, Bandwidth::of(63e9)},
      {"b300", 103, Bandwidth::of(50e9), 18, Bandwidth::of(63e9)},
  };
  return all;
}

std::string gpu_link_names() {
  std::string out;
  for (const GpuLinks& g : gpu_links()) out += (out.empty() ? "" : ", ") + std::string(g.name);
  return out;
}

const GpuLinks* gpu_links_named(std::string_view name) {
  const auto& all = gpu_links();
  const auto found = std::find_if(all.begin(), all.end(), [&](const GpuLinks& g) { return g.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const GpuLinks* gpu_links_of(std::uint32_t compute_capability) {
  const auto& all = gpu_links();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const GpuLinks& g) { return g.compute_capability == compute_capability; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace orrery::importing
