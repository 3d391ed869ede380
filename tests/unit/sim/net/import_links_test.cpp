#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units_text.hpp"
#include "sim/net/fabric.hpp"
#include "sim/net/import/import.hpp"

// How fast imported GPUs reach each other, compared with datasheets: one NVLink of H100 is 25 GB/s each way, and so on.

using namespace orrery;

namespace {

std::optional<Imported> import(ImportKind kind, const std::string& text, const ImportOptions& options, Diagnostics& d) {
  return import_fabric(kind, text, "x", options, d);
}
Imported dump(const std::string& cpus, const ImportOptions& options = {}) {
  Diagnostics d;
  auto out = import(ImportKind::nccl_topology, "<system version=\"1\">" + cpus + "</system>", options, d);
  INFO(render(d));
  REQUIRE(out);
  return *out;
}
Imported table(const std::string& text, const ImportOptions& options) {
  Diagnostics d;
  auto out = import(ImportKind::smi_topology, text, options, d);
  INFO(render(d));
  REQUIRE(out);
  return *out;
}
std::string refused(ImportKind kind, const std::string& text, const ImportOptions& options = {}) {
  Diagnostics d;
  CHECK_FALSE(import(kind, text, options, d));
  return render(d);
}
ImportOptions gpu(const char* name) {
  ImportOptions out;
  out.gpu = name;
  return out;
}

/// The bandwidth of every wire of a node between two of its vertices, not added up: "450 GB/s", or one for each of
/// several.
std::string between(const Imported& i, const std::string& a, const std::string& b) {
  const NodeWiring& node = i.fabric.node;
  std::string out;
  for (const Wire& w : node.wires) {
    const std::string &one = node.vertices[w.a], &other = node.vertices[w.b];
    if ((one == a && other == b) || (one == b && other == a)) {
      out += (out.empty() ? "" : ", ") + exact_text(w.link.bandwidth);
    }
  }
  return out;
}
/// The narrowest link on the way from one GPU to another.
std::string narrowest(const Imported& i, std::uint32_t from, std::uint32_t to) {
  const Fabric f(i.fabric);
  std::vector<LinkId> route;
  f.route(from, to, PathRule::by_destination, 0, route);
  Bandwidth least = f.link(route.front()).bandwidth;
  for (const LinkId l : route) least = std::min(least, f.link(l).bandwidth);
  return exact_text(least);
}
bool notes(const Imported& i, const std::string& text) {
  return std::any_of(i.notes.begin(), i.notes.end(), [&](const std::string& n) { return n == text; });
}

std::string cpu(const std::string& inside) {
  return "<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">" + inside + "</cpu>";
}
std::string dumped(const char* bus, int rank, const char* attributes, const std::string& rows) {
  return fmt::format(
      "<pci busid=\"{}\" class=\"0x030200\" link_speed=\"32.0 GT/s\" link_width=\"16\"><gpu dev=\"{}\" rank=\"{}\" "
      "{}>{}"
      "</gpu></pci>",
      bus, rank, rank, attributes, rows);
}
std::string row(const char* target, int count, const char* tclass = "0x030200", const char* element = "nvlink") {
  return fmt::format("<{} target=\"{}\" count=\"{}\" tclass=\"{}\"/>", element, target, count, tclass);
}

}  // namespace

// NCCL collapses NVSwitches into one and adds up the links to it: 4 + 5 + 5 + 4 = 18 links of 25 GB/s are H100's 450.
TEST_CASE("a dump's rows to several NVSwitches add up, and so do a row for all of them and none's class",
          "[unit][net]") {
  const std::string four = row("0000:05:00.0", 4, "0x068000") + row("0000:06:00.0", 5, "0x068000") +
                           row("0000:07:00.0", 5, "0x068000") + row("0000:08:00.0", 4, "0x068000");
  const Imported i =
      dump(cpu(dumped("0000:18:00.0", 0, "sm=\"90\"", four) +
               dumped("0000:2a:00.0", 1, "sm=\"90\"", row("fffffff:ffff:ff", 18, "0x068000")) +
               dumped("0000:3a:00.0", 2, "sm=\"90\"", "<nvlink target=\"0000:05:00.0\" count=\"18\"/>")));
  for (const char* g : {"gpu0", "gpu1", "gpu2"}) CHECK(between(i, g, "nvswitch") == "450 GB/s");
  CHECK(narrowest(i, 0, 1) == "450 GB/s");
}

TEST_CASE("a dump's rows between two GPUs add up, whatever case their buses are in", "[unit][net]") {
  const Imported i = dump(cpu(dumped("0000:0A:00.0", 0, "sm=\"80\"", row("0000:0b:00.0", 4) + row("0000:0b:00.0", 8)) +
                              dumped("0000:0b:00.0", 1, "sm=\"80\"", row("0000:0a:00.0", 12))));
  CHECK(between(i, "gpu0", "gpu1") == "300 GB/s");  // A100: 12 x 25
  CHECK(refused(ImportKind::nccl_topology,
                "<system version=\"1\">" +
                    cpu(dumped("0a", 0, "sm=\"80\"", row("0b", 4)) + dumped("0b", 1, "sm=\"80\"", row("0a", 2))) +
                    "</system>")
            .find("error: gpu0 and gpu1 do not agree how many NVLinks join them [import.value]") != std::string::npos);
  // Sums do not exceed the links of a GPU.
  CHECK(refused(ImportKind::nccl_topology,
                "<system version=\"1\">" +
                    cpu(dumped("0a", 0, "sm=\"80\"", row("0b", 9) + row("0b", 4)) + dumped("0b", 1, "sm=\"80\"", "")) +
                    "</system>")
            .find("  Its rows sum up to 13; a100 has 12.\n") != std::string::npos);
}

// Two GeForce RTX 3090: four links of 14.0625 GB/s each way (NVIDIA Ampere GA102 white paper).
TEST_CASE("a bridge between two cards is as wide as its links", "[unit][net]") {
  const Imported i = dump(cpu(dumped("01", 0, "sm=\"86\"", row("41", 4)) + dumped("41", 1, "sm=\"86\"", row("01", 4))));
  CHECK(between(i, "gpu0", "gpu1") == "56.25 GB/s");
  CHECK(between(table("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n", gpu("a6000")), "gpu0", "gpu1") == "56.25 GB/s");
}

// A process that sees two of the eight GPUs of a DGX-1V: one link joins these, five lead elsewhere.
TEST_CASE("links to GPUs that a process did not see are left out, and told", "[unit][net]") {
  const Imported i = dump(cpu(dumped("06", 0, "sm=\"70\"", row("07", 1) + row("0a", 1) + row("85", 2)) +
                              dumped("07", 1, "sm=\"70\"", row("06", 1) + row("86", 2))));
  CHECK(between(i, "gpu0", "gpu1") == "25 GB/s");
  CHECK(notes(i, "3 links of gpu0 lead to GPUs that this file does not have, and are left out"));
  CHECK(notes(i, "2 links of gpu1 lead to GPUs that this file does not have, and are left out"));
}

// AMD: an Infinity Fabric link of MI300X is 128 GB/s both ways, of MI250X 100.
TEST_CASE("RCCL's dumps have xGMI links, as fast as the GPU's", "[unit][net]") {
  const auto two = [&](const char* gcn) {
    const std::string attributes = fmt::format("sm=\"228\" gcn=\"{}\"", gcn);
    Diagnostics d;
    auto out = import(ImportKind::nccl_topology,
                      "<system version=\"2\">" +
                          cpu(dumped("82", 0, attributes.c_str(), row("c2", 1, "0x120000", "xgmi")) +
                              dumped("c2", 1, attributes.c_str(), row("82", 1, "0x120000", "xgmi"))) +
                          "</system>",
                      {}, d);
    INFO(render(d));
    REQUIRE(out);
    return between(*out, "gpu0", "gpu1");
  };
  CHECK(two("942") == "64 GB/s");
  CHECK(two("gfx942:sramecc+:xnack-") == "64 GB/s");
  CHECK(two("910") == "50 GB/s");  // as it was called at first
  CHECK(two("gfx90a") == "50 GB/s");
  CHECK(refused(ImportKind::nccl_topology, "<system version=\"2\">" +
                                               cpu(dumped("1", 0, "gcn=\"803\"", row("2", 1, "0x120000", "xgmi"))) +
                                               "</system>")
            .find("error: the speed of this GPU's links is not known [import.gpu]") != std::string::npos);
}

TEST_CASE("a dump without links between GPUs that have them says so; one of several machines is refused",
          "[unit][net]") {
  const Imported i = dump(cpu(dumped("1", 0, "sm=\"90\"", "") + dumped("2", 1, "sm=\"90\"", "")));
  CHECK(notes(i, "no GPU has a row of NVLinks or xGMI links, so that PCIe alone joins them"));
  CHECK(
      refused(ImportKind::nccl_topology,
              "<system version=\"1\"><cpu host_hash=\"0x1\"/><cpu host_hash=\"0x2\"/></system>") ==
      "x:1:2: error: this dump covers several machines; only a dump of one can be read [import.nodes]\n    1 | <system "
      "version=\"1\"><cpu host_hash=\"0x1\"/><cpu host_hash=\"0x2\"/></system>\n      |  ^\n"
      "  Its <cpu> have 2 different values of host_hash.\n");
}

// Tables of drivers before 470 have no column of NUMA nodes: the cores tell the sockets.
TEST_CASE("GPUs of other cores hang on another socket where there is no column of NUMA nodes", "[unit][net]") {
  const Imported i = table(
      "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity\nGPU0\t X \tNV2\tPIX\tSYS\t0-19\nGPU1\tNV2\t X \tSYS\tPIX\t20-39\n"
      "mlx5_0\tPIX\tSYS\t X \tSYS\nmlx5_1\tSYS\tPIX\tSYS\t X \n",
      gpu("v100"));
  CHECK(between(i, "gpu0", "gpu1") == "50 GB/s");
  CHECK(between(i, "switch0", "host0") == "15.75 GB/s");
  CHECK(between(i, "switch1", "host1") == "15.75 GB/s");
  CHECK(between(i, "host0", "host1") == "22 GB/s");
  // The same cores: one socket.
  const Imported one = table("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV2\t0-9\nGPU1\tNV2\t X \t0-9\n", gpu("v100"));
  CHECK(between(one, "gpu1", "host0") == "15.75 GB/s");
  // Nothing says where they are, and nothing says that they are apart.
  CHECK(between(table("\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n", gpu("v100")), "gpu1", "host0") == "15.75 GB/s");
}

TEST_CASE("SYS between a GPU and a NIC of one NUMA node is taken, with a note", "[unit][net]") {
  const Imported i = table(
      "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tPIX\t0-47\t0\nGPU1\tNV18\t X \tSYS\t0-47\t0\n"
      "NIC0\tPIX\tSYS\t X \t\t\n",
      gpu("h100"));
  CHECK(between(i, "gpu1", "host0") == "63 GB/s");
  CHECK(between(i, "gpu0", "gpu1") == "450 GB/s");
  CHECK(notes(i, "GPU1 and NIC0 are SYS apart in one NUMA node, and meet at its processor"));
  // If they are two nodes, that contradicts what lies between them.
  CHECK(refused(ImportKind::smi_topology,
                "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\tNODE\t0-9\t0\nGPU1\tSYS\t X "
                "\tNODE\t10-19\t1\nNIC0\tNODE\tNODE\t X \t\t\n",
                gpu("h100"))
            .find("error: GPU1 and GPU0 are far apart, but both are near to the same device [import.matrix]") !=
        std::string::npos);
}

// Two GPUs with a NIC each below their switches, and two NICs of a socket of their own.
TEST_CASE("NICs that are too many and far from every GPU are left out, with a note", "[unit][net]") {
  const std::string text =
      "\tGPU0\tGPU1\tNIC0\tmlx5_1\tNIC2\tCPU Affinity\tNUMA Affinity\n"
      "GPU0\t X \tNV12\tPXB\tSYS\tSYS\t0-9\t0\nGPU1\tNV12\t X \tSYS\tSYS\tPXB\t10-19\t1\n"
      "NIC0\tPXB\tSYS\t X \tSYS\tSYS\nmlx5_1\tSYS\tSYS\tSYS\t X \tSYS\nNIC2\tSYS\tPXB\tSYS\tSYS\t X \n";
  ImportOptions a100 = gpu("a100");
  const Imported by_itself = table(text, a100);
  CHECK(by_itself.fabric.node.nics == 2);
  CHECK(notes(by_itself,
              "NICs far from every GPU, often those for storage, are left out: mlx5_1; --without names others"));
  a100.without = {"mlx5_1"};
  // Named, it goes with its socket, which stays where nobody named it. All else is the same.
  const NodeWiring named = table(text, a100).fabric.node, &left = by_itself.fabric.node;
  CHECK(named.nics == left.nics);
  // The socket's host is the last vertex, and joins the two others.
  CHECK(named.vertices.size() + 1 == left.vertices.size());
  CHECK(named.wires.size() + 2 == left.wires.size());
  a100.without = {"NIC7"};
  CHECK(refused(ImportKind::smi_topology, text, a100) ==
        "x:1:2: error: there is no NIC \"NIC7\" to leave out [import.nics]\n    1 | "
        "\tGPU0\tGPU1\tNIC0\tmlx5_1\tNIC2\tCPU "
        "Affinity\tNUMA Affinity\n      | \t^\n  The first that is left is NIC0.\n");
  // All NICs are alike, so it names as many as are too many.
  CHECK(refused(ImportKind::smi_topology,
                "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\nGPU0\t X \tPHB\tPHB\tPHB\tPHB\nGPU1\tPHB\t X \tPHB\tPHB\tPHB\n"
                "NIC0\tPHB\tPHB\t X \tPHB\tPHB\nNIC1\tPHB\tPHB\tPHB\t X \tPHB\nNIC2\tPHB\tPHB\tPHB\tPHB\t X \n",
                gpu("l40s"))
            .find("  1 of them would have to be left out, such as these: --without NIC2\n") != std::string::npos);
}

TEST_CASE("a matrix without NVLinks of GPUs that have them is no silent machine of PCIe", "[unit][net]") {
  const std::string text = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNODE\tNODE\nGPU1\tNODE\t X \tNODE\nGPU2\tNODE\tNODE\t X \n";
  CHECK(
      refused(ImportKind::smi_topology, text, gpu("h800")) ==
      "x:1:2: error: the matrix shows no NVLink, and h800 has 8 [import.nvlinks]\n    1 | \tGPU0\tGPU1\tGPU2\n      | "
      "\t^\n  `nvidia-smi topo -m` shows them; `topo -mp` leaves them out.\n"
      "  --nvlinks 8 says that all NVLinks of each GPU lead to NVSwitches; --nvlinks 0, that these are cards "
      "without.\n");
  ImportOptions told = gpu("h800");
  told.nvlinks = 8;
  CHECK(between(table(text, told), "gpu2", "nvswitch") == "200 GB/s");  // 400 GB/s both ways
  told.nvlinks = 0;
  CHECK(narrowest(table(text, told), 0, 1) == "63 GB/s");
  told.nvlinks = 9;
  CHECK(
      refused(ImportKind::smi_topology, text, told).find("error: --nvlinks 9 is more than h800 has [import.nvlinks]") !=
      std::string::npos);
  // -m also prints cards without NVLinks so; those that may have a bridge get a note.
  CHECK(narrowest(table(text, gpu("rtx-5090")), 0, 1) == "63 GB/s");
  const Imported bare = table(text, gpu("a6000"));
  CHECK(narrowest(bare, 0, 1) == "31.5 GB/s");
  CHECK(notes(bare, "no bridge joins two a6000: the matrix shows no NVLink (`topo -mp` would not)"));
  CHECK(refused(ImportKind::smi_topology, "# nvidia-smi topo -mp\n" + text, gpu("a6000"))
            .find("  --nvlinks 0 says that no bridge joins them.\n") != std::string::npos);
  ImportOptions shown = gpu("h100");
  shown.nvlinks = 18;
  CHECK(refused(ImportKind::smi_topology, "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n", shown)
            .find("error: --nvlinks is for a matrix that shows no NVLink, and this one does [import.nvlinks]") !=
        std::string::npos);
}

// A pair of GPUs over NVSwitches shows as many links as the one with fewer: one of four H100 has two links down.
TEST_CASE("a GPU with links down reaches its NVSwitches by those that are left", "[unit][net]") {
  const Imported i = table(
      "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tNV18\tNV18\tNV16\nGPU1\tNV18\t X \tNV18\tNV16\nGPU2\tNV18\tNV18\t X "
      "\tNV16\n"
      "GPU3\tNV16\tNV16\tNV16\t X \n",
      gpu("h100"));
  CHECK(between(i, "gpu0", "nvswitch") == "450 GB/s");
  CHECK(between(i, "gpu3", "nvswitch") == "400 GB/s");
}
