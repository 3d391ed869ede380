#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/toml_writer.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/fabric_spec.hpp"

namespace orrery {

const char* name_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink: return "nvlink";
    case LinkKind::pcie: return "pcie";
    case LinkKind::socket: return "socket";
    case LinkKind::network: return "network";
  }
  return "";
}

namespace {

std::string link_keys(const Link& l) {
  return fmt::format("bandwidth = \"{}\"\nlatency = \"{}\"\n", exact_text(l.bandwidth), exact_text(l.latency));
}

std::string list(const std::vector<std::uint32_t>& numbers) {
  std::string out;
  for (const std::uint32_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

/// A table for each run of wires that are alike.
std::string wires_text(const std::string& table, const std::vector<std::string>& names,
                       const std::vector<Wire>& wires) {
  std::string out;
  for (std::size_t i = 0; i < wires.size();) {
    fmt::format_to(std::back_inserter(out), "[[{}]]\nkind = \"{}\"\n{}pairs = [", table, name_of(wires[i].link.kind),
                   link_keys(wires[i].link));
    const std::size_t first = i;
    for (; i < wires.size() && wires[i].link == wires[first].link; ++i) {
      if (i > first) out += (i - first) % 6 == 0 ? ",\n         " : ", ";
      out += toml_quoted(names[wires[i].a] + " " + names[wires[i].b]);
    }
    out += "]\n";
  }
  return out;
}

/// [fabric.network]
struct WriteNetwork {
  const FabricSpec& f;
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const TreeNetwork& n) const {
    const TreeLevel& leaf = n.levels.front();
    const std::string head = "[fabric.network]\n";
    if (n.levels.size() == 1 && !n.rails && leaf.up == 1 && leaf.down == f.nics()) {
      return head + "shape = \"star\"\n" + (n.sharp ? "sharp = true\n" : "") + link_keys(leaf.link);
    }
    std::vector<std::uint32_t> down, up;
    std::string bandwidths;
    for (const TreeLevel& l : n.levels) {
      down.push_back(l.down);
      up.push_back(l.up);
      bandwidths += (bandwidths.empty() ? "\"" : ", \"") + exact_text(l.link.bandwidth) + "\"";
    }
    return head + "shape = \"fat_tree\"\n" + (n.rails ? "rails = true\n" : "") + (n.sharp ? "sharp = true\n" : "") +
           fmt::format("down = {}\nup = {}\nbandwidths = [{}]\n", list(down), list(up), bandwidths) +
           link_keys(leaf.link);
  }
  std::string operator()(const TorusNetwork& n) const {
    return fmt::format("[fabric.network]\nshape = \"torus\"\nsizes = {}\n{}", list(n.sizes), link_keys(n.link));
  }
  std::string operator()(const Dragonfly& n) const {
    return fmt::format(
        "[fabric.network]\nshape = \"dragonfly\"\ngroups = {}\nrouters = {}\nends = {}\nglobal_links = {}\n{}"
        "global_bandwidth = \"{}\"\nglobal_latency = \"{}\"\n",
        n.groups, n.routers, n.ends, n.global_links, link_keys(n.link), exact_text(n.global.bandwidth),
        exact_text(n.global.latency));
  }
  std::string operator()(const ProductNetwork& n) const {
    std::string out = "[fabric.network]\nshape = \"product\"\n";
    for (const ProductDimension& d : n.dimensions) {
      const char* shape = d.shape == ProductDimension::Shape::ring   ? "ring"
                          : d.shape == ProductDimension::Shape::full ? "full"
                                                                     : "switch";
      out +=
          fmt::format("[[fabric.network.dimensions]]\nshape = \"{}\"\nsize = {}\n{}", shape, d.size, link_keys(d.link));
    }
    return out;
  }
  std::string operator()(const WiredNetwork& n) const {
    return "[fabric.network]\nshape = \"wires\"\n" + wires_text("fabric.network.wires", n.vertices, n.wires);
  }
};

}  // namespace

std::string write_fabric(const FabricSpec& f, const std::vector<std::string>& comments) {
  std::string out;
  for (std::string c : comments) {
    // A comment ends with its line, and characters outside ASCII may not be valid text.
    std::replace_if(
        c.begin(), c.end(), [](unsigned char b) { return b < 0x20 || b >= 0x7f; }, '?');
    out += "# " + c + "\n";
  }
  fmt::format_to(std::back_inserter(out), "schema = 1\n[fabric]\nname = {}\n", toml_quoted(f.name));
  if (!f.source.empty()) out += "source = " + toml_quoted(f.source) + "\n";
  out += fmt::format("nodes = {}\n", f.nodes);
  if (!f.node.vertices.empty()) {
    out += fmt::format("[fabric.node]\nshape = \"wires\"\ngpus = {}\nnics = {}\n{}", f.node.gpus, f.node.nics,
                       f.node.nvls ? "nvls = true\n" : "") +
           wires_text("fabric.node.wires", f.node.vertices, f.node.wires);
  }
  out += std::visit(WriteNetwork{f}, f.network);
  if (f.degraded != Degraded{}) {
    out += fmt::format("[fabric.degraded]\nshare = {}\nfactor = {}\nseed = {}\n", f.degraded.share, f.degraded.factor,
                       f.degraded.seed);
  }
  for (const OtherWiring& other : f.other_nodes) {
    out += fmt::format("[[fabric.other_nodes]]\nfirst = {}\ncount = {}\n", other.first, other.count);
    for (std::size_t k = 0; k < link_kinds; ++k) {
      if (other.share[k] != 1.0) out += fmt::format("{} = {}\n", name_of(static_cast<LinkKind>(k)), other.share[k]);
    }
  }
  for (const LinkFault& fault : f.faults) {
    out += fmt::format("[[fabric.faults]]\nlink = {}\nleft = {}\n", toml_quoted(fault.link), fault.left);
  }
  return out;
}

}  // namespace orrery
