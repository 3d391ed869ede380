#include "validate/device_basis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "validate/cost_labels.hpp"

namespace orrery {
namespace {

/// Names of files have no capitals and no spaces: "H100 96 GB" begins as "h100-96" does.
bool is_own(const DeviceSpec& device, const std::string& calibration) {
  std::string name;
  for (const char c : device.name)
    name += c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name == calibration || (name.starts_with(calibration + "-") && name.ends_with("-gb"));
}

std::string runs_text(std::uint64_t n) { return fmt::format("{} run{}", n, n == 1 ? "" : "s"); }

/// How far the ends of the interval are from the time that is said: its middle where no software is named.
double within(const HeldOutErrors& e, bool named) {
  const double said = named ? 1.0 : std::sqrt(e.low * e.high);
  return 100.0 * std::max(e.high / said - 1.0, 1.0 - e.low / said);
}

}  // namespace

DeviceBasis device_basis(const DeviceSpec& device, const Calibration& calibration, const Software& software,
                         const std::vector<CostFile>& files) {
  DeviceBasis out;
  out.device = device.name;
  const auto is = [&](DeviceBasis::Kind kind, std::string text) {
    out.kind = kind;
    out.text = fmt::format("{}: {}", device.name, text);
    return out;
  };
  if (!calibration.machine.empty())
    return is(DeviceBasis::Kind::measured, "measured by orrery calibrate on " + calibration.machine);
  if (calibration.name.empty()) return is(DeviceBasis::Kind::nominal, "nominal figures, nothing measured");
  if (software.errors) out.within_pct = within(*software.errors, software.chosen);
  const std::string near =
      out.within_pct ? fmt::format("; eight times in ten within {:.0f} %", *out.within_pct) : std::string();
  const std::vector<std::string_view> labels = device_labels(calibration.name);
  const auto family = std::find_if(files.begin(), files.end(), [&](const CostFile& f) {
    return !labels.empty() && f.framework.empty() && f.device == labels.front();
  });
  if (family == files.end()) {
    return is(DeviceBasis::Kind::datasheet,
              "datasheet figures, no run measured" +
                  (out.within_pct ? fmt::format("; so priced, devices that were measured are within {:.0f} % in eight "
                                                "cases of ten",
                                                *out.within_pct)
                                  : std::string()));
  }
  const auto runs = family->devices.find(calibration.name);
  const std::uint64_t own = runs == family->devices.end() ? 0 : runs->second;
  const std::string unused = software.name == "none" ? "; --software none leaves out what they told" : "";
  if (own > 0 && is_own(device, calibration.name)) {
    out.runs = own;
    return is(DeviceBasis::Kind::fitted, fmt::format("fitted on {}{}{}", runs_text(own), near, unused));
  }
  out.runs = own > 0 ? own : family->errors.runs;
  const std::string whose = own > 0 ? calibration.name : std::string(labels.front());
  return is(DeviceBasis::Kind::relative, fmt::format("fitted on {} of {}, none of {} itself{}{}", runs_text(out.runs),
                                                     whose, device.name, near, unused));
}

}  // namespace orrery
