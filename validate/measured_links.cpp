#include "validate/measured_links.hpp"

#include <fmt/format.h>

#include "core/base/diagnostics.hpp"

namespace orrery {

Calibration with_links(Calibration measured, const Calibration& shipped, const std::vector<CurveFile>& links,
                       const std::string& table) {
  ORRERY_ASSERT(links.empty() || shipped.nccl, shipped.name);
  measured.level_efficiency = shipped.level_efficiency;
  measured.collective_launch = shipped.collective_launch;
  measured.algorithms = shipped.algorithms;
  measured.nccl = shipped.nccl;
  measured.memory = shipped.memory;
  for (const CurveFile& link : links) {
    if (link.name != "node" && link.name != "network") continue;
    (link.name == "node" ? measured.nccl->node : measured.nccl->network) = link.curve;
    measured.source += fmt::format("; links of a {}: {} collectives of {}, mean error from 1 MiB on {:.1f} %",
                                   link.name, link.errors.rows, table, link.errors.from_pct);
  }
  return measured;
}

}  // namespace orrery
