#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "sim/net/cluster_fabric.hpp"
#include "sim/net/fabric.hpp"

using namespace orrery;

namespace {

FabricSpec parse(const std::string& text) {
  Diagnostics d;
  const auto f = parse_fabric(text, "f.toml", d);
  INFO(render(d));
  REQUIRE(f);
  return *f;
}

std::string file(const char* name) {
  std::stringstream text;
  text << std::ifstream(std::filesystem::path(ORRERY_SOURCE_DIR) / "models/fabric" / name).rdbuf();
  return text.str();
}

std::string superpod(std::uint32_t nodes, const std::string& down) {
  return "schema = 1\n[fabric]\nname = \"pod\"\nnodes = " + std::to_string(nodes) + R"(
node = { shape = "nvswitch", gpus = 8, nics = 8, bandwidth = "450 GB/s", latency = "500 ns", pcie_bandwidth = "64 GB/s", pcie_latency = "200 ns" }
network = { shape = "fat_tree", rails = true, down = [)" +
         down + R"(], up = [1, 32, 64], bandwidth = "400 Gbit/s", latency = "500 ns" }
)";
}

std::vector<std::string> names(const Fabric& f, std::uint32_t from, std::uint32_t to, PathRule rule) {
  std::vector<LinkId> route;
  f.route(from, to, rule, 1, route);
  std::vector<std::string> out;
  for (const LinkId l : route) out.push_back(f.name(l));
  return out;
}

/// The messages about a fabric file with one mistake.
std::string mistakes(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_fabric(text, "f.toml", d));
  return render(d);
}

std::string network(const std::string& keys, int nodes = 8) {
  return "schema = 1\n[fabric]\nname = \"x\"\nnodes = " + std::to_string(nodes) +
         "\n[fabric.network]\nbandwidth = \"1 GB/s\"\nlatency = \"1 us\"\n" + keys + "\n";
}

}  // namespace

TEST_CASE("the shipped fabrics are read", "[unit][net]") {
  CHECK(parse(file("dgx-h100-superpod.toml")).gpus() == 1024);
  CHECK(parse(file("dgx-1v.toml")).node.wires.size() == 16 + 8 + 4 + 4 + 1);
  CHECK(parse(file("system-2.toml")).node.wires.size() == 14);
  CHECK(parse(file("dragonfly-72.toml")).degraded.factor == 0.5);
}

TEST_CASE("a route runs from the GPU by its NIC over the network to the other's", "[unit][net]") {
  const Fabric f(parse(file("dgx-h100-superpod.toml")));
  CHECK(names(f, 0, 3, PathRule::rail_local) ==
        std::vector<std::string>{"node 0: gpu0 -> nvswitch", "node 0: nvswitch -> gpu3"});
  // Nodes 0 and 1 share the leaf of rail 2.
  CHECK(names(f, 2, 10, PathRule::by_destination) ==
        std::vector<std::string>{"node 0: gpu2 -> switch2", "node 0: switch2 -> nic2", "node 0 nic 2 -> leaf 2",
                                 "leaf 2 -> node 1 nic 2", "node 1: nic2 -> switch2", "node 1: switch2 -> gpu2"});
  // From rail 0 to rail 2 the way goes over a spine, or over NVLink first.
  CHECK(names(f, 0, 10, PathRule::by_destination).size() == 8);
  CHECK(names(f, 0, 10, PathRule::rail_local) ==
        std::vector<std::string>{"node 0: gpu0 -> nvswitch", "node 0: nvswitch -> gpu2", "node 0: gpu2 -> switch2",
                                 "node 0: switch2 -> nic2", "node 0 nic 2 -> leaf 2", "leaf 2 -> node 1 nic 2",
                                 "node 1: nic2 -> switch2", "node 1: switch2 -> gpu2"});
  std::vector<LinkId> route;
  f.route(0, 10, PathRule::by_destination, 1, route);
  CHECK(f.latency(route).in(microsecond) == Approx(4 * 0.2 + 4 * 0.5));
}

TEST_CASE("System II reaches a GPU that is no neighbour over PCIe", "[unit][net]") {
  const Fabric f(parse(file("system-2.toml")));
  CHECK(names(f, 0, 1, PathRule::hashed) == std::vector<std::string>{"node 0: gpu0 -> gpu1"});
  CHECK(names(f, 1, 2, PathRule::hashed) == std::vector<std::string>{"node 0: gpu1 -> host0", "node 0: host0 -> gpu2"});
  CHECK(names(f, 0, 7, PathRule::hashed).size() == 3);
}

// 16,384 nodes: 512 groups of 32, eight leaves each; only one node's 32 wires are kept.
TEST_CASE("131,072 GPUs are ten lines of text and no table", "[unit][net]") {
  const Fabric f(parse(superpod(16384, "32, 64, 64")));
  CHECK(f.gpus() == 131072);
  // Inside: 8 NVLinks, and 8 GPUs, 8 NICs and 8 switches on PCIe; outside: 131,072 cables on each of three levels.
  CHECK(f.links() == 2 * (16384 * 32 + 3 * 131072));
  std::set<std::size_t> lengths;
  std::vector<LinkId> route;
  for (std::uint32_t g = 0; g < f.gpus(); g += 7) {
    route.clear();
    f.route(g, (g + 65536) % f.gpus(), PathRule::rail_local, 1, route);
    CHECK(std::set<LinkId>(route.begin(), route.end()).size() == route.size());
    for (const LinkId l : route) REQUIRE(static_cast<std::uint32_t>(l) < f.links());
    lengths.insert(route.size());
  }
  CHECK(lengths == std::set<std::size_t>{4 + 6});
}

TEST_CASE("degraded links are a share of all, by seed", "[unit][net]") {
  const Fabric f(
      parse(network("shape = \"star\"", 10000) + "[fabric.degraded]\nshare = 0.1\nfactor = 0.25\nseed = 4\n"));
  int slow = 0;
  for (std::uint32_t l = 0; l < f.links(); ++l) {
    const double left = f.link(LinkId{l}).bandwidth.base() / 1e9;
    REQUIRE((left == 1.0 || left == 0.25));
    slow += left < 1.0 ? 1 : 0;
  }
  // 2000 of 20,000 expected, standard deviation 42.
  CHECK(slow == Approx(2000).margin(5 * 42));
}

TEST_CASE("a fabric is drawn with every cable once", "[unit][net]") {
  CHECK(
      dot_of(Fabric(parse(network("shape = \"star\"", 2)))) ==
      "graph fabric {\n  node [shape=box];\n"
      "  \"node 0 nic 0\" -- \"leaf 0\" [label=\"1.00 GB/s\", kind=network, bandwidth=\"1 GB/s\", latency=\"1 us\"];\n"
      "  \"node 1 nic 0\" -- \"leaf 0\" [label=\"1.00 GB/s\", kind=network, bandwidth=\"1 GB/s\", latency=\"1 "
      "us\"];\n}\n");
}

TEST_CASE("a fabric is coloured by the busier direction of every cable", "[unit][net]") {
  const Fabric f(parse(network("shape = \"star\"", 2)));
  // Node 0 sends half of the time, node 1 never, so node 1's cable is busy towards it.
  std::vector<double> load(f.links(), 0.0);
  for (std::uint32_t l = 0; l < f.links(); ++l) {
    const std::string name = f.name(LinkId{l});
    if (name == "node 0 nic 0 -> leaf 0") load[l] = 0.5;
    if (name == "leaf 0 -> node 1 nic 0") load[l] = 0.75;
  }
  CHECK(dot_of(f, load) ==
        "graph fabric {\n  node [shape=box];\n"
        "  \"node 0 nic 0\" -- \"leaf 0\" [label=\"50 %\", kind=network, bandwidth=\"1 GB/s\", latency=\"1 us\", "
        "color=\"#1fa187\", penwidth=4];\n"
        "  \"node 1 nic 0\" -- \"leaf 0\" [label=\"75 %\", kind=network, bandwidth=\"1 GB/s\", latency=\"1 us\", "
        "color=\"#277f8e\", penwidth=5];\n}\n");
}

TEST_CASE("mistakes in fabric files are shown with place, numbers and what would be right", "[error][net]") {
  CHECK(mistakes(network("shape = \"fat_tree\"\ndown = [2, 2]")) ==
        R"(f.toml:9:8: error: the tree holds fewer ends than there are NICs [fabric.ends]
    9 | down = [2, 2]
      |        ^
  It holds 4; 8 nodes of 1 NIC need 8.
  The last level would need down = 4.
)");
  CHECK(mistakes(network("shape = \"fat_tree\"\ndown = [2, 4]\nup = [1]")) ==
        R"(f.toml:9:8: error: down, up and bandwidths do not have one value for each level [fabric.levels]
    9 | down = [2, 4]
      |        ^
  They have 2, 1 and 0 values.
  up and bandwidths may be left out: one cable upwards, of the network's bandwidth.
)");
  CHECK(mistakes(network("shape = \"fat_tree\"\ndown = [8]\nbandwidths = [\"fast\"]")) ==
        R"(f.toml:10:14: error: the bandwidth of level 1 cannot be read [fabric.bandwidth]
   10 | bandwidths = ["fast"]
      |              ^
  It is "fast"; "400 Gbit/s" would be right.
)");
  CHECK(mistakes(network("shape = \"fat_tree\"\ndown = [1, 8]\nup = [4096, 4096]", 200000)) ==
        R"(f.toml:10:6: error: the tree has too many cables [fabric.size]
   10 | up = [4096, 4096]
      |      ^
  At most 2^29 are counted.
)");
  CHECK(mistakes(network("shape = \"torus\"\nsizes = [3, 3]")) ==
        R"(f.toml:9:9: error: the shape does not have one end for each NIC [fabric.ends]
    9 | sizes = [3, 3]
      |         ^
  It has 9; 8 nodes of 1 NIC have 8.
)");
  CHECK(mistakes(network("shape = \"dragonfly\"\ngroups = 4\nrouters = 1\nends = 2\nglobal_links = 2")) ==
        R"(f.toml:9:10: error: a group has fewer global links than there are other groups [fabric.dragonfly]
    9 | groups = 4
      |          ^
  1 routers of 2 make 2; 4 groups need 3.
)");
  const std::string node =
      "schema = 1\n[fabric]\nname = \"x\"\nnodes = 1\n[fabric.node]\nshape = \"wires\"\ngpus = 2\n";
  const std::string wires = "[[fabric.node.wires]]\nkind = \"pcie\"\nbandwidth = \"1 GB/s\"\nlatency = \"1 us\"\n";
  CHECK(mistakes(node + "nics = 3\n" + wires + "pairs = [\"gpu0 gpu1\"]") ==
        R"(f.toml:8:8: error: a node has more NICs than GPUs [fabric.nics]
    8 | nics = 3
      |        ^
  It has 3 and 2; a NIC without a GPU would idle. At most 2 are read.
)");
  CHECK(mistakes(node + "nics = 1\n" + wires + "pairs = [\"gpu0 gpu1\", \"gpu0\"]") ==
        R"(f.toml:13:9: error: a wire must be two names with one space between them [fabric.wire]
   13 | pairs = ["gpu0 gpu1", "gpu0"]
      |         ^
  It is "gpu0"; "gpu0 switch0" would be right.
)");
  CHECK(mistakes(node + "nics = 1\n" + wires + "pairs = [\"gpu0 gpu1\"]") ==
        R"(f.toml:9:1: error: no wires lead from nic0 to gpu0 [fabric.unconnected]
    9 | [[fabric.node.wires]]
      | ^
  GPUs and NICs pass nothing on; join them by wires or by switches.
)");
  CHECK(mistakes("schema = 1\n[fabric]\nname = \"x\"\nnodes = 5000\n[fabric.network]\nshape = \"wires\"\n") ==
        R"(f.toml:6:9: error: there are too many NICs for single wires [fabric.wires]
    6 | shape = "wires"
      |         ^
  There are 5000; at most 2048 are read.
)");
  CHECK(mistakes(network("shape = \"torus\"\nsizes = [8]\nsharp = true")) ==
        R"(f.toml:10:9: error: sharp needs switches that form a tree [fabric.sharp]
   10 | sharp = true
      |         ^
  shape = "star" or shape = "fat_tree" would be right.
)");
  CHECK(
      mistakes(node + "nics = 1\nnvls = true\n" + wires + "pairs = [\"gpu0 s\", \"gpu1 s\", \"nic0 s\"]") ==
      R"(f.toml:9:8: error: no switch joins all GPUs of a node by NVLink, so that none can add what they send [fabric.nvls]
    9 | nvls = true
      |        ^
  Each of the 2 GPUs needs an NVLink to the same switch; shape = "nvswitch" has them.
)");
}

TEST_CASE("switches that add are read and written", "[unit][net]") {
  const std::string text = file("dgx-h100-superpod.toml");
  FabricSpec f = parse(text);
  CHECK(Fabric(f).nvls());
  CHECK_FALSE(Fabric(f).sharp());
  std::get<TreeNetwork>(f.network).sharp = true;
  const Fabric again(parse(write_fabric(f)));
  CHECK(again.nvls());
  CHECK(again.sharp());
  CHECK_FALSE(Fabric(parse(file("dgx-1v.toml"))).nvls());
}

namespace {

/// Four nodes of two GPUs, each GPU with a NIC of its own, two nodes to a leaf, two spines.
std::string small(const std::string& faults) {
  return "schema = 1\n[fabric]\nname = \"small\"\nnodes = 4\n"
         "node = { shape = \"nvswitch\", gpus = 2, nics = 2, bandwidth = \"100 GB/s\", latency = \"1 us\", "
         "pcie_bandwidth = \"12 GB/s\", pcie_latency = \"1 us\" }\n"
         "network = { shape = \"fat_tree\", down = [4, 2], up = [1, 2], bandwidth = \"10 GB/s\", latency = \"1 us\" "
         "}\n" +
         faults;
}

std::string fault(const std::string& link, const std::string& more = "") {
  return "[[fabric.faults]]\nlink = \"" + link + "\"\n" + more;
}

/// Whether a route begins and ends where it should, goes on where it came to, and crosses nothing that has failed.
bool is_way(const Fabric& f, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const LinkId l : f.links_named(name)) {
      if (f.link(l).bandwidth.base() == 0.0) return false;
    }
  }
  return std::set<std::string>(names.begin(), names.end()).size() == names.size();
}

}  // namespace

TEST_CASE("messages go around failed links where another way is left", "[unit][net]") {
  using Names = std::vector<std::string>;
  const Fabric whole(parse(small("")));
  // By destination, GPU 4's messages come over spine 0 (its NIC is end 4).
  const Names usual = names(whole, 0, 4, PathRule::by_destination);
  REQUIRE(std::count(usual.begin(), usual.end(), "leaf 0 -> spine 0") == 1);

  // One direction of a cable has failed: the other spine is taken on the way up, and the way back is unchanged.
  const Fabric up(parse(small(fault("leaf 0 -> spine 0"))));
  Names expected = usual;
  std::replace(expected.begin(), expected.end(), std::string("leaf 0 -> spine 0"), std::string("leaf 0 -> spine 1"));
  std::replace(expected.begin(), expected.end(), std::string("spine 0 -> leaf 1"), std::string("spine 1 -> leaf 1"));
  CHECK(names(up, 0, 4, PathRule::by_destination) == expected);
  CHECK(names(up, 4, 0, PathRule::by_destination) == names(whole, 4, 0, PathRule::by_destination));
  CHECK(names(up, 0, 5, PathRule::by_destination) == names(whole, 0, 5, PathRule::by_destination));

  // Both directions, or the whole switch, have failed: nothing crosses it.
  for (const char* name : {"leaf 0 -- spine 0", "spine 0"}) {
    const Fabric f(parse(small(fault(name))));
    for (std::uint32_t a = 0; a < 8; ++a) {
      for (std::uint32_t b = 0; b < 8; ++b) {
        for (const PathRule rule : {PathRule::by_destination, PathRule::hashed, PathRule::rail_local}) {
          const Names way = names(f, a, b, rule);
          CAPTURE(name, a, b);
          CHECK(is_way(f, way));
          CHECK(way.empty() == (a == b));
        }
      }
    }
  }

  // A NIC has failed: the way goes by the neighbour's, over NVLink, in both directions.
  const Fabric nic(parse(small(fault("node 0 nic 0"))));
  const Names out = names(nic, 0, 2, PathRule::by_destination), in = names(nic, 2, 0, PathRule::by_destination);
  CHECK(std::count(out.begin(), out.end(), "node 0 nic 1 -> leaf 0") == 1);
  CHECK(std::count(in.begin(), in.end(), "leaf 0 -> node 0 nic 1") == 1);
  CHECK(is_way(nic, out));
  CHECK(is_way(nic, in));

  // An NVSwitch has failed: the way goes over PCIe. That has failed too: out by one NIC and back by the other.
  const Fabric nvswitch(parse(small(fault("node 1: nvswitch"))));
  const Names pcie = names(nvswitch, 2, 3, PathRule::by_destination);
  CHECK(pcie.front() == "node 1: gpu0 -> switch0");
  CHECK(std::count(pcie.begin(), pcie.end(), "node 1: host -> switch1") == 1);
  const Fabric no_host(parse(small(fault("node 1: nvswitch") + fault("node 1: host"))));
  const Names hairpin = names(no_host, 2, 3, PathRule::by_destination);
  CHECK(std::count(hairpin.begin(), hairpin.end(), "node 1 nic 0 -> leaf 0") == 1);
  CHECK(std::count(hairpin.begin(), hairpin.end(), "leaf 0 -> node 1 nic 1") == 1);
}

TEST_CASE("where no way is left, it is said between which GPUs", "[unit][net]") {
  const Fabric f(parse(small(fault("leaf 0"))));
  CHECK(names(f, 0, 1, PathRule::by_destination).size() == 2);  // inside the node
  CHECK(names(f, 4, 6, PathRule::by_destination).size() == 6);  // on the other leaf
  try {
    (void)names(f, 1, 6, PathRule::by_destination);
    FAIL("a way through a failed leaf");
  } catch (const CutOff& cut) {
    CHECK(cut.from_gpu == 1);
    CHECK(cut.to_gpu == 6);
    CHECK(std::string(cut.what()) ==
          "every way from GPU 1 of node 0 to GPU 0 of node 3 crosses a link that has failed");
  }
}

TEST_CASE("a torus and a ring go the long way round a failed link", "[unit][net]") {
  const std::string ring =
      "schema = 1\n[fabric]\nname = \"ring\"\nnodes = 6\n"
      "network = { shape = \"torus\", sizes = [6], bandwidth = \"10 GB/s\", latency = \"1 us\" }\n";
  const Fabric whole(parse(ring));
  const std::string first = names(whole, 0, 1, PathRule::by_destination).front();
  const Fabric cut(parse(ring + fault(first)));
  CHECK(names(cut, 0, 1, PathRule::by_destination).size() == 5);
  CHECK(names(cut, 1, 0, PathRule::by_destination).size() == 1);
}

TEST_CASE("a fault leaves its share of a link's bandwidth, and is written back", "[unit][net]") {
  const FabricSpec spec =
      parse(small(fault("leaf 0 -- spine 1", "left = 0.25\n") + fault("leaf 0 -> spine 1", "left = 0.5\n")));
  const Fabric f(spec);
  for (const auto& [name, left] :
       {std::pair{"leaf 0 -> spine 1", 0.125}, {"spine 1 -> leaf 0", 0.25}, {"leaf 0 -> spine 0", 1.0}}) {
    CAPTURE(name);
    const std::vector<LinkId> links = f.links_named(name);
    REQUIRE(links.size() == 1);
    CHECK(f.name(links[0]) == name);
    CHECK(f.link(links[0]).bandwidth.base() == left * 10e9);
  }
  // Degraded links are still crossed.
  CHECK(names(f, 0, 4, PathRule::by_destination) == names(Fabric(parse(small(""))), 0, 4, PathRule::by_destination));
  CHECK(parse(write_fabric(spec)).faults == spec.faults);
  CHECK(f.links_named("node 2: gpu1").size() == 4);  // NVLink and PCIe, both ways
  CHECK(f.links_named("leaf 7").empty());
}

TEST_CASE("a fault that names no link is an error with the nearest names", "[unit][net]") {
  Diagnostics d;
  CHECK(!parse_fabric(small(fault("leaf 0 -- spine 9")), "f.toml", d));
  CHECK(render(d) ==
        "f.toml:8:8: error: no link or switch is named \"leaf 0 -- spine 9\" [fabric.link-name]\n"
        "    8 | link = \"leaf 0 -- spine 9\"\n"
        "      |        ^\n"
        "  Nearest: \"leaf 0 -> spine 0\", \"leaf 0 -> spine 1\".\n"
        "  -- in place of -> means both directions; the name of a switch or a NIC alone, all of its links.\n");
}

// Nodes have two GPUs and an NVSwitch inside. Node 1 has half the NVLinks and a quarter of its NICs' cables.
TEST_CASE("other nodes of a fabric have their share of each kind of link", "[unit][net]") {
  const std::string others = "[[fabric.other_nodes]]\nfirst = 1\nnvlink = 0.5\nnetwork = 0.25\n";
  const FabricSpec spec = parse(small(others));
  const Fabric f(spec), equal(parse(small("")));
  std::uint32_t narrower = 0;
  for (std::uint32_t l = 0; l < f.links(); ++l) {
    const Link link = f.link(LinkId{l}), whole = equal.link(LinkId{l});
    const std::string name = f.name(LinkId{l});
    CAPTURE(name);
    double share = 1.0;
    if (name.find("node 1:") == 0 && link.kind == LinkKind::nvlink) share = 0.5;
    if (name.find("node 1 nic") != std::string::npos) share = 0.25;
    CHECK(link.bandwidth.base() == share * whole.bandwidth.base());
    narrower += share < 1.0 ? 1 : 0;
  }
  CHECK(narrower > 4);
  CHECK(parse(write_fabric(spec)).other_nodes == spec.other_nodes);

  Diagnostics d;
  CHECK(!parse_fabric(small("[[fabric.other_nodes]]\nfirst = 3\ncount = 2\n"), "f.toml", d));
  CHECK(render(d) ==
        "f.toml:8:9: error: other nodes lie outside the fabric [fabric.other-nodes]\n"
        "    8 | first = 3\n"
        "      |         ^\n"
        "  They are nodes 3 to 4; the fabric has nodes 0 to 3.\n");
}

// Trays of 4 are on one NVLink rack of 64, and there are eight racks on narrower cables. A tray or a rack is a box, and
// all racks together are none.
TEST_CASE("a box is a node, or what no narrower level joins it to", "[unit][net]") {
  const auto level = [](std::uint32_t size, double bandwidth) {
    NetworkLevel l;
    l.size = size;
    l.bandwidth = Bandwidth::of(bandwidth);
    return l;
  };
  ClusterSpec racks;
  racks.nodes = 128;
  racks.devices_per_node = 4;
  racks.levels = {level(4, 900e9), level(16, 900e9), level(8, 50e9)};
  CHECK(box_sizes(racks) == std::vector<std::uint32_t>{4, 64});
  FabricSpec fabric;
  for (const auto& [gpus, fits] : std::vector<std::pair<std::uint32_t, bool>>{
           {1, false}, {4, true}, {8, false}, {64, true}, {72, false}, {512, false}}) {
    CAPTURE(gpus);
    fabric.node.gpus = gpus;
    CHECK(same_boxes(fabric, racks) == fits);
  }
  // One rack has its place in a larger one.
  racks.nodes = 16;
  racks.levels.back().size = 1;
  fabric.node.gpus = 72;
  CHECK(same_boxes(fabric, racks));
  // Nodes on narrower cables, and nodes of one device, each are a box by themselves.
  ClusterSpec nodes;
  nodes.nodes = 16;
  nodes.devices_per_node = 8;
  nodes.levels = {level(8, 450e9), level(16, 50e9)};
  CHECK(box_sizes(nodes) == std::vector<std::uint32_t>{8});
  nodes.devices_per_node = 1;
  nodes.levels = {level(16, 1e9)};
  CHECK(box_sizes(nodes) == std::vector<std::uint32_t>{1});
}
