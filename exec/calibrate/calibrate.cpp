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

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

MeasuredCalibration calibrate(const CalibrateOptions& options) {
  MeasuredCalibration out;
  Calibration& c = out.calibration;
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
  const SerialWork serial;
  for (const Precision p : options.precisions) {
    measure_gemm(p, measured);
    advance();
    measure_attention(p, measured);
    advance();
    measure_steps(p, measured);
    advance();
  }
  out.cores = serial.so_far();
  if (const auto busy = core_shortage(out.cores)) c.source += "; " + *busy;
  c.kernels = std::move(measured.rates);
  c.spread = median(measured.spreads);
  c.launch = Seconds::of(median(measured.gaps));
  c.messages = measure_messages(c.cores);
  const BusySlowdown slowdown = measure_slowdown(c.cores);
  c.busy_compute_slowdown = slowdown.compute;
  c.busy_memory_slowdown = slowdown.memory;
  advance();
  return out;
}

}  // namespace orrery
