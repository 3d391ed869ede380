#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "core/record/calibration_file.hpp"
#include "sim/cost/kernel_cost.hpp"

using namespace orrery;

namespace {

/// Log-uniform whole number in 1 .. most.
std::uint64_t size_up_to(std::uint64_t most, std::mt19937_64& random) {
  const double share = static_cast<double>(random() % 1000000) / 1e6;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::pow(static_cast<double>(most), share)));
}

DeviceSpec device_with(double peak, double bandwidth) {
  DeviceSpec d;
  d.name = "random";
  d.peak = {{Precision::bf16, FlopRate::of(peak)}, {Precision::fp32, FlopRate::of(peak / 8)}};
  d.memory_bandwidth = Bandwidth::of(bandwidth);
  return d;
}

}  // namespace

TEST_CASE("No matrix product beats the roofline, whatever its shape", "[property][gemm]") {
  const std::uint64_t seed = 31;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Diagnostics diagnostics;
  const auto shipped = read_calibration(ORRERY_SOURCE_DIR "/models/calibration/h100.toml", diagnostics);
  REQUIRE(shipped);
  const double peak = 989e12;
  const double bandwidth = 3.35e12;
  const KernelCost cost(device_with(peak, bandwidth), *shipped);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t m = size_up_to(100000, random);
    const std::uint64_t n = size_up_to(100000, random);
    const std::uint64_t k = size_up_to(100000, random);
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const double bytes = 2.0 * (static_cast<double>(m * k) + static_cast<double>(k * n) + static_cast<double>(m * n));
    const double time = cost.gemm({m, n, k, false, false}, DType::bf16).base();
    CAPTURE(i, m, n, k);
    CHECK(time >= flops / peak);
    CHECK(time >= bytes / bandwidth);
    // Twice the depth takes never less time, and at most twice as much, since only the start of a tile is shared.
    const double deeper = cost.gemm({m, n, 2 * k, false, false}, DType::bf16).base();
    CHECK(deeper >= time);
    CHECK(deeper <= 2 * time);
  }
}

TEST_CASE("Gemm efficiency stays within zero and that of the tile", "[property][gemm]") {
  const std::uint64_t seed = 32;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const GemmTile tile{static_cast<std::uint32_t>(random() % 256 + 1), static_cast<std::uint32_t>(random() % 256 + 1),
                        static_cast<double>(random() % 100 + 1) / 100.0};
    const GemmShape shape{size_up_to(100000, random), size_up_to(100000, random), size_up_to(100000, random), false,
                          false};
    const double e = gemm_efficiency(shape, tile, static_cast<std::uint32_t>(random() % 200 + 1),
                                     static_cast<double>(random() % 500));
    CHECK(e > 0.0);
    CHECK(e <= tile.efficiency * (1 + 1e-12));
  }
}

TEST_CASE("An interpolated rate lies between the rates of its table", "[property][rate-table]") {
  const std::uint64_t seed = 33;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 500; ++i) {
    RateTable table;
    std::size_t points = 1;
    for (int d = 0; d < 3; ++d) {
      std::vector<double> axis{static_cast<double>(random() % 10 + 1)};
      while (random() % 4 != 0) axis.push_back(axis.back() * (1.1 + static_cast<double>(random() % 10)));
      points *= axis.size();
      table.axes.push_back(std::move(axis));
    }
    for (std::size_t p = 0; p < points; ++p) table.values.push_back(static_cast<double>(random() % 1000000 + 1));
    const auto [least, most] = std::minmax_element(table.values.begin(), table.values.end());
    for (int q = 0; q < 20; ++q) {
      const double value = interpolate(table, static_cast<double>(size_up_to(1000000, random)),
                                       static_cast<double>(size_up_to(1000000, random)),
                                       static_cast<double>(size_up_to(1000000, random)));
      CAPTURE(i, q);
      CHECK(value >= *least * (1 - 1e-12));
      CHECK(value <= *most * (1 + 1e-12));
    }
  }
}
