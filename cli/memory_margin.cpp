#include "cli/memory_margin.hpp"

#include <fmt/format.h>

#include "cli/table.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/node_kinds.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {

Bytes margin_of(const std::string& text, const ClusterSpec& cluster, const Calibration& calibration, Diagnostics& d) {
  if (text == "auto") return default_headroom(cluster, calibration);
  const Bytes memory = least_memory(cluster);
  Bytes margin;
  std::string problem;
  if (!parse_quantity(text, margin, problem)) {
    d.error("cli.memory-margin", "--memory-margin is not a size",
            {fmt::format("It is {}: {}.", escaped(text), problem)});
    return {};
  }
  if (margin >= Bytes{} && margin < memory) return margin;
  d.error("cli.memory-margin", "--memory-margin is out of range",
          {fmt::format("It is {}; from 0 B to below the {} of a device is allowed.", exact_text(margin),
                       exact_text(memory))});
  return {};
}

}  // namespace orrery
