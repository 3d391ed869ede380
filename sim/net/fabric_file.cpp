#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/fabric.hpp"
#include "sim/net/fabric_spec.hpp"
#include "sim/net/node_wiring.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t most = max_fabric_gpus;
constexpr std::uint64_t most_cables = std::uint64_t{1} << 29;
constexpr std::size_t most_wires = 100'000;
constexpr Limits<Bandwidth> bandwidth_limits{Bandwidth::of(1.0), Bandwidth::of(1e18)};
constexpr Limits<Seconds> latency_limits{Seconds::of(0.0), Seconds::of(1.0)};

Link read_link(TomlTable& t, LinkKind kind, const std::string& prefix = "") {
  Link link{.kind = kind, .bandwidth = {}, .latency = {}};
  t.read(prefix + "bandwidth", link.bandwidth, bandwidth_limits);
  t.read(prefix + "latency", link.latency, latency_limits);
  return link;
}

std::uint32_t vertex_of(const std::string& name, std::vector<std::string>& vertices) {
  const auto found = std::find(vertices.begin(), vertices.end(), name);
  if (found != vertices.end()) return static_cast<std::uint32_t>(found - vertices.begin());
  vertices.push_back(name);
  return static_cast<std::uint32_t>(vertices.size() - 1);
}

/// [[wires]]: kind, bandwidth, latency, pairs = ["gpu0 gpu1", "gpu0 switch"]. `before` is the number of mistakes before
/// this shape. After a mistake, it says nothing whether all ends meet.
void read_wires(TomlTable& t, std::size_t before, std::size_t ends, std::vector<std::string>& vertices,
                std::vector<Wire>& wires) {
  const std::vector<std::string_view> kinds{"nvlink", "pcie", "socket", "network"};
  for (TomlTable& row : t.tables("wires", 1000)) {
    LinkKind kind = LinkKind::network;
    row.read_enum("kind", kinds, kind);
    const Link link = read_link(row, kind);
    std::vector<std::string> pairs;
    row.read("pairs", pairs, most_wires);
    for (const std::string& pair : pairs) {
      const std::size_t space = pair.find(' ');
      const std::string a = pair.substr(0, space), b = space == std::string::npos ? "" : pair.substr(space + 1);
      if (a.empty() || b.empty() || b.find(' ') != std::string::npos || a == b || a.size() > 64 || b.size() > 64) {
        row.error("pairs", "fabric.wire", "a wire must be two names with one space between them",
                  {fmt::format("It is \"{}\"; \"gpu0 switch0\" would be right.", pair.substr(0, 100))});
        break;
      }
      if (vertices.size() > 4094 || wires.size() >= most_wires) {
        row.error("pairs", "fabric.wires", "there are too many names or wires",
                  {fmt::format("At most 4096 names and {} wires are read.", most_wires)});
        break;
      }
      wires.push_back({vertex_of(a, vertices), vertex_of(b, vertices), link});
    }
    row.finish();
  }
  if (t.diagnostics().size() != before) return;
  const Topology::Sides gap =
      unconnected(static_cast<std::uint32_t>(ends), static_cast<std::uint32_t>(vertices.size()), wires);
  if (gap.from != gap.to) {
    t.error("wires", "fabric.unconnected",
            fmt::format("no wires lead from {} to {}", vertices[gap.from], vertices[gap.to]),
            {"GPUs and NICs pass nothing on; join them by wires or by switches."});
  }
}

std::vector<std::string> numbered(const char* name, std::uint32_t count) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(fmt::format("{}{}", name, i));
  return out;
}

/// Reads nvls = true, and tests that one switch joins all GPUs by NVLink, so that it sees what all of them send.
void read_nvls(TomlTable& t, NodeWiring& node) {
  t.read("nvls", node.nvls, Need::optional);
  if (!node.nvls || !cables_to_nvlink_switch(node).empty()) return;
  t.error("nvls", "fabric.nvls", "no switch joins all GPUs of a node by NVLink, so that none can add what they send",
          {fmt::format("Each of the {} GPUs needs an NVLink to the same switch; shape = \"nvswitch\" has them.",
                       node.gpus)});
}

NodeWiring read_wiring(TomlTable& t) {
  std::size_t shape = 0;
  if (!t.read_choice("shape", {"nvswitch", "cube_mesh", "pcie", "wires"}, shape)) return {};
  const std::size_t before = t.diagnostics().size();
  std::uint32_t gpus = 8, nics = 4, per_switch = 2, sockets = 2;
  if (shape != 1) {
    t.read("gpus", gpus, {1U, 1024U});
    t.read("nics", nics, {1U, 1024U});
  }
  if (nics > gpus) {
    t.error("nics", "fabric.nics", "a node has more NICs than GPUs",
            {fmt::format("It has {} and {}; a NIC without a GPU would idle. At most {} are read.", nics, gpus, gpus)});
  }
  if (shape == 3) {
    NodeWiring node{.gpus = gpus, .nics = nics, .vertices = numbered("gpu", gpus), .wires = {}};
    for (std::string& nic : numbered("nic", nics)) node.vertices.push_back(std::move(nic));
    read_wires(t, before, gpus + nics, node.vertices, node.wires);
    return node;
  }
  const Link pcie = read_link(t, LinkKind::pcie, "pcie_");
  if (shape == 0) {
    const Link nvlink = read_link(t, LinkKind::nvlink);
    return t.diagnostics().size() == before ? nvswitch_node(gpus, nics, nvlink, pcie) : NodeWiring{};
  }
  Link socket = pcie;
  socket.kind = LinkKind::socket;
  t.read("socket_bandwidth", socket.bandwidth, bandwidth_limits);
  t.read("socket_latency", socket.latency, latency_limits);
  if (shape == 1) {
    const Link nvlink = read_link(t, LinkKind::nvlink);
    return t.diagnostics().size() == before ? cube_mesh_node(nvlink, pcie, socket) : NodeWiring{};
  }
  t.read("gpus_per_switch", per_switch, {1U, 1024U}, Need::optional);
  t.read("sockets", sockets, {1U, 16U}, Need::optional);
  return t.diagnostics().size() == before ? pcie_node(gpus, nics, per_switch, sockets, pcie, socket) : NodeWiring{};
}

NodeWiring read_node(TomlTable& t) {
  const std::size_t before = t.diagnostics().size();
  NodeWiring node = read_wiring(t);
  if (t.diagnostics().size() == before) read_nvls(t, node);
  return node;
}

TreeNetwork read_tree(TomlTable& t, const FabricSpec& f) {
  TreeNetwork tree;
  const std::size_t before = t.diagnostics().size();
  const Link link = read_link(t, LinkKind::network);
  std::vector<std::uint32_t> down, up;
  std::vector<std::string> bandwidths;
  t.read("rails", tree.rails, Need::optional);
  t.read("down", down, {1U, most}, 6);
  t.read("up", up, {1U, 4096U}, 6, Need::optional);
  t.read("bandwidths", bandwidths, 6, Need::optional);
  if (t.diagnostics().size() != before) return tree;
  if (up.empty()) up.assign(down.size(), 1);
  if (down.empty() || up.size() != down.size() || (!bandwidths.empty() && bandwidths.size() != down.size())) {
    t.error("down", "fabric.levels", "down, up and bandwidths do not have one value for each level",
            {fmt::format("They have {}, {} and {} values.", down.size(), up.size(), bandwidths.size()),
             "up and bandwidths may be left out: one cable upwards, of the network's bandwidth."});
    return tree;
  }
  std::uint64_t below = 1, copies = 1, cables = 0;
  const std::uint64_t group = tree.rails ? down.front() : 1;
  const std::uint64_t ends = (f.nodes + group - 1) / group * group * f.node.nics;
  for (std::size_t i = 0; i < down.size(); ++i) {
    cables += (ends + below - 1) / below * copies * up[i];
    below = std::min<std::uint64_t>(below * down[i], std::uint64_t{1} << 40);
    copies *= up[i];
    TreeLevel level{down[i], up[i], link};
    std::string problem;
    if (!bandwidths.empty() && (!parse_quantity(bandwidths[i], level.link.bandwidth, problem) ||
                                !bandwidth_limits.contain(level.link.bandwidth))) {
      t.error("bandwidths", "fabric.bandwidth", fmt::format("the bandwidth of level {} cannot be read", i + 1),
              {fmt::format("It is \"{}\"; \"400 Gbit/s\" would be right.", bandwidths[i].substr(0, 100))});
      return tree;
    }
    tree.levels.push_back(level);
    if (cables > most_cables || copies > (1U << 24)) {
      t.error("up", "fabric.size", "the tree has too many cables", {"At most 2^29 are counted."});
      return tree;
    }
  }
  if (below < ends) {
    t.error("down", "fabric.ends", "the tree holds fewer ends than there are NICs",
            {fmt::format("It holds {}; {} of {} need {}.", below, counted(f.nodes, "node"), counted(f.node.nics, "NIC"),
                         ends),
             fmt::format("The last level would need down = {}.",
                         (ends + below / down.back() - 1) / (below / down.back()))});
  }
  return tree;
}

TorusNetwork read_torus(TomlTable& t, const FabricSpec& f, bool cube) {
  TorusNetwork torus;
  const std::size_t before = t.diagnostics().size();
  torus.link = read_link(t, LinkKind::network);
  if (cube) {
    std::uint32_t dimensions = 0;
    t.read("dimensions", dimensions, {1U, 20U});
    torus.sizes.assign(dimensions, 2);
  } else {
    t.read("sizes", torus.sizes, {1U, most}, 6);
  }
  if (t.diagnostics().size() != before) return torus;
  std::uint64_t ends = torus.sizes.empty() ? 0 : 1;
  for (const std::uint32_t n : torus.sizes) ends = std::min<std::uint64_t>(ends * n, std::uint64_t{1} << 40);
  if (ends != f.nics()) {
    t.error(cube ? "dimensions" : "sizes", "fabric.ends", "the shape does not have one end for each NIC",
            {fmt::format("It has {}; {} of {} have {}.", ends, counted(f.nodes, "node"), counted(f.node.nics, "NIC"),
                         f.nics())});
  }
  return torus;
}

Dragonfly read_dragonfly(TomlTable& t, const FabricSpec& f) {
  Dragonfly d;
  const std::size_t before = t.diagnostics().size();
  t.read("groups", d.groups, {1U, 65536U});
  t.read("routers", d.routers, {1U, 65536U});
  t.read("ends", d.ends, {1U, 65536U});
  t.read("global_links", d.global_links, {1U, 4096U});
  d.link = read_link(t, LinkKind::network);
  d.global = d.link;
  t.read("global_bandwidth", d.global.bandwidth, bandwidth_limits, Need::optional);
  t.read("global_latency", d.global.latency, latency_limits, Need::optional);
  if (t.diagnostics().size() != before) return d;
  const std::uint64_t ports = std::uint64_t{d.routers} * d.global_links;
  if (ports + 1 < d.groups) {
    t.error("groups", "fabric.dragonfly", "a group has fewer global links than there are other groups",
            {fmt::format("{} routers of {} make {}; {} groups need {}.", d.routers, d.global_links, ports, d.groups,
                         d.groups - 1)});
  }
  const std::uint64_t ends = std::uint64_t{d.groups} * d.routers * d.ends;
  if (ends != f.nics()) {
    t.error("ends", "fabric.ends", "the shape does not have one end for each NIC",
            {fmt::format("It has {}; {} of {} have {}.", ends, counted(f.nodes, "node"), counted(f.node.nics, "NIC"),
                         f.nics())});
  }
  if (ports * d.groups + std::uint64_t{d.groups} * d.routers * d.routers > most_cables) {
    t.error("routers", "fabric.size", "the dragonfly has too many cables", {"At most 2^29 are counted."});
  }
  return d;
}

ProductNetwork read_product(TomlTable& t, const FabricSpec& f) {
  ProductNetwork product;
  const std::size_t before = t.diagnostics().size();
  std::uint64_t ends = 1;
  for (TomlTable& row : t.tables("dimensions", 6, Need::required)) {
    ProductDimension d;
    row.read_enum("shape", {"ring", "full", "switch"}, d.shape);
    row.read("size", d.size, {1U, most});
    d.link = read_link(row, LinkKind::network);
    row.finish();
    ends = std::min<std::uint64_t>(ends * d.size, std::uint64_t{1} << 40);
    product.dimensions.push_back(d);
  }
  if (t.diagnostics().size() != before) return product;
  if (ends != f.nics()) {
    t.error("dimensions", "fabric.ends", "the shape does not have one end for each NIC",
            {fmt::format("It has {}; {} of {} have {}.", ends, counted(f.nodes, "node"), counted(f.node.nics, "NIC"),
                         f.nics())});
  } else if (links_of(product.dimensions) > most_cables) {
    t.error("dimensions", "fabric.size", "the product has too many cables", {"At most 2^29 are counted."});
  }
  return product;
}

NetworkShape read_shape(TomlTable& t, const FabricSpec& f) {
  std::size_t shape = 0;
  if (!t.read_choice("shape", {"star", "fat_tree", "torus", "hypercube", "dragonfly", "product", "wires"}, shape))
    return {};
  switch (shape) {
    case 0: return TreeNetwork{{{static_cast<std::uint32_t>(f.nics()), 1, read_link(t, LinkKind::network)}}, false};
    case 1: return read_tree(t, f);
    case 2: return read_torus(t, f, false);
    case 3: return read_torus(t, f, true);
    case 4: return read_dragonfly(t, f);
    case 5: return read_product(t, f);
    default: break;
  }
  WiredNetwork network;
  if (f.nics() > 2048) {
    t.error("shape", "fabric.wires", "there are too many NICs for single wires",
            {fmt::format("There are {}; at most 2048 are read.", f.nics())});
    return network;
  }
  network.vertices = numbered("nic", static_cast<std::uint32_t>(f.nics()));
  read_wires(t, t.diagnostics().size(), network.vertices.size(), network.vertices, network.wires);
  return network;
}

/// Reads [[faults]]; whether they name links is known only when all links are.
void read_faults(TomlTable& t, FabricSpec& f, std::size_t before) {
  std::vector<TomlTable> rows = t.tables("faults", 1000, Need::optional);
  std::vector<LinkFault> faults;
  for (TomlTable& row : rows) {
    LinkFault fault;
    row.read("link", fault.link, Need::required, 200);
    row.read("left", fault.left, {0.0, 1.0}, Need::optional);
    row.finish();
    faults.push_back(std::move(fault));
  }
  if (faults.empty() || t.diagnostics().size() != before) return;
  const Fabric fabric(f);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (fabric.links_named(faults[i].link).empty()) {
      rows[i].error("link", "fabric.link-name", unknown_link(faults[i].link), links_like(fabric, faults[i].link));
    }
  }
  f.faults = std::move(faults);
}

/// Reads [[other_nodes]]: ranges of nodes, and their share of each kind of link.
void read_other_nodes(TomlTable& t, FabricSpec& f) {
  std::uint64_t free = 0;
  for (TomlTable& row : t.tables("other_nodes", 1000, Need::optional)) {
    OtherWiring other;
    row.read("first", other.first, {0U, most});
    row.read("count", other.count, {1U, most}, Need::optional);
    for (std::size_t k = 0; k < link_kinds; ++k) {
      row.read(name_of(static_cast<LinkKind>(k)), other.share[k], {1e-6, 1e6}, Need::optional);
    }
    row.finish();
    const std::uint64_t end = std::uint64_t{other.first} + other.count;
    if (end > f.nodes) {
      row.error(
          "first", "fabric.other-nodes", "other nodes lie outside the fabric",
          {fmt::format("They are nodes {} to {}; the fabric has nodes 0 to {}.", other.first, end - 1, f.nodes - 1)});
    } else if (other.first < free) {
      row.error("first", "fabric.other-nodes", "other nodes overlap those of the entry before, or come before it",
                {fmt::format("They begin at node {}; {} is the first that is free.", other.first, free)});
    }
    free = end;
    f.other_nodes.push_back(other);
  }
}

NetworkShape read_network(TomlTable& t, const FabricSpec& f) {
  const std::size_t before = t.diagnostics().size();
  NetworkShape network = read_shape(t, f);
  bool sharp = false;
  t.read("sharp", sharp, Need::optional);
  if (!sharp || t.diagnostics().size() != before) return network;
  if (TreeNetwork* tree = std::get_if<TreeNetwork>(&network)) {
    tree->sharp = true;
  } else {
    t.error("sharp", "fabric.sharp", "sharp needs switches that form a tree",
            {"shape = \"star\" or shape = \"fat_tree\" would be right."});
  }
  return network;
}

}  // namespace

std::optional<FabricSpec> parse_fabric(std::string text, std::string file, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.size();
  std::optional<TomlTable> root = parse_toml(std::move(text), std::move(file), diagnostics);
  if (!root || !read_schema(*root, "fabric", 1)) return std::nullopt;
  FabricSpec f;
  if (std::optional<TomlTable> t = root->table("fabric")) {
    t->read("name", f.name, Need::required, 200);
    t->read("source", f.source, Need::optional);
    t->read("nodes", f.nodes, {1U, most});
    if (std::optional<TomlTable> node = t->table("node", Need::optional)) {
      f.node = read_node(*node);
      node->finish();
    }
    if (f.gpus() > most) {
      t->error("nodes", "fabric.size", "the fabric has too many GPUs",
               {fmt::format("{} nodes of {} are {}; at most {} are read.", f.nodes, f.node.gpus, f.gpus(), most)});
    }
    if (std::uint64_t{f.nodes} * f.node.wires.size() > most_cables) {
      t->error("nodes", "fabric.size", "the nodes have too many wires", {"At most 2^29 are counted."});
    }
    if (t->has("network") || f.nodes > 1) {
      if (std::optional<TomlTable> network = t->table("network")) {
        if (diagnostics.size() == before) {
          f.network = read_network(*network, f);
          network->finish();
        }
      }
    }
    if (std::optional<TomlTable> degraded = t->table("degraded", Need::optional)) {
      degraded->read("share", f.degraded.share, {0.0, 1.0});
      degraded->read("factor", f.degraded.factor, {1e-6, 1.0});
      degraded->read("seed", f.degraded.seed, {0, std::uint64_t{1} << 53}, Need::optional);
      degraded->finish();
    }
    read_other_nodes(*t, f);
    read_faults(*t, f, before);
    t->finish();
  }
  root->finish();
  if (diagnostics.size() != before) return std::nullopt;
  return f;
}

}  // namespace orrery
