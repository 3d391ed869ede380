#include "sim/net/node_wiring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace orrery {
namespace {

NodeWiring ends_only(std::uint32_t gpus, std::uint32_t nics) {
  NodeWiring node{.gpus = gpus, .nics = nics, .vertices = {}, .wires = {}};
  for (std::uint32_t i = 0; i < gpus; ++i) node.vertices.push_back(fmt::format("gpu{}", i));
  for (std::uint32_t i = 0; i < nics; ++i) node.vertices.push_back(fmt::format("nic{}", i));
  return node;
}

std::uint32_t add(NodeWiring& node, std::string name) {
  node.vertices.push_back(std::move(name));
  return static_cast<std::uint32_t>(node.vertices.size() - 1);
}

/// Adds PCIe switches with their GPUs and NICs, below hosts.
void add_pcie(NodeWiring& node, std::uint32_t switches, std::uint32_t sockets, Link pcie, Link socket) {
  const auto first_switch = static_cast<std::uint32_t>(node.vertices.size());
  for (std::uint32_t s = 0; s < switches; ++s) add(node, fmt::format("switch{}", s));
  for (std::uint32_t g = 0; g < node.gpus; ++g)
    node.wires.push_back({g, first_switch + g * switches / node.gpus, pcie});
  for (std::uint32_t n = 0; n < node.nics; ++n) {
    node.wires.push_back({node.gpus + n, first_switch + n * switches / node.nics, pcie});
  }
  const auto first_host = static_cast<std::uint32_t>(node.vertices.size());
  for (std::uint32_t h = 0; h < sockets; ++h) add(node, fmt::format("host{}", h));
  for (std::uint32_t s = 0; s < switches; ++s) {
    node.wires.push_back({first_switch + s, first_host + s * sockets / switches, pcie});
  }
  for (std::uint32_t a = 0; a < sockets; ++a) {
    for (std::uint32_t b = a + 1; b < sockets; ++b) node.wires.push_back({first_host + a, first_host + b, socket});
  }
}

}  // namespace

NodeWiring nvswitch_node(std::uint32_t gpus, std::uint32_t nics, Link nvlink, Link pcie) {
  NodeWiring node = ends_only(gpus, nics);
  const std::uint32_t nvswitch = add(node, "nvswitch");
  for (std::uint32_t g = 0; g < gpus; ++g) node.wires.push_back({g, nvswitch, nvlink});
  // Each NIC has a PCIe switch, which all of its GPUs reach; they reach the others over NVLink.
  const auto first = static_cast<std::uint32_t>(node.vertices.size());
  for (std::uint32_t n = 0; n < nics; ++n) {
    const std::uint32_t s = add(node, fmt::format("switch{}", n));
    node.wires.push_back({gpus + n, s, pcie});
  }
  for (std::uint32_t g = 0; g < gpus; ++g) node.wires.push_back({g, first + g * nics / gpus, pcie});
  const std::uint32_t host = add(node, "host");
  for (std::uint32_t n = 0; n < nics; ++n) node.wires.push_back({first + n, host, pcie});
  return node;
}

NodeWiring cube_mesh_node(Link nvlink, Link pcie, Link socket) {
  NodeWiring node = ends_only(8, 4);
  // Number of NVLinks between GPU a and each later GPU, as `nvidia-smi topo -m` shows them.
  constexpr std::array<std::array<std::uint32_t, 8>, 8> links{{{0, 1, 1, 2, 2, 0, 0, 0},
                                                               {0, 0, 2, 1, 0, 2, 0, 0},
                                                               {0, 0, 0, 2, 0, 0, 1, 0},
                                                               {0, 0, 0, 0, 0, 0, 0, 1},
                                                               {0, 0, 0, 0, 0, 1, 1, 2},
                                                               {0, 0, 0, 0, 0, 0, 2, 1},
                                                               {0, 0, 0, 0, 0, 0, 0, 2},
                                                               {0, 0, 0, 0, 0, 0, 0, 0}}};
  for (std::uint32_t a = 0; a < 8; ++a) {
    for (std::uint32_t b = a + 1; b < 8; ++b) {
      Link link = nvlink;
      link.bandwidth = static_cast<double>(links[a][b]) * nvlink.bandwidth;
      if (links[a][b] > 0) node.wires.push_back({a, b, link});
    }
  }
  add_pcie(node, 4, 2, pcie, socket);
  return node;
}

NodeWiring pcie_node(std::uint32_t gpus, std::uint32_t nics, std::uint32_t gpus_per_switch, std::uint32_t sockets,
                     Link pcie, Link socket) {
  NodeWiring node = ends_only(gpus, nics);
  add_pcie(node, (gpus + gpus_per_switch - 1) / gpus_per_switch, sockets, pcie, socket);
  return node;
}

std::vector<std::uint32_t> cables_to_nvlink_switch(const NodeWiring& node) {
  for (std::uint32_t v = node.gpus + node.nics; v < node.vertices.size(); ++v) {
    std::vector<std::uint32_t> cables;
    for (std::uint32_t g = 0; g < node.gpus; ++g) {
      const auto found = std::find_if(node.wires.begin(), node.wires.end(), [&](const Wire& w) {
        return w.link.kind == LinkKind::nvlink && ((w.a == g && w.b == v) || (w.a == v && w.b == g));
      });
      if (found == node.wires.end()) break;
      cables.push_back(static_cast<std::uint32_t>(found - node.wires.begin()));
    }
    if (cables.size() == node.gpus) return cables;
  }
  return {};
}

}  // namespace orrery
