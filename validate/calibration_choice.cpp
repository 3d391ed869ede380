#include "validate/calibration_choice.hpp"

#include <fmt/format.h>

#include "core/record/calibration_file.hpp"
#include "core/record/device_calibration.hpp"
#include "validate/device_basis.hpp"
#include "validate/validation.hpp"

namespace orrery {
namespace {

/// The device's constants alone.
std::optional<CalibrationChoice> constants_of(const PriceWishes& wishes, const Library& library,
                                              const DeviceSpec& device, Diagnostics& d) {
  std::error_code failure;
  std::optional<Calibration> read;
  std::string origin;
  if (wishes.calibration || (device.name == "cpu-core" && std::filesystem::exists(wishes.own_calibration, failure))) {
    const std::filesystem::path file = wishes.calibration.value_or(wishes.own_calibration);
    origin = wishes.calibration ? file.string() : "this machine's (" + file.string() + ")";
    read = read_calibration(file, d);
  } else {
    const std::string name = calibration_name(device, library);
    origin = name.empty() ? "none: nominal figures; orrery calibrate measures this machine" : "shipped " + name;
    read = shipped_calibration(device, library, d);
  }
  if (!read) return std::nullopt;
  // Calibrations name a device by its display name or by its file, or are for any.
  const std::string& of = read->device;
  if (of != device.name && of != calibration_name(device, library) && of != "any") {
    d.error("cli.calibration", fmt::format("the calibration is for another device ({})", origin),
            {fmt::format("It is for {}; the cluster has {}.", read->device, device.name)});
    return std::nullopt;
  }
  return CalibrationChoice{std::move(*read), std::move(origin), {}, {}};
}

}  // namespace

std::optional<CalibrationChoice> choose_calibration(const PriceWishes& wishes, const Library& library,
                                                    const DeviceSpec& device, Precision precision, Diagnostics& d) {
  std::optional<CalibrationChoice> out = constants_of(wishes, library, device, d);
  if (!out) return std::nullopt;
  const std::vector<CostFile>& costs = shipped_costs(library);
  std::optional<Software> software = software_of(wishes.software, costs, out->calibration, device, precision, d);
  if (!software) return std::nullopt;
  out->software = std::move(*software);
  out->calibration.software = out->software.costs;
  out->devices.push_back(device_basis(device, out->calibration, out->software, costs));
  return out;
}

std::optional<CalibrationChoice> choose_calibration(const PriceWishes& wishes, const Library& library,
                                                    const ClusterSpec& cluster, Precision precision, Diagnostics& d) {
  std::optional<CalibrationChoice> out = choose_calibration(wishes, library, cluster.device, precision, d);
  if (!out) return std::nullopt;
  PriceWishes shipped = wishes;
  shipped.calibration = std::nullopt;
  for (const OtherNodes& other : cluster.other_nodes) {
    if (other.device.name == cluster.device.name) {
      Calibration own = out->calibration;
      own.others.clear();
      out->calibration.others.push_back(std::move(own));
      continue;
    }
    std::optional<CalibrationChoice> of = choose_calibration(shipped, library, other.device, precision, d);
    if (!of) return std::nullopt;
    out->calibration.others.push_back(std::move(of->calibration));
    out->origin += "; " + of->origin;
    out->devices.insert(out->devices.end(), of->devices.begin(), of->devices.end());
  }
  return out;
}

void tell_prices(Report& report, const CalibrationChoice& prices) {
  report.assumptions.push_back("calibration: " + prices.origin);
  report.assumptions.push_back("software: " + describe(prices.software));
  for (const DeviceBasis& device : prices.devices) report.assumptions.push_back("device: " + device.text);
  report.devices = prices.devices;
  report.software = prices.software.name;
  report.software_assumed = !prices.software.chosen && prices.software.name != "none";
  report.software_costs = prices.software.files;
  if (const auto& errors = prices.software.errors) {
    report.interval = StepInterval{errors->low * report.step_time, errors->high * report.step_time};
    report.assumptions.push_back(fmt::format("interval: eight in ten of {} runs{}{}", errors->runs,
                                             errors->group.empty() ? "" : " of ", errors->group));
  }
}

void adapt_to_cores(ClusterSpec& cluster, unsigned cores) {
  if (cluster.name == "local-cpu" && cores > 0) cluster.device.cores_shared = cores;
}

}  // namespace orrery
