#include <catch2/catch.hpp>

#include <algorithm>

#include "core/base/units_text.hpp"
#include "sim/net/fabric.hpp"
#include "sim/net/import/gpu_links.hpp"
#include "sim/net/import/import.hpp"

// GPUs whose kind the file itself says.

using namespace orrery;

namespace {

std::optional<Imported> imported(const std::string& text, Diagnostics& d, const char* gpu = nullptr) {
  const auto kind = import_kind_of(text);
  REQUIRE(kind);
  ImportOptions options;
  if (gpu != nullptr) options.gpu = gpu;
  return import_fabric(*kind, text, "given", options, d);
}

/// Bandwidth of the link that two GPUs have for themselves.
std::string direct(const Imported& i, std::uint32_t from, std::uint32_t to) {
  const Fabric f(i.fabric);
  std::vector<LinkId> route;
  f.route(from, to, PathRule::by_destination, 0, route);
  REQUIRE(route.size() == 1);
  return exact_text(f.link(route.front()).bandwidth);
}

const std::string pairs =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV4\tSYS\tSYS\t0-31\t0\nGPU1\tNV4\t X \tSYS\tSYS\t0-31\t0\n"
    "GPU2\tSYS\tSYS\t X \tNV4\t32-63\t1\nGPU3\tSYS\tSYS\tNV4\t X \t32-63\t1\n";

}  // namespace

// A bridge of RTX A6000 has four links of 14.0625 GB/s each way: GA102 white paper.
TEST_CASE("a listing beside the matrix says which GPUs these are", "[unit][net]") {
  for (const std::string listing :
       {"GPU 0: NVIDIA RTX A6000 (UUID: GPU-a1000000-h100-0000)\nGPU 1: NVIDIA RTX A6000 (UUID: GPU-1)\n",
        "|   0  NVIDIA RTX A6000               Off |   00000000:4E:00.0 Off |                  Off |\n"}) {
    Diagnostics d;
    const auto i = imported(listing + pairs, d);
    INFO(render(d));
    REQUIRE(i);
    CHECK(direct(*i, 0, 1) == "56.25 GB/s");
    CHECK(std::find(i->notes.begin(), i->notes.end(), "the file calls its GPUs a6000") != i->notes.end());
  }
}

TEST_CASE("--gpu overrules the listing, and without either the matrix is refused", "[unit][net]") {
  Diagnostics d;
  const auto i = imported("GPU 0: NVIDIA RTX A6000\n" + pairs, d, "a100");
  REQUIRE(i);
  CHECK(direct(*i, 0, 1) == "100 GB/s");
  CHECK_FALSE(imported(pairs, d));
  CHECK(render(d).find("the matrix does not say which GPUs these are") != std::string::npos);
}

TEST_CASE("two kinds of GPUs in one listing are refused", "[error]") {
  Diagnostics d;
  CHECK_FALSE(imported("GPU 0: NVIDIA RTX A6000\nGPU 1: NVIDIA GeForce RTX 3090\n" + pairs, d));
  CHECK(render(d) ==
        "given:2:1: error: the file names GPUs of two kinds [import.gpu]\n"
        "    2 | GPU 1: NVIDIA GeForce RTX 3090\n      | ^\n"
        "  They are a6000 and rtx-3090; --gpu says which links count.\n");
}

TEST_CASE("names of listings are whole words, and the longest counts", "[unit][net]") {
  using importing::gpu_links_in;
  for (const auto& [line, name] : {std::pair{"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)", "a100"},
                                   {"GPU 0: NVIDIA H100 80GB HBM3", "h100"},
                                   {"GPU 0: Tesla V100-SXM2-16GB", "v100"},
                                   {"| 0  NVIDIA GeForce RTX 4090  Off |", "rtx-4090"},
                                   {"GPU 0: NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"},
                                   {"GPU 0: NVIDIA GB200", "gb200"},
                                   {"GPU 0: NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"}}) {
    CAPTURE(line);
    REQUIRE(gpu_links_in(line) != nullptr);
    CHECK(gpu_links_in(line)->name == name);
  }
  for (const char* line : {"GPU 0: NVIDIA GH200 480GB", "# nvidia-smi topo -m of an h100", "GPU0  X  NV18"}) {
    CAPTURE(line);
    CHECK(gpu_links_in(line) == nullptr);
  }
}

TEST_CASE("a matrix of an old driver says SOC for SYS", "[unit][net]") {
  const std::string by = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t";
  const std::string old = by + "SOC\t0-9\nGPU1\tSOC\t X \t10-19\n", now = by + "SYS\t0-9\nGPU1\tSYS\t X \t10-19\n";
  Diagnostics d;
  const auto one = imported(old, d, "l40s"), other = imported(now, d, "l40s");
  INFO(render(d));
  REQUIRE((one && other));
  CHECK(one->fabric == other->fabric);
}

// H800 has 8 links of 25 GB/s; PCI device 0x2324.
TEST_CASE("PCI devices of a skeleton say which GPUs these are", "[unit][net]") {
  const auto skeleton = [](const std::string& device) {
    std::string text = "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"GenuineIntel\">\n";
    for (const char* bus : {"0000:18:00.0", "0000:2a:00.0"}) {
      text += std::string("<pci busid=\"") + bus + "\" class=\"0x030200\" vendor=\"0x10de\" device=\"" + device +
              "\" link_speed=\"32.0 GT/s\" link_width=\"16\"/>\n";
    }
    return text + "</cpu>\n</system>\n";
  };
  Diagnostics d;
  const auto i = imported(skeleton("0x2324"), d);
  INFO(render(d));
  REQUIRE(i);
  CHECK(std::find(i->notes.begin(), i->notes.end(), "the GPUs are h800 by their PCI device") != i->notes.end());
  CHECK(std::find(i->notes.begin(), i->notes.end(), "the 8 NVLinks of each h800 lead to NVSwitches") != i->notes.end());
  CHECK_FALSE(imported(skeleton("0x9999"), d));
}
