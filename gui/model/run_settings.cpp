#include "gui/model/run_settings.hpp"

#include <fmt/format.h>

#include "core/base/units_text.hpp"
#include "core/spec/node_kinds.hpp"
#include "sim/memory/fit.hpp"
#include "validate/validation.hpp"

namespace orrery::gui {

std::string margin_text(const std::optional<Bytes>& margin) { return margin ? exact_text(*margin) : "auto"; }

std::optional<std::optional<Bytes>> read_margin(const std::string& text, const ClusterSpec& cluster, Diagnostics& d) {
  if (text == "auto") return std::optional<Bytes>();
  Bytes margin;
  std::string problem;
  if (!parse_quantity(text, margin, problem)) {
    d.error("cli.memory-margin", "the memory margin is not a size",
            {fmt::format("It is \"{}\": {}. It may be \"auto\", too.", text, problem)});
    return std::nullopt;
  }
  const Bytes most = least_memory(cluster);
  if (margin >= Bytes{} && margin < most) return std::optional(margin);
  d.error("cli.memory-margin", "the memory margin is out of range",
          {fmt::format("It is {}; from 0 B to below the {} of a device is allowed.", exact_text(margin),
                       exact_text(most))});
  return std::nullopt;
}

Bytes margin_of(const RunSettings& settings, const ClusterSpec& cluster, const Calibration& calibration) {
  return settings.memory_margin.value_or(default_headroom(cluster, calibration));
}

std::vector<SoftwareOption> software_options(const Library& library, const ClusterSpec& cluster,
                                             const Calibration& calibration, Precision precision) {
  std::vector<SoftwareOption> out{{"auto", ""}, {"none", ""}};
  const std::vector<CostFile>& files = shipped_costs(library);
  for (const TrainingProgram& p : training_programs()) {
    Diagnostics d;
    const bool goes = software_of(p.name, files, calibration, cluster.device, precision, d).has_value();
    out.push_back({std::string(p.name), goes ? "" : d.list().front().message});
  }
  return out;
}

std::string software_note(const Software& s) {
  std::string out;
  if (s.name == "none") {
    out = s.chosen ? "Software: none, kernels as the vendor's libraries run them."
                   : "Software: none is assumed, kernels as the vendor's libraries run them; nothing else was measured "
                     "with these prices.";
  } else if (s.chosen) {
    out = fmt::format("Software: {}.", s.name);
  } else if (s.name == "any") {
    out = "Software: what all training programs have in common is assumed, since none was measured on this device.";
  } else {
    out = fmt::format("Software: {} is assumed, the usual one on this device.", s.name);
  }
  if (s.runs > 0) out += fmt::format(" {} measured run{} of it.", s.runs, s.runs == 1 ? "" : "s");
  return out;
}

}  // namespace orrery::gui
