#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "core/record/calibration_file.hpp"

using namespace orrery;

namespace {

Calibration full() {
  Calibration c;
  c.name = "this machine";
  c.device = "core";
  c.machine = "2 cores";
  c.date = "2026-11-20";
  c.source = "a \"test\"";
  c.spread = 0.03;
  c.gemm = {{DType::bf16, 132, 64.0, {{128, 256, 0.8}, {64, 64, 0.5}}}, {DType::f64, 132, 0.0, {{64, 64, 0.9}}}};
  c.attention = {{DType::bf16, 0.6, 0.45}};
  c.memory_efficiency = 0.9;
  c.launch = 2.5 * microsecond;
  c.level_efficiency = {0.8, 0.94};
  c.collective_launch = 7.0 * microsecond;
  c.algorithms = {CollectiveAlgorithm::ring, CollectiveAlgorithm::recursive};
  c.host_bandwidth = 48.0 * gigabyte_per_second;
  c.disk = DiskRate{7.0 * gigabyte_per_second, 3.5 * gigabyte_per_second, 80.0 * microsecond};
  c.kernels = {{KernelKind::gemm,
                DType::f32,
                true,
                false,
                false,
                {{{1, 8}, {1, 8}, {1, 16}}, {1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 7e9, 8.5e9}}},
               {KernelKind::residual_forward, DType::f32, false, false, true, {{{64, 4096}}, {1e9, 1.25e10}}},
               {KernelKind::attention_flash_forward, DType::f64, false, false, false, {{{16}, {8, 64}}, {1e9, 3e9}}}};
  c.messages = MessageRate{2.0 * microsecond, 9.0 * microsecond,         30.0 * microsecond,
                           {{{1}}, {3e9}},    {{{8, 1e6}}, {1e8, 1e10}}, {{{8}}, {1e9}}};
  c.cores = 2;
  c.busy_compute_slowdown = 1.05;
  c.busy_memory_slowdown = 1.4;
  c.memory = ProcessMemory{0.5 * gibibyte, 100.0 * mebibyte, 32.0 * mebibyte, "nvidia-smi"};
  return c;
}

/// The messages about a file that must be refused.
std::string message(const std::string& text) {
  Diagnostics diagnostics;
  CHECK(!parse_calibration(text, "c.toml", diagnostics));
  return render(diagnostics);
}

const std::string head = "schema = 1\nname = \"n\"\ndevice = \"d\"\n";

}  // namespace

TEST_CASE("A calibration reads back what was written", "[calibration]") {
  Diagnostics diagnostics;
  const auto back = parse_calibration(calibration_text(full()), "c.toml", diagnostics);
  INFO(render(diagnostics));
  REQUIRE(back);
  CHECK(*back == full());
  const auto plain = parse_calibration(calibration_text(Calibration{}), "c.toml", diagnostics);
  REQUIRE(plain);
  CHECK(*plain == Calibration{});
}

TEST_CASE("Shipped calibrations are readable and name themselves", "[calibration]") {
  std::set<std::string> devices;
  for (const auto& entry : std::filesystem::directory_iterator(ORRERY_SOURCE_DIR "/models/calibration")) {
    Diagnostics diagnostics;
    const auto c = read_calibration(entry.path(), diagnostics);
    INFO(render(diagnostics));
    REQUIRE(c);
    CHECK(c->name == entry.path().stem());
    // One is for all devices that nothing was measured on.
    const bool one_device = c->name != "datasheet";
    CHECK(std::filesystem::exists(ORRERY_SOURCE_DIR "/models/device/" + c->device + ".toml") == one_device);
    CHECK(!c->source.empty());
    REQUIRE(c->memory);
    CHECK(!c->memory->source.empty());
    CHECK(devices.insert(c->device).second);
  }
  CHECK(devices.size() >= 8);
}

TEST_CASE("Sizes of a rate must increase", "[calibration][error]") {
  CHECK(message(head + "[[kernels]]\nkind = \"gelu_forward\"\ncompute = \"f32\"\nsizes = [8, 8]\nrates = [1, 2]\n") ==
        "c.toml:7:9: error: sizes must be given and increase [calibration.axes]\n"
        "    7 | sizes = [8, 8]\n"
        "      |         ^\n"
        "  Rates are interpolated between neighbouring sizes.\n");
}

TEST_CASE("A rate needs one value for every point", "[calibration][error]") {
  CHECK(
      message(head + "[[kernels]]\nkind = \"gelu_forward\"\ncompute = \"f32\"\nsizes = [8, 9]\nrates = [1, 2, 3]\n") ==
      "c.toml:8:9: error: the number of rates is not the number of points [calibration.values]\n"
      "    8 | rates = [1, 2, 3]\n"
      "      |         ^\n"
      "  The sizes form 2 points; there are 3 rates.\n");
}

TEST_CASE("A kernel is measured over its own number of sizes", "[calibration][error]") {
  const std::string text =
      message(head + "[[kernels]]\nkind = \"gemm\"\ncompute = \"f32\"\nsizes = [8]\nrates = [1]\n");
  CHECK(text.find("c.toml:7:9: error: gemm is measured over 3 sizes [calibration.dimensions]\n"
                  "    7 | sizes = [8]\n"
                  "      |         ^\n"
                  "  Give sizes_1 to sizes_3.\n") != std::string::npos);
}

TEST_CASE("One kernel and type has one table", "[calibration][error]") {
  const std::string table = "[[kernels]]\nkind = \"gelu_forward\"\ncompute = \"f32\"\nsizes = [8]\nrates = [1]\n";
  CHECK(message(head + table + table) ==
        "c.toml:10:8: error: a second table for gelu_forward in f32 [calibration.duplicate]\n"
        "   10 | kind = \"gelu_forward\"\n"
        "      |        ^\n");
}

TEST_CASE("An efficiency above one is refused", "[calibration][error]") {
  CHECK(message(head + "memory_efficiency = 1.5\n").find("[file.range]") != std::string::npos);
  CHECK(message(head + "memory_efficiency = nan\n").find("[file.range]") != std::string::npos);
  CHECK(message(head + "algorithms = [\"star\"]\n").find("Known: ring, tree, recursive, in_network.") !=
        std::string::npos);
  CHECK(message("schema = 2\nname = \"n\"\ndevice = \"d\"\n").find("[file.schema]") != std::string::npos);
}
