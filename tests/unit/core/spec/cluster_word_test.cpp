#include "core/spec/cluster_word.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "core/spec/spec_files.hpp"

using namespace orrery;

namespace {

const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

ClusterSpec built(const std::string& word, std::optional<std::uint32_t> gpus = std::nullopt) {
  CAPTURE(word);
  Diagnostics d;
  const auto c = library.cluster(word, ".", gpus, d);
  CHECK(render(d) == "");
  REQUIRE(c);
  return *c;
}

std::string refused(const std::string& word) {
  Diagnostics d;
  CHECK_FALSE(library.cluster(word, ".", std::nullopt, d));
  return render(d);
}

/// "nvlink 8 x 450, network 4 x 50": sizes and bandwidths in GB/s.
std::string levels(const ClusterSpec& c) {
  std::string out;
  for (const NetworkLevel& l : c.levels) {
    std::string rate = std::to_string(l.bandwidth.base() / 1e9);
    rate.erase(rate.find_last_not_of('0') + 1);
    if (rate.ends_with('.')) rate.pop_back();
    out += (out.empty() ? "" : ", ") + l.name + " " + std::to_string(l.size) + " x " + rate;
  }
  return out;
}

}  // namespace

// NVLink 4 carries 18 links of 25 GB/s each way, and a port of 400 Gbit/s is 50 GB/s.
TEST_CASE("a cluster in one word has the links of its device, and a port for each", "[unit][library]") {
  const ClusterSpec c = built("h200:8x4");
  CHECK(c.devices() == 32);
  CHECK(c.nodes == 4);
  CHECK(c.device.name == "H200");
  CHECK(levels(c) == "nvlink 8 x 450, network 4 x 50");
  CHECK(c.levels.front().switches == SwitchSum::nvls);
  CHECK(levels(built("h200:4")) == "nvlink 4 x 450, network 1 x 50");
  CHECK(levels(built("h200:8x4@100 Gbit/s")) == "nvlink 8 x 450, network 4 x 12.5");
  CHECK(built("h200:8x4").assumed == std::vector<std::string>{"nvlink carries 450 GB/s each way for each device",
                                                              "a network port of 50.0 GB/s each way for each device "
                                                              "(--nic names another)"});
}

// NCCL counts 24 GB/s for 16 lanes of PCIe 4.0; four cards of a processor share 22 GB/s to the other one, and eight the
// port of their box: 12.5 GB/s / 8.
TEST_CASE("cards are joined by PCIe, and share the way between processors and the port", "[unit][library]") {
  CHECK(levels(built("l40s:4")) == "pcie 4 x 24, network 1 x 3.125");
  CHECK(levels(built("l40s:8")) == "pcie 4 x 24, sockets 2 x 5.5, network 1 x 1.5625");
  CHECK(levels(built("l40s:8x2")) == "pcie 4 x 24, sockets 2 x 5.5, network 2 x 1.5625");
  CHECK(levels(built("t4:2")) == "pcie 2 x 12, network 1 x 6.25");
  CHECK(levels(built("rtx-5090:6")) == "pcie 3 x 48, sockets 2 x 7.333333, network 1 x 2.083333");
}

TEST_CASE("boxes of every shipped device exist in every size that its links join", "[unit][library]") {
  for (const std::string& name : library.devices()) {
    Diagnostics d;
    const auto device = library.device(name, d);
    REQUIRE(device);
    if (!device->links) continue;
    const DeviceLinks& l = *device->links;
    const std::uint32_t host = l.per_node > 0 ? l.per_node : 1, most = l.name.empty() ? 8 : l.most;
    for (std::uint32_t n = 1; n <= most; ++n) {
      if (n > host && n % host != 0) continue;
      CAPTURE(name, n);
      CHECK(built(name + ":" + std::to_string(n)).devices() == n);
      CHECK(built(name + ":" + std::to_string(n) + "x2").devices() == 2 * n);
    }
  }
}

// A rack of GB200 NVL72 has 18 trays of four; 32 trays are two racks of 16.
TEST_CASE("links that join hosts make racks of as many as fit, all alike", "[unit][library]") {
  CHECK(levels(built("gb200:72")) == "nvlink tray 4 x 900, nvlink rack 18 x 900, network 1 x 50");
  CHECK(levels(built("gb200:72x2")) == "nvlink tray 4 x 900, nvlink rack 18 x 900, network 2 x 50");
  CHECK(levels(built("gb200:4x32")) == "nvlink tray 4 x 900, nvlink rack 16 x 900, network 2 x 50");
  CHECK(levels(built("gb200:4")) == "nvlink 4 x 900, network 1 x 50");
}

TEST_CASE("a shipped NVL72 takes all 72, and multiples of 64", "[unit][library]") {
  for (const auto& [gpus, rack] : {std::pair{64U, 16U}, {72U, 18U}, {68U, 17U}, {128U, 16U}, {144U, 18U}}) {
    CAPTURE(gpus);
    CHECK(built("gb200-nvl72", gpus).levels[1].size == rack);
    CHECK(built("gb300-nvl72", gpus).devices() == gpus);
  }
}

TEST_CASE("--gpus adds boxes of a cluster in one word, or takes part of one", "[unit][library]") {
  CHECK(levels(built("h100:8", 32)) == "nvlink 8 x 450, network 4 x 50");
  CHECK(levels(built("l40s:8", 2)) == "pcie 2 x 24, sockets 1 x 5.5, network 1 x 1.5625");
}

TEST_CASE("devices have the names that people call them by", "[unit][library]") {
  for (const auto& [spelling, name] : {std::pair{"4090", "rtx-4090"},
                                       {"RTX 4090", "rtx-4090"},
                                       {"NVIDIA GeForce RTX 4090", "rtx-4090"},
                                       {"A6000", "rtx-a6000"},
                                       {"Tesla T4", "t4"},
                                       {"H100", "h100"},
                                       {"MI300X", "mi300x"}}) {
    CAPTURE(spelling);
    CHECK(library.device_named(spelling) == std::string(name));
  }
  CHECK_FALSE(library.device_named("a100"));  // 40 or 80 GB
}

TEST_CASE("a word is no path, and a path is no word", "[unit][library]") {
  CHECK(is_cluster_word("h200:8x4@400 Gbit/s"));
  CHECK_FALSE(is_path("h200:8x4@400 Gbit/s"));
  CHECK_FALSE(is_cluster_word("folder/h200:8"));
  CHECK_FALSE(is_cluster_word("h200"));
  CHECK(with_port("h200:8@1 Gbit/s", "2 Gbit/s") == "h200:8@2 Gbit/s");
  CHECK(with_port("h200:8", "") == "h200:8");
}

TEST_CASE("cluster.word: boxes that nobody sells, and words that cannot be read", "[error]") {
  CHECK(refused("h200:8y4") ==
        "error: \"h200:8y4\" describes no cluster [cluster.word]\n"
        "  DEVICE:COUNT, DEVICE:COUNTxBOXES or either with @PORT is right: h200:8x4, l40s:8@100 Gbit/s.\n");
  CHECK(refused("h100:12") == "error: a box of H100 has 1 to 8, not 12 [cluster.word]\n  h100:8x1 is the nearest.\n");
  CHECK(refused("h100:0") == "error: a box of H100 has 1 to 8, not 0 [cluster.word]\n  h100:1x1 is the nearest.\n");
  CHECK(refused("gb200:6") == "error: 6 of GB200 do not fill hosts of 4 [cluster.word]\n  4 do.\n");
  CHECK(refused("h100:8x2@fast") ==
        "error: the port \"fast\" cannot be read [cluster.word]\n  \"100 Gbit/s\" would be right.\n");
  CHECK(refused("cpu-core:4") ==
        "error: cpu-core is sold in no box that is known [cluster.word]\n"
        "  Its file has no [device.links]; a cluster file describes any machine.\n");
  CHECK(refused("h1000:8").find("no device is named \"h1000\" [library.unknown-device]\n  Nearest names: h100") !=
        std::string::npos);
}

TEST_CASE("every shipped cluster takes one GPU, a box, and two boxes where it has a network", "[unit][library]") {
  for (const std::string& name : library.clusters()) {
    CAPTURE(name);
    Diagnostics d;
    const auto c = library.cluster(name, ".", std::nullopt, d);
    REQUIRE(c);
    CHECK(library.cluster(name, ".", c->devices_per_node, d));
    CHECK_FALSE(c->source.empty());
    if (c->price_per_gpu_hour) CHECK_FALSE(c->price_source.empty());
    CHECK(render(d) == "");
  }
}
