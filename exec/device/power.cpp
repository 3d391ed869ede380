#include "exec/device/power.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace orrery {
namespace {

constexpr int success = 0;  // NVML_SUCCESS

/// The text as NVML writes it: "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::string uuid_of(const std::string& digits) {
  if (digits.size() != 32) return "";
  return "GPU-" + digits.substr(0, 8) + "-" + digits.substr(8, 4) + "-" + digits.substr(12, 4) + "-" +
         digits.substr(16, 4) + "-" + digits.substr(20);
}

template <class Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(dlsym(library, name));
  return into != nullptr;
}

}  // namespace

std::optional<EnergyCounter> EnergyCounter::of(const std::string& identity, const std::string& library) {
  const std::string uuid = uuid_of(identity);
  if (uuid.empty()) return std::nullopt;
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // kept: the counter is read until the end
  if (handle == nullptr) return std::nullopt;
  int (*init)() = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  Read read = nullptr;
  if (!find(handle, "nvmlInit_v2", init) || !find(handle, "nvmlDeviceGetHandleByUUID", by_uuid) ||
      !find(handle, "nvmlDeviceGetTotalEnergyConsumption", read)) {
    return std::nullopt;
  }
  void* device = nullptr;
  if (init() != success || by_uuid(uuid.c_str(), &device) != success) return std::nullopt;
  const EnergyCounter counter(device, read);
  if (!counter.joules()) return std::nullopt;
  return counter;
}

std::optional<double> EnergyCounter::joules() const {
  unsigned long long millijoules = 0;
  if (read_(device_, &millijoules) != success) return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

void PowerOfRun::step_ended(std::uint64_t step, std::int64_t now) {
  if (step < warmup_) return;
  const std::optional<double> joules = counter_.joules();
  if (step == warmup_) {
    first_joules_ = joules;
    first_ns_ = now;
    return;
  }
  last_joules_ = joules;
  last_ns_ = now;
  last_ = step;
}

std::optional<std::string> PowerOfRun::text() const {
  if (!first_joules_ || !last_joules_ || last_ns_ <= first_ns_) return std::nullopt;
  const double joules = *last_joules_ - *first_joules_;
  const double steps = static_cast<double>(last_ - warmup_);
  return fmt::format("the GPU used {:.3g} W over {} steps, {:.3g} J a step, by its driver's counter",
                     joules / (static_cast<double>(last_ns_ - first_ns_) * 1e-9), last_ - warmup_, joules / steps);
}

}  // namespace orrery
