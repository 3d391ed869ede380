#include "core/record/device_calibration.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

DeviceSpec by_hand(const std::string& name) {
  DeviceSpec d;
  d.name = name;
  d.peak[Precision::bf16] = FlopRate::of(1e14);
  d.memory = Bytes::of(1e9);
  d.memory_bandwidth = Bandwidth::of(1e12);
  return d;
}

Calibration shipped(const DeviceSpec& device) {
  Diagnostics d;
  const auto c = shipped_calibration(device, library, d);
  CHECK(render(d) == "");
  REQUIRE(c);
  return *c;
}

const GemmEfficiency& gemm(const Calibration& c, DType type) {
  for (const GemmEfficiency& g : c.gemm) {
    if (g.compute == type) return g;
  }
  FAIL("no such product");
  return c.gemm.front();
}

}  // namespace

// MI300X: 668.4 of 1307.4 TFLOP/s; the tile of 64 x 64 keeps 0.56 / 0.8 of the best one's rate.
TEST_CASE("the best tile reaches what was measured, and the others keep their shares", "[unit]") {
  Diagnostics d;
  const auto mi300x = library.device("mi300x", d);
  REQUIRE(mi300x);
  const GemmEfficiency g = gemm(shipped(*mi300x), DType::bf16);
  CHECK(g.units == 304);
  CHECK(g.tiles.front().efficiency == Approx(668.4 / 1307.4));
  CHECK(g.tiles.back().efficiency == Approx(668.4 / 1307.4 * 0.56 / 0.8));
  CHECK(gemm(shipped(*mi300x), DType::f32).tiles.front().efficiency == 0.9);  // nothing measured
}

TEST_CASE("a GPU without a calibration never has the efficiency of its datasheet's peak", "[unit]") {
  const Calibration c = shipped(by_hand("mine"));
  CHECK(c.name == "datasheet");
  CHECK(gemm(c, DType::bf16).tiles.front().efficiency < 0.9);
  CHECK(c.memory_efficiency < 0.95);
  CHECK(c.level_efficiency.front() < 0.9);
}

TEST_CASE("a device by hand gets what the shipped one of its name has", "[unit]") {
  CHECK(calibration_name(by_hand("H100"), library) == "h100");
  CHECK(calibration_name(by_hand("L40S"), library) == "datasheet");
  CHECK(gemm(shipped(by_hand("L40S")), DType::bf16).units == 142);
}

TEST_CASE("CPU cores without a calibration have none", "[unit]") {
  DeviceSpec core = by_hand("core");
  core.cores_shared = 2;
  CHECK(calibration_name(core, library).empty());
  CHECK(shipped(core).gemm.empty());
}
