#include "exec/calibrate/device_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "exec/calibrate/device_operands.hpp"
#include "exec/calibrate/kernel_rates.hpp"
#include "exec/calibrate/sample_programs.hpp"
#include "exec/calibrate/timing.hpp"
#include "exec/device/execute_device.hpp"

namespace orrery {
namespace {

std::vector<double> doubles(const std::vector<std::uint64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

/// With f8 the operands are those of bf16, and rounding them is a part of the product.
void measure_gemm_on(Device& device, Numbers& numbers, const Workload& w, DType compute, const DeviceGrid& grid,
                     MeasuredRates& into) {
  const DType stored = weight_dtype(w);
  for (const auto& [ta, tb] : {std::pair{false, false}, std::pair{false, true}, std::pair{true, false}}) {
    KernelRate table;
    table.kind = KernelKind::gemm;
    table.compute = compute;
    table.transpose_a = ta;
    table.transpose_b = tb;
    // The weight gradient multiplies over the tokens, so its depth takes the place of the rows elsewhere.
    const auto& m_axis = ta ? grid.columns : grid.rows;
    const auto& n_axis = ta ? grid.depths : grid.columns;
    const auto& d_axis = ta ? grid.rows : grid.depths;
    table.rate.axes = {doubles(m_axis), doubles(n_axis), doubles(d_axis)};
    for (const std::uint64_t m : m_axis) {
      for (const std::uint64_t n : n_axis) {
        for (const std::uint64_t d : d_axis) {
          Kernel k;
          k.kind = KernelKind::gemm;
          k.compute = table.compute;
          k.pass = ta ? Pass::weight_gradient : tb ? Pass::input_gradient : Pass::forward;
          k.rows = m;
          k.columns = n;
          k.depth = d;
          k.options.transpose_a = ta;
          k.options.transpose_b = tb;
          DeviceOperands operands(device, numbers);
          operands.add(stored, m * d);
          operands.add(stored, d * n);
          // A transposed left factor is the weight gradient: it adds to the gradients.
          operands.add(ta ? gradient_dtype(w) : stored, m * n, ta);
          const MeasuredTime t = operands.time(k, {}, grid.least_sample, grid.samples);
          table.rate.values.push_back(2.0 * static_cast<double>(m * n * d) / t.typical.base());
          into.spreads.push_back(t.spread);
        }
      }
    }
    into.rates.push_back(std::move(table));
  }
}

void measure_attention_on(Device& device, Numbers& numbers, const Workload& w, const DeviceGrid& grid,
                          MeasuredRates& into) {
  for (const KernelKind kind : {KernelKind::attention_unfused_forward, KernelKind::attention_unfused_backward,
                                KernelKind::attention_flash_forward, KernelKind::attention_flash_backward}) {
    KernelRate table;
    table.kind = kind;
    table.compute = weight_dtype(w);
    table.rate.axes = {doubles(grid.lengths), doubles(grid.head_dims)};
    const DType row = table.compute == DType::f64 ? DType::f64 : DType::f32;
    for (const std::uint64_t length : grid.lengths) {
      for (const std::uint64_t dim : grid.head_dims) {
        Kernel k;
        k.kind = kind;
        k.compute = table.compute;
        k.options.causal = true;
        k.batch = static_cast<std::uint32_t>(grid.sequences);
        k.heads = k.kv_heads = static_cast<std::uint32_t>(grid.heads);
        k.head_dim = static_cast<std::uint32_t>(dim);
        k.rows = grid.sequences * length;
        const std::uint64_t context = k.rows * grid.heads * dim;
        const std::uint64_t square = grid.sequences * grid.heads * length * length;
        const std::uint64_t rows = grid.sequences * grid.heads * length;
        DeviceOperands o(device, numbers);
        const auto add = [&](std::uint64_t count) { o.add(k.compute, count); };
        switch (kind) {
          case KernelKind::attention_unfused_forward: add(3 * context), add(context), add(square); break;
          case KernelKind::attention_unfused_backward:
            add(context), add(3 * context), add(square), add(3 * context), add(square);
            break;
          case KernelKind::attention_flash_forward: add(3 * context), add(context), o.add(row, rows); break;
          default:
            add(context), add(3 * context), add(context), o.add(row, rows), add(3 * context), o.add(row, context);
        }
        if (!o.runs(k)) continue;
        const MeasuredTime t = o.time(k, {}, grid.least_sample, grid.samples);
        table.rate.values.push_back(flops_of(k).executed / t.typical.base());
        into.spreads.push_back(t.spread);
      }
    }
    if (table.rate.values.size() == grid.lengths.size() * grid.head_dims.size()) into.rates.push_back(std::move(table));
  }
}

/// The slower of copies to the host's memory and copies from it: the median of each, one at a time.
Bandwidth measure_host_copies(Device& device, const DeviceGrid& grid) {
  struct Block {
    Device& device;
    std::byte *there, *here;
    ~Block() {
      if (there != nullptr) device.release(there);
      if (here != nullptr) device.release_host(here);
    }
  };
  const Block block{device, device.allocate(grid.copy_bytes), device.allocate_host(grid.copy_bytes)};
  if (block.there == nullptr || block.here == nullptr) {
    throw Error(fmt::format("no memory for {} bytes that copies are measured on", grid.copy_bytes));
  }
  std::memset(block.here, 1, grid.copy_bytes);
  const auto stream = device.make_stream(false);
  const auto begin = device.make_event(), end = device.make_event();
  const auto seconds = [&](void* to, const void* from) {
    stream->record(*begin);
    stream->copy(to, from, grid.copy_bytes);
    stream->record(*end);
    while (!device.done(*end)) std::this_thread::yield();
    return device.seconds_between(*begin, *end);
  };
  double slower = 0.0;
  for (const bool up : {true, false}) {
    std::vector<double> all;
    for (std::uint32_t i = 0; i <= grid.samples; ++i) {
      const double s = up ? seconds(block.here, block.there) : seconds(block.there, block.here);
      if (i > 0) all.push_back(s);  // the first touches the memory
    }
    std::sort(all.begin(), all.end());
    slower = std::max(slower, all[all.size() / 2]);
  }
  return Bandwidth::of(static_cast<double>(grid.copy_bytes) / slower);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<std::string> device_file_of(const DeviceInfo& info) {
  std::string name = info.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool large = info.memory_bytes > (std::uint64_t{60} << 30);
  if (has("gb300")) return "gb300";
  if (has("gb200")) return "gb200";
  if (has("b300")) return "b300";
  if (has("b200")) return "b200";
  if (has("h200")) return "h200";
  if (has("h100")) return info.memory_bytes > (std::uint64_t{88} << 30) ? "h100-96" : "h100";
  if (has("a100")) return large ? "a100-80" : "a100-40";
  return std::nullopt;
}

DeviceGrid small_grid() {
  DeviceGrid grid;
  grid.rows = {8, 16};
  grid.columns = {8};
  grid.depths = {8, 24};
  grid.lengths = {8, 16};
  grid.head_dims = {8};
  grid.heads = 2;
  grid.sequences = 1;
  grid.step_hidden = {16, 32};
  grid.step_length = 8;
  grid.least_sample = 1e-5;
  grid.samples = 2;
  grid.copy_bytes = std::uint64_t{1} << 20;
  return grid;
}

Calibration calibrate_device(Device& device, const std::string& file, const std::vector<Precision>& precisions,
                             const DeviceGrid& grid, const std::function<void(double)>& progress) {
  device.use();
  Calibration c;
  c.name = "this-gpu";
  c.device = file;
  c.machine = device.info().name + ", " + device.info().software;
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  gmtime_r(&now, &day);
  c.date = fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
  c.source = "measured on this GPU by orrery calibrate --backend cuda";
  double done = 0.0;
  const auto advance = [&] {
    if (progress) progress((done += 1.0) / (3.0 * static_cast<double>(precisions.size())));
  };
  MeasuredRates measured;
  Numbers numbers(device);
  for (const Precision p : precisions) {
    const SampleProgram any = sample_program({}, p);
    measure_gemm_on(device, numbers, any.workload, weight_dtype(any.workload), grid, measured);
    if (p == Precision::bf16 && device.info().fp8) {
      measure_gemm_on(device, numbers, any.workload, DType::f8, grid, measured);
    }
    advance();
    measure_attention_on(device, numbers, any.workload, grid, measured);
    advance();
    StepRuns steps;
    steps.run = [&](const SampleProgram& s, const DataSource& data, const RunOptions& options) {
      return execute_on_device(device, "run cuda", s.program, s.workload, data, options).result;
    };
    for (const std::uint64_t hidden : grid.step_hidden) {
      steps.sizes.push_back({2, grid.sequences, grid.step_length, hidden});
    }
    steps.heads = grid.heads;
    measure_steps(p, steps, measured);
    advance();
  }
  c.kernels = std::move(measured.rates);
  c.spread = median(measured.spreads);
  c.launch = Seconds::of(median(measured.gaps));
  c.host_bandwidth = measure_host_copies(device, grid);
  return c;
}

}  // namespace orrery
