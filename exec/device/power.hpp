#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/units.hpp"

namespace orrery {

/// NVIDIA's management library, under the name by which the driver installs it.
inline constexpr const char* nvml_library_name = "libnvidia-ml.so.1";

/// The energy that a GPU has used, by its driver's own counter (nvmlDeviceGetTotalEnergyConsumption: millijoules since
/// the driver was loaded, from Volta on).
class EnergyCounter {
 public:
  /// The counter of the GPU with this identity (DeviceInfo::identity). Empty where the library, the GPU or the counter
  /// is missing; the run then goes on without.
  [[nodiscard]] static std::optional<EnergyCounter> of(const std::string& identity,
                                                       const std::string& library = nvml_library_name);
  /// Joules so far; empty when the driver gives none.
  [[nodiscard]] std::optional<double> joules() const;

 private:
  using Read = int (*)(void* device, unsigned long long* millijoules);
  EnergyCounter(void* device, Read read) : device_(device), read_(read) {}
  void* device_;
  Read read_;
};

/// Power of a run's recorded steps: energy and time from the end of the warm-up to the end of the last step.
class PowerOfRun {
 public:
  PowerOfRun(EnergyCounter counter, std::uint64_t warmup_steps) : counter_(counter), warmup_(warmup_steps) {}
  /// Called after setup (step 0) and every step, with `now` in nanoseconds.
  void step_ended(std::uint64_t step, std::int64_t now);
  /// A text such as "the GPU used 612 W over 10 steps, 85 J a step, by its driver's counter"; empty before a recorded
  /// step.
  [[nodiscard]] std::optional<std::string> text() const;

 private:
  EnergyCounter counter_;
  std::uint64_t warmup_, last_ = 0;
  std::optional<double> first_joules_, last_joules_;
  std::int64_t first_ns_ = 0, last_ns_ = 0;
};

}  // namespace orrery
