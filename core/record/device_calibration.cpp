#include "core/record/device_calibration.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/record/calibration_file.hpp"

namespace orrery {

namespace {

/// The shipped device whose name a device without a calibration has.
std::optional<DeviceSpec> namesake(const DeviceSpec& device, const Library& library) {
  if (!device.calibration.empty()) return std::nullopt;
  const std::optional<std::string> name = library.device_named(device.name);
  Diagnostics ignored;  // a test reads the shipped files
  return name ? library.device(*name, ignored) : std::nullopt;
}

}  // namespace

std::string calibration_name(const DeviceSpec& device, const Library& library) {
  if (!device.calibration.empty()) return device.calibration;
  if (device.cores_shared > 0 || !device.concurrent_lanes) return {};
  if (const std::optional<DeviceSpec> same = namesake(device, library); same && !same->calibration.empty())
    return same->calibration;
  std::error_code failure;
  return std::filesystem::exists(library.calibration(datasheet_calibration), failure) ? datasheet_calibration : "";
}

Calibration on_device(Calibration c, const DeviceSpec& device) {
  constexpr std::array types{std::pair{Precision::fp64, DType::f64}, std::pair{Precision::fp32, DType::f32},
                             std::pair{Precision::bf16, DType::bf16}, std::pair{Precision::fp16, DType::f16}};
  for (GemmEfficiency& g : c.gemm) {
    if (device.multiprocessors > 0) g.units = device.multiprocessors;
    for (const auto& [precision, type] : types) {
      const auto reached = device.reached.find(precision);
      const auto peak = device.peak.find(precision);
      if (type != g.compute || reached == device.reached.end() || peak == device.peak.end()) continue;
      double best = 0.0;
      for (const GemmTile& t : g.tiles) best = std::max(best, t.efficiency);
      for (GemmTile& t : g.tiles) t.efficiency *= reached->second / peak->second / best;
    }
  }
  return c;
}

std::optional<Calibration> shipped_calibration(const DeviceSpec& device, const Library& library, Diagnostics& d) {
  const std::string name = calibration_name(device, library);
  if (name.empty()) {
    Calibration none;
    none.device = device.name;
    return none;
  }
  std::optional<Calibration> read = read_calibration(library.calibration(name), d);
  if (!read) return std::nullopt;
  if (const std::optional<DeviceSpec> same = namesake(device, library)) *read = on_device(std::move(*read), *same);
  return on_device(std::move(*read), device);
}

}  // namespace orrery
