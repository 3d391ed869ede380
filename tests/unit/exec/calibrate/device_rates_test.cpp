#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "core/record/calibration_file.hpp"
#include "exec/calibrate/device_rates.hpp"
#include "exec/device/host_device.hpp"

using namespace orrery;

TEST_CASE("a GPU's file is found by what its driver calls it", "[unit][calibrate]") {
  const auto file = [](const char* name, std::uint64_t gib) {
    return device_file_of({name, "", gib << 30, 0}).value_or("none");
  };
  CHECK(file("NVIDIA H100 80GB HBM3", 79) == "h100");
  CHECK(file("NVIDIA H100", 95) == "h100-96");
  CHECK(file("NVIDIA H200", 140) == "h200");
  CHECK(file("NVIDIA A100-SXM4-80GB", 79) == "a100-80");
  CHECK(file("NVIDIA A100-SXM4-40GB", 39) == "a100-40");
  CHECK(file("NVIDIA GB200", 184) == "gb200");
  CHECK(file("NVIDIA B200", 179) == "b200");
  CHECK(file("NVIDIA GeForce RTX 3090", 24) == "none");
}

TEST_CASE("a device's calibration has a positive rate for every point of its tables", "[unit][calibrate]") {
  HostDevice device;
  const DeviceGrid small = small_grid();
  double last = 0.0;
  const Calibration c = calibrate_device(device, "h100", {Precision::fp32}, small, [&](double share) {
    CHECK(share > last);
    last = share;
  });
  CHECK(last == Approx(1.0));
  CHECK(c.device == "h100");
  CHECK(c.machine == "this host, as a device, threads");
  std::size_t products = 0, attention = 0, others = 0;
  for (const KernelRate& k : c.kernels) {
    std::size_t points = 1;
    for (const auto& axis : k.rate.axes) points *= axis.size();
    CAPTURE(name_of(k.kind));
    CHECK(k.rate.values.size() == points);
    CHECK(
        std::all_of(k.rate.values.begin(), k.rate.values.end(), [](double v) { return std::isfinite(v) && v > 0.0; }));
    if (k.kind == KernelKind::gemm) {
      ++products;
    } else if (k.rate.axes.size() == 2) {
      ++attention;
    } else {
      ++others;
    }
  }
  CHECK(products == 3);   // three transpositions
  CHECK(attention == 4);  // both kernel sets, forward and backward
  CHECK(others > 20);
  REQUIRE(c.host_bandwidth.has_value());
  CHECK(c.host_bandwidth->base() > 0.0);
  CHECK(std::isfinite(c.host_bandwidth->base()));
}

TEST_CASE("a device that makes products in fp8 has a table of them for each transposition", "[unit][calibrate]") {
  HostDevice device(std::uint64_t{1} << 30, true);
  DeviceGrid small;
  small.rows = small.columns = small.depths = {16, 32};
  small.lengths = {8};
  small.head_dims = {8};
  small.heads = 2;
  small.sequences = 1;
  small.step_hidden = {16, 32};
  small.step_length = 8;
  small.least_sample = 1e-5;
  small.samples = 2;
  small.copy_bytes = std::uint64_t{1} << 20;
  const Calibration c = calibrate_device(device, "h100", {Precision::bf16}, small, {});
  const auto products = [&](DType t) {
    return std::count_if(c.kernels.begin(), c.kernels.end(),
                         [&](const KernelRate& k) { return k.kind == KernelKind::gemm && k.compute == t; });
  };
  CHECK(products(DType::bf16) == 3);
  CHECK(products(DType::f8) == 3);
  // The file keeps them.
  Diagnostics d;
  const auto again = parse_calibration(calibration_text(c), "calibration.toml", d);
  CHECK(render(d) == "");
  REQUIRE(again.has_value());
  CHECK(again->kernels == c.kernels);
}
