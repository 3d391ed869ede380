#include "sim/net/import/import.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "core/base/random.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/fabric.hpp"

using namespace orrery;

namespace {

std::string given(const std::string& name) {
  std::ifstream in(std::filesystem::path(ORRERY_SOURCE_DIR) / "tests/unit/sim/net/given" / name);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  REQUIRE_FALSE(text.empty());
  return text;
}

Imported import_text(const std::string& text, const ImportOptions& options = {}) {
  const auto kind = import_kind_of(text);
  REQUIRE(kind);
  Diagnostics d;
  auto imported = import_fabric(*kind, text, "given", options, d);
  INFO(render(d));
  REQUIRE(imported);
  return *imported;
}
Fabric imported(const std::string& name, const ImportOptions& options = {}) {
  return Fabric(import_text(given(name), options).fabric);
}

/// Names and bandwidths along the way from one GPU to another.
std::string way(const Fabric& f, std::uint32_t from, std::uint32_t to) {
  std::vector<LinkId> route;
  f.route(from, to, PathRule::by_destination, 0, route);
  std::string out;
  for (const LinkId l : route) out += f.name(l) + " " + exact_text(f.link(l).bandwidth) + "\n";
  return out;
}

/// Every link by its name, with its kind and bandwidth.
std::multiset<std::string> links(const Fabric& f) {
  std::multiset<std::string> out;
  for (std::uint32_t l = 0; l < f.links(); ++l) {
    const Link link = f.link(LinkId{l});
    out.insert(f.name(LinkId{l}) + " " + name_of(link.kind) + " " + exact_text(link.bandwidth) + " " +
               exact_text(link.latency));
  }
  return out;
}

/// The fabric that its file describes when read again.
Fabric written(const FabricSpec& spec) {
  Diagnostics d;
  const std::string text = write_fabric(spec, {"a comment\nof two lines"});
  auto again = parse_fabric(text, "again.toml", d);
  INFO(text << render(d));
  REQUIRE(again);
  CHECK(again->name == spec.name);
  CHECK(again->degraded == spec.degraded);
  return Fabric(std::move(*again));
}

/// The mistakes of an import, as a person sees them.
std::string mistakes(ImportKind kind, const std::string& text, const ImportOptions& options = {}) {
  Diagnostics d;
  CHECK_FALSE(import_fabric(kind, text, "x", options, d));
  return render(d);
}

}  // namespace

TEST_CASE("NCCL's dump of eight H100 on NVSwitches", "[unit][net]") {
  const Fabric f = imported("nccl-8-h100.xml");
  CHECK(f.spec().node.gpus == 8);
  CHECK(f.spec().node.nics == 8);
  CHECK(way(f, 0, 5) == "node 0: gpu0 -> nvswitch 450 GB/s\nnode 0: nvswitch -> gpu5 450 GB/s\n");
  CHECK(links(written(f.spec())) == links(f));
}

TEST_CASE("several nodes of a dump hang on one switch, by ports as fast as the dump says", "[unit][net]") {
  ImportOptions two;
  two.nodes = 2;
  const Fabric f = imported("nccl-8-h100.xml", two);
  // PCIe 5: 16 lanes of 32 GT/s, 128 of 130 bits.
  const std::string pcie = exact_text(Bandwidth::of(16 * (32e9 / 8 * (128.0 / 130.0))));
  CHECK(way(f, 3, 12) ==
        "node 0: gpu3 -> switch3 " + pcie + "\nnode 0: switch3 -> nic3 " + pcie +
            "\nnode 0 nic 3 -> leaf 0 50 GB/s\nleaf 0 -> node 1 nic 4 50 GB/s\nnode 1: nic4 -> switch4 " + pcie +
            "\nnode 1: switch4 -> gpu4 " + pcie + "\n");
  CHECK(links(written(f.spec())) == links(f));
}

TEST_CASE("more NICs than GPUs are taken together by the GPU that they are near", "[unit][net]") {
  ImportOptions two;
  two.nodes = 2;
  const Imported i = import_text(given("nccl-8-h100-32-nics.xml"), two);
  CHECK(i.fabric.node.nics == 8);
  CHECK(std::find(i.notes.begin(), i.notes.end(), "4 NICs of each GPU are taken together as one") != i.notes.end());
  const Fabric f(i.fabric);
  std::vector<LinkId> route;
  f.route(2, 10, PathRule::by_destination, 0, route);
  REQUIRE(route.size() == 6);
  CHECK(f.link(route[2]).bandwidth.base() == Approx(4 * 12.5e9));  // four ports of 100 Gbit/s
  CHECK(f.link(route[1]).bandwidth.base() == Approx(4 * 16 * 32e9 / 8 * 128 / 130));
  CHECK(f.name(route[1]) == "node 0: switch2 -> nic2");
}

TEST_CASE("a skeleton needs to be told its GPUs", "[unit][net]") {
  CHECK(mistakes(ImportKind::nccl_topology, given("nccl-skeleton.xml")) ==
        R"(x:2:2: error: this file has only PCI devices, not the NVLinks of its GPUs [import.gpu]
    2 | <system version="1">
      |  ^
  Name the GPU with --gpu, one of p100, v100, rtx-8000, rtx-5000, rtx-2080-ti, t4, a100, a800, a30, a40, a6000, rtx-3090, a10, l4, l40, l40s, rtx-4090, rtx-6000-ada, h100, h200, h800, h20, b200, gb200, b300, gb300, rtx-5090, rtx-pro-6000.
)");
  ImportOptions h100;
  h100.gpu = "h100";
  const Fabric f = imported("nccl-skeleton.xml", h100);
  CHECK(f.spec().node.gpus == 8);
  CHECK(f.spec().node.nics == 8);
  CHECK(links(f).count("node 0: gpu7 -> nvswitch nvlink 450 GB/s 500 ns") == 1);
  CHECK(links(f).count("node 0: host0 -> host1 socket 22 GB/s 300 ns") == 1);
}

TEST_CASE("links to the processor that keep caches coherent are wires as well", "[unit][net]") {
  const Fabric f = imported("nccl-4-gb200.xml");
  CHECK(f.spec().node.gpus == 4);
  CHECK(links(f).count("node 0: gpu2 -> host1 nvlink 223.56 GB/s 500 ns") == 1);  // 44712 MB/s x 5
  CHECK(links(f).count("node 0: gpu2 -> nvswitch nvlink 900 GB/s 500 ns") == 1);
}

TEST_CASE("the matrix of nvidia-smi: NVLinks are what is hidden in it, NICs and NUMA nodes what is below",
          "[unit][net]") {
  ImportOptions h100;
  h100.gpu = "h100";
  // Two of its ten NICs are far from every GPU.
  const Fabric by_itself = imported("smi-8-h100.txt", h100);
  h100.without = {"NIC4", "NIC9"};
  const Fabric f = imported("smi-8-h100.txt", h100);
  CHECK(f.spec().node == by_itself.spec().node);
  CHECK(f.spec().node.gpus == 8);
  CHECK(f.spec().node.nics == 8);
  CHECK(way(f, 1, 6) == "node 0: gpu1 -> nvswitch 450 GB/s\nnode 0: nvswitch -> gpu6 450 GB/s\n");
  const std::multiset<std::string> all = links(f);
  CHECK(all.count("node 0: gpu6 -> switch6 pcie 63 GB/s 200 ns") == 1);
  CHECK(all.count("node 0: nic6 -> switch6 pcie 63 GB/s 200 ns") == 1);
  CHECK(all.count("node 0: switch6 -> host1 pcie 63 GB/s 200 ns") == 1);
  CHECK(all.count("node 0: host1 -> host0 socket 22 GB/s 300 ns") == 1);
}

TEST_CASE("NVLinks that one GPU can have lead straight to its peers", "[unit][net]") {
  ImportOptions a100;
  a100.gpu = "a100";
  const Fabric f = imported("smi-4-a100-pairs.txt", a100);
  CHECK(way(f, 2, 3) == "node 0: gpu2 -> gpu3 300 GB/s\n");
  CHECK(way(f, 1, 2) ==
        "node 0: gpu1 -> host0 31.5 GB/s\nnode 0: host0 -> host1 22 GB/s\nnode 0: host1 -> gpu2 31.5 GB/s\n");
}

TEST_CASE("an even tree of Slurm is stored as a tree, of any size", "[unit][net]") {
  ImportOptions options;
  options.nic = Bandwidth::of(50e9);
  Diagnostics d;
  const auto box = parse_fabric(
      "schema = 1\n[fabric]\nname = \"box\"\nnodes = 1\nnode = { shape = \"nvswitch\", gpus = 8, nics = 8, bandwidth = "
      "\"450 GB/s\", "
      "latency = \"500 ns\", pcie_bandwidth = \"64 GB/s\", pcie_latency = \"200 ns\" }\n",
      "box.toml", d);
  REQUIRE(box);
  options.node = box->node;
  const Fabric f = imported("topology.conf", options);
  CHECK(f.gpus() == 4 * 8 * 8);
  const auto& tree = std::get<TreeNetwork>(f.spec().network);
  REQUIRE(tree.levels.size() == 2);
  CHECK(tree.levels[0].down == 64);  // 8 nodes of 8 NICs
  CHECK(tree.levels[1].down == 4);
  CHECK(tree.levels[1].link.bandwidth.base() == 64 * 50e9);
  CHECK(links(written(f.spec())) == links(f));
}

TEST_CASE("an uneven tree of Slurm is stored wire by wire", "[unit][net]") {
  ImportOptions options;
  options.nic = Bandwidth::of(50e9);
  const Fabric f = imported("topology-uneven.conf", options);
  CHECK(f.gpus() == 6);
  CHECK(way(f, 0, 3) == "nic0 -> a 50 GB/s\na -> nic3 50 GB/s\n");
  CHECK(links(f).count("a -> s1 network 100 GB/s 500 ns") == 1);  // four nodes over two spines
  CHECK(links(f).count("b -> s0 network 50 GB/s 500 ns") == 1);
  CHECK(links(written(f.spec())) == links(f));
}

TEST_CASE("a network of ASTRA-sim is written as it was read", "[unit][net]") {
  const Imported i = import_text(given("astra.yml"));
  const Fabric f(i.fabric);
  CHECK(f.gpus() == 32);
  CHECK(way(f, 0, 9) ==
        "node 0 nic 0 -> switch 1.0 400 GB/s\nswitch 1.0 -> node 1 nic 0 400 GB/s\nnode 1 nic 0 -> node 9 nic 0 50 "
        "GB/s\n");
  std::string why;
  const auto text = astra_text(i.fabric, why);
  REQUIRE(text);
  CHECK(*text ==
        "# GB/s and ns, of one link in one direction\ntopology: [ Switch, Ring ]\nnpus_count: [ 8, 4 ]\n"
        "bandwidth: [ 400, 50 ]\nlatency: [ 936.25, 1000 ]\n");
  CHECK(import_text(*text).fabric == i.fabric);
  CHECK(links(written(f.spec())) == links(f));
}

TEST_CASE("random products: routes are connected, as short as their shapes allow, and written back",
          "[property][net]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto draw = [&](std::uint64_t what, std::uint64_t below) {
      return static_cast<std::uint32_t>(random_bits(seed, what, 7) % below);
    };
    ProductNetwork network;
    FabricSpec spec;
    spec.name = "random";
    const std::uint32_t count = 1 + draw(0, 3);
    for (std::uint32_t i = 0; i < count; ++i) {
      ProductDimension d;
      d.shape = static_cast<ProductDimension::Shape>(draw(10 * i + 1, 3));
      d.size = 1 + draw(10 * i + 2, 5);
      d.link.bandwidth = Bandwidth::of(1e9 * (1 + draw(10 * i + 3, 9)));
      std::string problem;
      REQUIRE(parse_quantity(std::to_string(draw(10 * i + 4, 900)) + " ns", d.link.latency, problem));
      spec.nodes *= d.size;
      network.dimensions.push_back(d);
    }
    spec.network = network;
    const std::unique_ptr<Topology> t = product(network.dimensions);
    CAPTURE(seed);
    REQUIRE(t->links() <= links_of(network.dimensions));
    for (std::uint32_t l = 0; l < t->links(); ++l) REQUIRE(t->sides(l).from != t->sides(l).to);
    for (std::uint32_t a = 0; a < t->ends(); ++a) {
      for (std::uint32_t b = 0; b < t->ends(); ++b) {
        std::vector<std::uint32_t> route;
        t->route(a, b, {true, seed * 1000 + a}, route);
        std::uint32_t at = a, least = 0, stride = 1;
        for (const std::uint32_t l : route) {
          REQUIRE(t->sides(l).from == at);
          at = t->sides(l).to;
        }
        REQUIRE(at == b);
        for (const ProductDimension& d : network.dimensions) {
          const std::uint32_t x = a / stride % d.size, y = b / stride % d.size, gap = x > y ? x - y : y - x;
          if (gap > 0) {
            least += d.shape == ProductDimension::Shape::full       ? 1
                     : d.shape == ProductDimension::Shape::switched ? 2
                                                                    : std::min(gap, d.size - gap);
          }
          stride *= d.size;
        }
        REQUIRE(route.size() == least);
      }
    }
    std::string why;
    const auto text = astra_text(spec, why);
    REQUIRE(text);
    const auto again = import_text(*text);
    CHECK(links(Fabric(again.fabric)) == links(Fabric(spec)));
    if (spec.nodes > 1) CHECK(links(written(spec)) == links(Fabric(spec)));
  }
}

TEST_CASE("what is drawn for Graphviz reads back, and is drawn the same", "[unit][net]") {
  ImportOptions two;
  two.nodes = 2;
  for (const Fabric& f :
       {imported("nccl-8-h100.xml", two), imported("nccl-8-h100.xml"), imported("nccl-4-gb200.xml", two)}) {
    const std::string drawn = dot_of(f);
    const Imported i = import_text(drawn);
    CHECK(i.fabric.gpus() == f.gpus());
    CHECK(i.fabric.nics() == f.spec().nics());
    // Cable by cable: the tree's cables are wires now, whose ends have the NICs' numbers.
    CHECK(links(Fabric(i.fabric)).size() == links(f).size());
    CHECK(dot_of(Fabric(import_text(dot_of(Fabric(i.fabric))).fabric)) == dot_of(Fabric(i.fabric)));
  }
}

TEST_CASE("import.*: one wrong input for each, and what a person sees", "[error][net]") {
  using K = ImportKind;
  ImportOptions h100, nic;
  h100.gpu = "h100";
  nic.nic = Bandwidth::of(50e9);
  const std::string system = "<system version=\"1\"><cpu numaid=\"0\">";
  CHECK(mistakes(K::nccl_topology, "<system version=\"1\">\n<cpu>") ==
        "x:2:5: error: not valid XML: Start-end tags mismatch [import.syntax]\n    2 | <cpu>\n      |     ^\n");
  CHECK(mistakes(K::nccl_topology, "<graphs version=\"1\"/>") ==
        "x:1:1: error: this is not a topology of NCCL [import.kind]\n    1 | <graphs version=\"1\"/>\n      | ^\n"
        "  Its root element must be <system>.\n");
  CHECK(mistakes(K::nccl_topology, "<system version=\"3\"/>")
            .find("error: the version of this topology is not known [import.version]") != std::string::npos);
  CHECK(mistakes(K::nccl_topology, system + "<pci class=\"0x030200\"/></cpu></system>")
            .find("error: a device has no busid [import.bus]") != std::string::npos);
  CHECK(mistakes(K::nccl_topology, system + "</cpu></system>").find("error: there is no GPU [import.gpus]") !=
        std::string::npos);
  const std::string gpu = "<pci busid=\"1\" class=\"0x030200\"><gpu dev=\"0\" sm=\"90\" rank=\"0\">";
  CHECK(mistakes(K::nccl_topology,
                 system + gpu + "<nvlink target=\"9\" count=\"4\" tclass=\"0x010802\"/></gpu></pci></cpu></system>")
            .find("error: an <nvlink> leads to no GPU, NVSwitch or processor [import.target]") != std::string::npos);
  CHECK(mistakes(K::nccl_topology,
                 system + gpu + "<nvlink target=\"9\" count=\"0\" tclass=\"0x030200\"/></gpu></pci></cpu></system>")
            .find("error: an <nvlink> does not say how many links it stands for [import.value]") != std::string::npos);
  CHECK(mistakes(K::nccl_topology,
                 system + gpu + "</gpu></pci>" +
                     "<pci busid=\"2\" class=\"0x030200\"><gpu dev=\"0\" rank=\"1\"/></pci></cpu></system>")
            .find("error: two GPUs have dev 0 [import.device]") != std::string::npos);
  std::string deep = system;
  for (int i = 0; i < 40; ++i) deep += "<pci busid=\"" + std::to_string(i) + "\" class=\"0x060400\">";
  for (int i = 0; i < 40; ++i) deep += "</pci>";
  CHECK(mistakes(K::nccl_topology, deep + "</cpu></system>").find("[import.depth]") != std::string::npos);
  ImportOptions unknown;
  unknown.gpu = "tpu";
  CHECK(mistakes(K::nccl_topology, "", unknown) ==
        "error: nothing is known of the links of \"tpu\" [import.gpu]\n  Known: p100, v100, rtx-8000, rtx-5000, "
        "rtx-2080-ti, t4, a100, a800, a30, a40, a6000, rtx-3090, a10, l4, l40, l40s, rtx-4090, rtx-6000-ada, h100, "
        "h200, h800, h20, b200, gb200, b300, gb300, rtx-5090, rtx-pro-6000.\n");
  ImportOptions many;
  many.nodes = 1U << 20;
  CHECK(mistakes(K::nccl_topology, given("nccl-8-h100.xml"), many)
            .find("error: the fabric has too many GPUs [import.size]") != std::string::npos);
  h100.nodes = 2;
  CHECK(mistakes(K::nccl_topology, given("nccl-skeleton.xml"), h100)
            .find("error: the file does not say how fast the NICs are [import.nic]") != std::string::npos);

  CHECK(mistakes(K::smi_topology, "\tGPU0\tGPU1\nGPU0\t X \tNV\nGPU1\tSYS\t X \n", h100) ==
        "x:2:10: error: a cell of the matrix cannot be read [import.matrix]\n    2 | GPU0\t X \tNV\n      |     \t   "
        "\t^\n"
        "  It is \"NV\"; X stands on the diagonal, and elsewhere PIX, PXB, PHB, NODE, SYS or NV1 to NV36.\n");
  CHECK(mistakes(K::smi_topology, "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tPIX\t X \n", h100)
            .find("error: GPU1 and GPU0 have two different cells [import.matrix]") != std::string::npos);
  CHECK(mistakes(K::smi_topology, "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tPIX\tSYS\nGPU1\tPIX\t X \tPIX\nGPU2\tSYS\tPIX\t X \n",
                 h100)
            .find("error: GPU2 and GPU0 are far apart, but both are near to the same device [import.matrix]") !=
        std::string::npos);

  CHECK(mistakes(K::slurm_topology, "SwitchName=s Nodes=n[0-3\n", nic) ==
        "x:1:14: error: the list \"n[0-3\" cannot be read [import.hostlist]\n    1 | SwitchName=s Nodes=n[0-3\n      | "
        "             ^\n"
        "  A bracket has no other one.\n  n[0-3,7],m1 would be right.\n");
  CHECK(mistakes(K::slurm_topology, "SwitchName=s Nods=n0\n", nic)
            .find("error: the key \"Nods=n0\" is not known [import.key]") != std::string::npos);
  CHECK(mistakes(K::slurm_topology, "SwitchName=s Switches=t\n", nic)
            .find("error: there is no switch t [import.switch]") != std::string::npos);
  CHECK(mistakes(K::slurm_topology, "SwitchName=s Nodes=n0\nSwitchName=t Nodes=n0\n", nic)
            .find("error: node n0 hangs on two switches [import.node]") != std::string::npos);
  CHECK(mistakes(K::slurm_topology, "SwitchName=s Switches=t\nSwitchName=t Switches=s\n", nic).find("[import.depth]") !=
        std::string::npos);

  CHECK(mistakes(K::astra_network, "topology: [ Ring ]\nnpus_count: [ 8.5 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n") ==
        "x:2:15: error: a value of npus_count cannot be read [import.value]\n    2 | npus_count: [ 8.5 ]\n      |      "
        "         ^\n"
        "  It is \"8.5\"; a whole number from 1 to 1048576 would be right.\n");
  CHECK(mistakes(K::astra_network, "topology: [ Ring ]\n").find("error: npus_count is missing [import.missing]") !=
        std::string::npos);

  CHECK(mistakes(K::dot_graph,
                 "graph { gpu0 -- nic0 [bandwidth=\"1 GB/s\", latency=\"1 us\"]; nic0 -- nic0 [bandwidth=\"1 GB/s\", "
                 "latency=\"1 us\"] }")
            .find("\"nic0\" -- \"nic0\" is not a cable [import.edge]") != std::string::npos);
  CHECK(mistakes(K::dot_graph, "graph { \"node 0 gpu0\"; \"node 1 gpu0\"; \"node 0 nic 0\" }")
            .find("error: the nodes of this graph are not alike [import.nodes]") != std::string::npos);
}

TEST_CASE("a topology of SimAI becomes servers with a NIC for each GPU that is linked to switches") {
  const Imported i = import_text(given("simai-2x4.topo"));
  CHECK(i.fabric.nodes == 2);
  CHECK(i.fabric.node.gpus == 4);
  CHECK(i.fabric.node.nics == 4);
  CHECK(i.notes == std::vector<std::string>{
                       "a GPU's link to a switch has its NIC; PCIe between the two has the cable's rate and no delay",
                       "1 switch without links is left out"});
  const Fabric f(i.fabric);
  // 1,600 and 200 Gbit/s are 200 and 25 GB/s. Rail 0 is one switch away, other rails are behind a spine.
  CHECK(way(f, 0, 3) ==
        "node 0: gpu0 -> nvswitch0 200 GB/s\n"
        "node 0: nvswitch0 -> gpu3 200 GB/s\n");
  CHECK(way(f, 0, 4) ==
        "node 0: gpu0 -> pcie0 25 GB/s\n"
        "node 0: pcie0 -> nic0 25 GB/s\n"
        "nic0 -> switch10 25 GB/s\n"
        "switch10 -> nic4 25 GB/s\n"
        "node 1: nic0 -> pcie0 25 GB/s\n"
        "node 1: pcie0 -> gpu0 25 GB/s\n");
  const std::multiset<std::string> read_back = links(written(i.fabric));
  CHECK(read_back == links(f));
  // Both directions of four NVLinks and twelve links of PCIe in each server, of eight cables and eight trunks.
  CHECK(read_back.size() == 2 * (2 * (4 + 12) + 8 + 8));

  // One server without switches: a host and a NIC are made up.
  const Imported alone = import_text("3 2 1 0 2 H800\n2\n0 2 1600Gbps 0.000025ms 0\n1 2 1600Gbps 0.000025ms 0\n");
  CHECK(alone.fabric.nodes == 1);
  CHECK(alone.fabric.node.nics == 1);

  using K = ImportKind;
  const auto says = [&](const std::string& text, const std::string& part) {
    const std::string said = mistakes(K::simai_topology, text);
    INFO(said);
    CHECK(said.find(part) != std::string::npos);
  };
  says("", "this topology of SimAI is empty [import.syntax]");
  says("3 2 1 0 H800\n", "the first line has a number missing [import.value]");
  says("4 2 1 0 2 H800\n2\n", "the nodes cannot be shared out among servers [import.nodes]");
  says("3 2 1 0 2 H800\n\n", "the second line does not list every switch [import.nodes]");
  says("3 2 1 0 2 H800\n1\n", "\"1\" is no switch of its own [import.value]");
  says("3 2 1 0 2 H800\n2\n0 2 1600Gbps 1ns 0\n", "The first line says 2 links; 1 follows.");
  says("3 2 1 0 1 H800\n2\n0 2 1600 1ns 0\n", "the rate \"1600\" cannot be read [import.value]");
  says("3 2 1 0 1 H800\n2\n0 2 1600Gbps 1 0\n", "the delay \"1\" cannot be read [import.value]");
  says("3 2 1 0 1 H800\n2\n0 2 1600Gbps 1ns 2\n", "the error rate \"2\" is no share [import.value]");
  says("3 2 1 0 1 H800\n2\n0 3 1600Gbps 1ns 0\n", "\"3\" is no node [import.value]");
  says("3 2 1 0 1 H800\n2\n0 0 1600Gbps 1ns 0\n", "0 to 0 is not a cable [import.edge]");
  says("4 2 0 0 1 H800\n \n0 1 1Gbps 1ns 0\n", "nothing leads out of the servers [import.unconnected]");
}
