#include "exec/calibrate/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "exec/calibrate/kernel_rates.hpp"
#include "exec/calibrate/message_rates.hpp"

namespace orrery {

namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

}  // namespace

Calibration calibrate(const CalibrateOptions& options) {
  Calibration c;
  c.name = options.name;
  c.device = options.device;
  c.machine = describe_machine();
  c.date = today();
  c.source = "measured on this machine by orrery calibrate";
  c.cores = usable_cores();
  // Shares of the time, roughly: three parts per precision, one for the rest.
  const double parts = 3.0 * static_cast<double>(options.precisions.size()) + 1.0;
  double done = 0.0;
  const auto advance = [&] {
    if (options.progress) options.progress((done += 1.0) / parts);
  };
  MeasuredRates measured;
  for (const Precision p : options.precisions) {
    measure_gemm(p, measured);
    advance();
    measure_attention(p, measured);
    advance();
    measure_others(p, measured);
    advance();
  }
  c.kernels = std::move(measured.rates);
  if (!measured.spreads.empty()) {
    const auto middle = measured.spreads.begin() + static_cast<std::ptrdiff_t>(measured.spreads.size() / 2);
    std::nth_element(measured.spreads.begin(), middle, measured.spreads.end());
    c.spread = *middle;
  }
  c.messages = measure_messages(c.cores);
  const BusySlowdown slowdown = measure_slowdown(c.cores);
  c.busy_compute_slowdown = slowdown.compute;
  c.busy_memory_slowdown = slowdown.memory;
  advance();
  return c;
}

}  // namespace orrery
