#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "exec/calibrate/timing.hpp"
#include "exec/device/device.hpp"
#include "exec/kernels/convert.hpp"

namespace orrery {

/// Numbers between 0.5 and 1.5 in memory of the host, from which operands are filled: some devices need less power, and
/// so less time, for zeros. They are made once for each type, since a grid has tens of gigabytes of operands.
class Numbers {
 public:
  explicit Numbers(Device& device) : device_(device) {}
  ~Numbers() {
    for (const auto& [dtype, p] : made_) device_.release_host(p);
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  static constexpr std::uint64_t count = std::uint64_t{1} << 22;
  [[nodiscard]] const std::byte* of(DType dtype) {
    std::byte*& p = made_[dtype];
    if (p != nullptr) return p;
    p = device_.allocate_host(count * size_of(dtype));
    if (p == nullptr) throw Error(fmt::format("no memory of the host for {} numbers to measure with", count));
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = 0.5F + static_cast<float>(i % 4093 * 7 % 16) / 16.0F;
    store_elements(dtype, p, 0, count, values.data());
    return p;
  }

 private:
  Device& device_;
  std::map<DType, std::byte*> made_;
};

/// Operands of one kernel in a device's memory.
class DeviceOperands {
 public:
  DeviceOperands(Device& device, Numbers& numbers)
      : device_(device), numbers_(numbers), stream_(device.make_stream(false)), done_(device.make_event()) {}
  ~DeviceOperands() {
    for (std::byte* p : taken_) device_.release(p);
  }
  DeviceOperands(const DeviceOperands&) = delete;
  DeviceOperands& operator=(const DeviceOperands&) = delete;

  void add(DType dtype, std::uint64_t count, bool accumulate = false) {
    const std::uint64_t bytes = count * size_of(dtype), part = Numbers::count * size_of(dtype);
    std::byte* p = device_.allocate(bytes);
    if (p == nullptr) throw Error(fmt::format("no memory for {} bytes that a kernel is measured on", bytes));
    taken_.push_back(p);
    const std::byte* numbers = numbers_.of(dtype);
    for (std::uint64_t at = 0; at < bytes; at += part) stream_->copy(p + at, numbers, std::min(part, bytes - at));
    stream_->record(*done_);
    wait();
    operands_.push_back({p, dtype, count, accumulate, {}});
  }

  /// Median over samples of the seconds that one call takes, and their spread. A sample takes at least `least_sample`
  /// seconds of the device: short work is repeated in it.
  MeasuredTime time(const Kernel& k, const KernelContext& context, double least_sample, std::uint32_t samples) {
    const auto begin = device_.make_event();
    std::uint64_t repeat = 1;
    const auto sample = [&] {
      stream_->record(*begin);
      for (std::uint64_t i = 0; i < repeat; ++i) stream_->run(k, operands_, context);
      stream_->record(*done_);
      wait();
      return device_.seconds_between(*begin, *done_);
    };
    static_cast<void>(sample());  // loads the kernel, asks for an algorithm
    while (sample() < least_sample && repeat < 4096) repeat *= 2;
    std::vector<double> all;
    for (std::uint32_t i = 0; i < samples; ++i) all.push_back(sample() / static_cast<double>(repeat));
    std::sort(all.begin(), all.end());
    const std::size_t n = all.size();
    return {Seconds::of(all[n / 2]), (all[n - 1 - n / 4] - all[n / 4]) / all[n / 2]};
  }
  [[nodiscard]] bool runs(const Kernel& k) const { return device_.runs(k, operands_); }

 private:
  void wait() {
    while (!device_.done(*done_)) std::this_thread::yield();
  }
  Device& device_;
  Numbers& numbers_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceEvent> done_;
  std::vector<std::byte*> taken_;
  std::vector<Operand> operands_;
};

}  // namespace orrery
