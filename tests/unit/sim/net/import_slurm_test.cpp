#include <catch2/catch.hpp>

#include <algorithm>

#include "sim/net/fabric.hpp"
#include "sim/net/import/import.hpp"

// Every form in which Slurm states its topology: topology.conf of topology/tree and topology/block, topology.yaml, and
// what `scontrol show topology` prints.

using namespace orrery;

namespace {

Imported imported(const std::string& text) {
  const auto kind = import_kind_of(text);
  REQUIRE(kind == ImportKind::slurm_topology);
  ImportOptions options;
  options.nic = Bandwidth::of(50e9);
  Diagnostics d;
  auto out = import_fabric(*kind, text, "given", options, d);
  INFO(render(d));
  REQUIRE(out);
  return *out;
}

std::string mistakes(const std::string& text) {
  ImportOptions options;
  options.nic = Bandwidth::of(50e9);
  Diagnostics d;
  CHECK_FALSE(import_fabric(ImportKind::slurm_topology, text, "given", options, d));
  return render(d);
}

bool notes(const Imported& i, const std::string& part) {
  return std::any_of(i.notes.begin(), i.notes.end(),
                     [&](const std::string& n) { return n.find(part) != std::string::npos; });
}

/// Numbers below each switch of an even tree, from the leaves up.
std::vector<std::uint32_t> downs(const Imported& i) {
  std::vector<std::uint32_t> out;
  for (const TreeLevel& l : std::get<TreeNetwork>(i.fabric.network).levels) out.push_back(l.down);
  return out;
}

const std::vector<std::uint32_t> two_leaves_of_four{4, 2};

}  // namespace

TEST_CASE("four forms of one tree of Slurm give the same network", "[unit][net]") {
  const Imported conf =
      imported("SwitchName=leaf1 Nodes=n[0-3]\nSwitchName=leaf2 Nodes=n[4-7]\nSwitchName=top Switches=leaf[1-2]\n");
  CHECK(downs(conf) == two_leaves_of_four);
  const Imported shown = imported(
      "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[0-3]\nSwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[4-7]\n"
      "SwitchName=top Level=1 LinkSpeed=1 Nodes=n[0-7] Switches=leaf[1-2]\n");
  CHECK(shown.fabric == conf.fabric);
  const Imported yaml = imported(
      "---\n- topology: fat\n  cluster_default: true\n  tree:\n    switches:\n      - switch: top\n"
      "        children: leaf[1-2]\n      - switch: leaf1\n        nodes: n[0-3]\n      - switch: leaf2\n"
      "        nodes: n[4-7]\n");
  CHECK(yaml.fabric == conf.fabric);
  const Imported old =
      imported("switchname=leaf1 nodes=n[0-3]\nSWITCHNAME=leaf2 NODES=n[4-7]\nSwitchName=top Switches=leaf1,leaf2\n");
  CHECK(old.fabric == conf.fabric);
}

TEST_CASE("blocks of Slurm get a switch above them", "[unit][net]") {
  const std::vector<std::uint32_t> three_blocks{18, 3};
  for (const std::string text :
       {"BlockName=b0 Nodes=g[001-018]\nBlockName=b1 Nodes=g[019-036]\nBlockName=b2 "
        "Nodes=g[037-054]\nBlockSizes=18,36\n",
        "BlockSizes=18\nBlockName=b0 Nodes=g[1-18]\nBlockName=b1 Nodes=g[19-36]\nBlockName=b2 Nodes=g[37-54]\n",
        "BlockName=b0 BlockIndex=0 Nodes=g[1-18] BlockSize=18\nBlockName=b1 BlockIndex=1 Nodes=g[19-36] BlockSize=18\n"
        "BlockName=b2 BlockIndex=2 Nodes=g[37-54] BlockSize=18\n",
        "- topology: racks\n  block:\n    block_sizes:\n      - 18\n    blocks:\n      - block: b0\n        nodes: "
        "g[1-18]\n"
        "      - block: b1\n        nodes: g[19-36]\n      - block: b2\n        nodes: g[37-54]\n"}) {
    CAPTURE(text);
    const Imported i = imported(text);
    CHECK(downs(i) == three_blocks);
    CHECK(notes(i, "the file joins b0, b1 and 1 more by nothing: one switch is assumed above them"));
    CHECK(notes(i, "sizes of blocks are left out"));
  }
}

TEST_CASE("trees of Slurm that nothing joins are joined by an assumed switch", "[unit][net]") {
  const Imported i = imported("SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=m[0-1,4]\n");
  CHECK(Fabric(i.fabric).gpus() == 5);
  CHECK(notes(i, "the file joins a, b by nothing"));
}

TEST_CASE("the default of several topologies counts, or the first with switches", "[unit][net]") {
  const std::string flat = "- topology: none\n  flat: true\n";
  const std::string small = "- topology: small\n  tree:\n    switches:\n      - switch: s\n        nodes: n[0-2]\n";
  const std::string large =
      "- topology: large\n  cluster_default: true\n  tree:\n    switches:\n      - switch: s\n        nodes: n[0-8]\n";
  CHECK(Fabric(imported(flat + small + large).fabric).gpus() == 9);
  CHECK(Fabric(imported(flat + small).fabric).gpus() == 3);
  CHECK(notes(imported(flat + small), "1 of 2 topologies are left out"));
}

TEST_CASE("mistakes in topology.yaml have their place", "[error]") {
  CHECK(mistakes("- topology: t\n  flat: true\n") ==
        "given:1:1: error: this file has no topology of switches or blocks [import.kind]\n"
        "    1 | - topology: t\n      | ^\n  topology.yaml is a list of topologies, of which one has a tree or a "
        "block.\n");
  CHECK(mistakes("- topology: t\n  tree:\n    switches:\n      - switch: s\n") ==
        "given:4:9: error: this switch has no name, or nothing hangs on it [import.switch]\n"
        "    4 |       - switch: s\n      |         ^\n  It needs switch, and nodes or children: - switch: s0\n");
  CHECK(mistakes("- topology: t\n  tree:\n    switches:\n      - switch: s\n        nodes: n[0-\n")
            .find("given:5:16: error: the list \"n[0-\" cannot be read [import.hostlist]") != std::string::npos);
  CHECK(mistakes("- topology: [\n").find("error: not valid YAML") != std::string::npos);
}
