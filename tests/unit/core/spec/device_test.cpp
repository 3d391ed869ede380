#include <catch2/catch.hpp>
#include <fstream>

#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"
#include "tests/support/program_run.hpp"

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

DeviceSpec shipped(const std::string& name) {
  Diagnostics d;
  const auto device = library.device(name, d);
  CHECK(render(d) == "");
  REQUIRE(device);
  return *device;
}

/// What the library says of a cluster file with this device, one of its kind.
std::string said_of(const std::string& device) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("c.toml");
  std::ofstream(file) << "schema = 1\n[cluster]\nname = \"c\"\nnodes = 1\ndevices_per_node = 1\n"
                      << device
                      << "[[cluster.levels]]\nname = \"n\"\nsize = 1\nbandwidth = \"1 GB/s\"\nlatency = \"1 us\"\n";
  Diagnostics d;
  static_cast<void>(library.cluster(file, ".", std::nullopt, d));
  std::string out = render(d);
  const std::string path = file;
  for (std::size_t at = out.find(path); at != std::string::npos; at = out.find(path))
    out.replace(at, path.size(), "c.toml");
  return out;
}

}  // namespace

// fp32 counts two operations for each multiply-add of 128 lanes of a multiprocessor (64 on Turing and Volta), so the
// clock that the published peak implies must be one that the board has: 1 to 3 GHz.
TEST_CASE("peaks, multiprocessors and clocks of the shipped GPUs belong together", "[unit][library]") {
  for (const auto& [name, lanes] : {std::pair{"l40s", 128.0},
                                    {"rtx-4090", 128.0},
                                    {"rtx-5090", 128.0},
                                    {"rtx-3090", 128.0},
                                    {"a10", 128.0},
                                    {"l4", 128.0},
                                    {"rtx-a6000", 128.0},
                                    {"rtx-6000-ada", 128.0},
                                    {"rtx-pro-6000", 128.0},
                                    {"t4", 64.0},
                                    {"h800", 128.0},
                                    {"gh200", 128.0},
                                    {"h20", 128.0},
                                    {"v100-16", 64.0}}) {
    CAPTURE(name);
    const DeviceSpec d = shipped(name);
    const double clock = d.peak.at(Precision::fp32).base() / (2.0 * lanes * d.multiprocessors);
    CAPTURE(clock);
    CHECK(clock > 1.3e9);
    CHECK(clock < 2.7e9);
  }
}

// Tensor cores of GeForce cards sum 16-bit products in fp32 at half the rate of professional cards with the same chip:
// AD102 has 512 operations a clock and multiprocessor there, 1024 on RTX 6000 Ada (Ada white paper, appendix A).
TEST_CASE("GeForce cards have half the rate with sums in fp32", "[unit][library]") {
  const auto per_lane = [](const char* name) {
    const DeviceSpec d = shipped(name);
    return d.peak.at(Precision::bf16) / d.peak.at(Precision::fp32);
  };
  CHECK(per_lane("rtx-4090") == Approx(2.0).epsilon(0.01));
  CHECK(per_lane("rtx-3090") == Approx(2.0).epsilon(0.01));
  CHECK(per_lane("rtx-5090") == Approx(2.0).epsilon(0.01));
  CHECK(per_lane("rtx-6000-ada") == Approx(4.0).epsilon(0.01));
  CHECK(per_lane("rtx-a6000") == Approx(4.0).epsilon(0.01));
  CHECK(per_lane("rtx-pro-6000") == Approx(4.0).epsilon(0.01));
}

TEST_CASE("every shipped device says where its figures are from", "[unit][library]") {
  for (const std::string& name : library.devices()) {
    CAPTURE(name);
    const DeviceSpec d = shipped(name);
    CHECK(d.source.size() > 20);
    CHECK(d.reached.empty() == d.reached_source.empty());
    Diagnostics wrong;
    const auto again = parse_device(write_device(d), "d.toml", wrong);
    CHECK(render(wrong) == "");
    REQUIRE(again);
    CHECK(*again == d);
  }
}

TEST_CASE("device.name: the figures of one device under the name of another", "[error]") {
  std::string table = write_device(shipped("h100"));
  table = table.substr(table.find("[device]"));
  for (std::size_t at = table.find("[device"); at != std::string::npos; at = table.find("[device", at + 12))
    table.replace(at, 7, "[cluster.device");
  CHECK(said_of(table) == "");
  std::string renamed = table;
  renamed.replace(renamed.find("\"H100\""), 6, "\"H200\"");
  CHECK(said_of(renamed) ==
        "c.toml:7:8: error: the device is called H200 and has the figures of h100 [device.name]\n"
        "    7 | name = \"H200\"\n"
        "      |        ^\n"
        "  device = \"h200\" in place of the table takes all of h200; a name of your own keeps these figures.\n");
  renamed.replace(renamed.find("\"H200\""), 6, "\"mine\"");
  CHECK(said_of(renamed) == "");
}

TEST_CASE("device.reached: more than the peak, or in a precision without one", "[error]") {
  const std::string device =
      "[cluster.device]\nname = \"x\"\nmemory = \"1 GiB\"\nmemory_bandwidth = \"1 GB/s\"\n"
      "[cluster.device.peak]\nbf16 = \"2 TFLOP/s\"\n[cluster.device.reached]\n";
  CHECK(said_of(device + "bf16 = \"1.5 TFLOP/s\"\n") == "");
  CHECK(said_of(device + "bf16 = \"3 TFLOP/s\"\n").find("3.00 TFLOP/s cannot have been reached [device.reached]") !=
        std::string::npos);
  CHECK(said_of(device + "fp32 = \"1 TFLOP/s\"\n").find("The device has no peak in fp32.") != std::string::npos);
}
