#include "sim/net/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "core/base/diagnostics.hpp"
#include "core/base/ids.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

struct MakeTopology {
  const FabricSpec& f;
  std::unique_ptr<Topology> operator()(const std::monostate&) const { return nullptr; }
  std::unique_ptr<Topology> operator()(const TreeNetwork& n) const {
    const std::uint32_t group = n.rails ? n.levels.front().down : 1;
    return fat_tree((f.nodes + group - 1) / group * group * f.node.nics, n.levels);
  }
  std::unique_ptr<Topology> operator()(const TorusNetwork& n) const { return torus(n.sizes, n.link); }
  std::unique_ptr<Topology> operator()(const Dragonfly& n) const { return dragonfly(n); }
  std::unique_ptr<Topology> operator()(const ProductNetwork& n) const { return product(n.dimensions); }
  std::unique_ptr<Topology> operator()(const WiredNetwork& n) const {
    return wired(static_cast<std::uint32_t>(f.nics()), n.vertices, n.wires);
  }
};

}  // namespace

Fabric::Fabric(FabricSpec spec) : spec_(std::move(spec)) {
  if (!spec_.node.vertices.empty()) {
    node_ = wired(spec_.node.gpus + spec_.node.nics, spec_.node.vertices, spec_.node.wires);
    node_links_ = spec_.nodes * node_->links();
  }
  network_ = std::visit(MakeTopology{spec_}, spec_.network);
  const auto* tree = std::get_if<TreeNetwork>(&spec_.network);
  if (tree != nullptr && tree->rails) rail_group_ = tree->levels.front().down;
}

std::uint32_t Fabric::links() const { return node_links_ + (network_ ? network_->links() : 0); }

Link Fabric::link(LinkId id) const {
  const std::uint32_t l = index(id);
  Link link = l < node_links_ ? node_->link(l % node_->links()) : network_->link(l - node_links_);
  const Degraded& d = spec_.degraded;
  if (d.share > 0.0 && random_uniform(d.seed, stream_of("degraded links"), l) < d.share) {
    link.bandwidth = d.factor * link.bandwidth;
  }
  return link;
}

/// With rails, the NICs of one number in a group of nodes stand side by side.
std::uint32_t Fabric::network_end(std::uint32_t node, std::uint32_t nic) const {
  if (rail_group_ == 0) return node * spec_.node.nics + nic;
  return (node / rail_group_ * spec_.node.nics + nic) * rail_group_ + node % rail_group_;
}

std::string Fabric::network_vertex(std::uint32_t v) const {
  if (v >= network_->ends() || std::holds_alternative<WiredNetwork>(spec_.network)) return network_->vertex_name(v);
  const std::uint32_t nics = spec_.node.nics;
  if (rail_group_ == 0) return fmt::format("node {} nic {}", v / nics, v % nics);
  return fmt::format("node {} nic {}", v / rail_group_ / nics * rail_group_ + v % rail_group_, v / rail_group_ % nics);
}

std::string Fabric::name(LinkId id) const {
  const std::uint32_t l = index(id);
  if (l < node_links_) {
    const Topology::Sides s = node_->sides(l % node_->links());
    return fmt::format("node {}: {} -> {}", l / node_->links(), node_->vertex_name(s.from), node_->vertex_name(s.to));
  }
  const Topology::Sides s = network_->sides(l - node_links_);
  return fmt::format("{} -> {}", network_vertex(s.from), network_vertex(s.to));
}

void Fabric::route(std::uint32_t from, std::uint32_t to, PathRule rule, std::uint64_t seed,
                   std::vector<LinkId>& into) const {
  ORRERY_ASSERT(from < gpus() && to < gpus(), from, to, gpus());
  const std::uint32_t gpus_each = spec_.node.gpus, nics = spec_.node.nics;
  const std::uint32_t a = from / gpus_each, b = to / gpus_each, x = from % gpus_each, y = to % gpus_each;
  const PathChoice choice{rule == PathRule::hashed, random_bits(seed, from, to)};
  std::vector<std::uint32_t> hops;
  const auto add = [&](std::uint32_t first) {
    for (const std::uint32_t h : hops) into.push_back(LinkId{first + h});
    hops.clear();
  };
  const auto inside = [&](std::uint32_t node, std::uint32_t u, std::uint32_t v) {
    if (!node_) return;
    node_->route(u, v, choice, hops);
    add(node * node_->links());
  };
  if (a == b) return inside(a, x, y);
  const std::uint32_t last_nic = y * nics / gpus_each;
  std::uint32_t first_nic = x * nics / gpus_each;
  std::uint32_t leaves_from = x;
  if (rule == PathRule::rail_local && first_nic != last_nic) {
    first_nic = last_nic;
    leaves_from = y;
    inside(a, x, y);
  }
  inside(a, leaves_from, gpus_each + first_nic);
  network_->route(network_end(a, first_nic), network_end(b, last_nic), choice, hops);
  add(node_links_);
  inside(b, gpus_each + last_nic, y);
}

Seconds Fabric::latency(std::span<const LinkId> route) const {
  Seconds sum;
  for (const LinkId l : route) sum += link(l).latency;
  return sum;
}

namespace {

/// Of one wiring: the busier direction of every cable, parallel ones together.
class BusierSide {
 public:
  BusierSide(const Topology& t, const std::vector<double>& load, std::uint32_t first) {
    for (std::uint32_t l = 0; !load.empty() && l < t.links(); ++l) {
      double& most = load_[key(t.sides(l))];
      most = std::max(most, load[first + l]);
    }
  }
  double of(const Topology::Sides& s) const { return load_.empty() ? -1.0 : load_.at(key(s)); }

 private:
  static std::pair<std::uint32_t, std::uint32_t> key(const Topology::Sides& s) { return std::minmax(s.from, s.to); }
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> load_;
};

/// From grey over green to violet, in steps that look different in print and to the colour-blind too (viridis).
std::string look_of(double load) {
  constexpr std::array<const char*, 5> colours{"#a0da39", "#4ac16d", "#1fa187", "#277f8e", "#46327e"};
  if (load < 0.005) return ", color=\"#c8c8c8\"";
  const auto step = std::min<std::size_t>(static_cast<std::size_t>(load * 5.0), 4);
  return fmt::format(", color=\"{}\", penwidth={}", colours[step], step + 2);
}

}  // namespace

std::string dot_of(const Fabric& f, const std::vector<double>& load) {
  ORRERY_ASSERT(load.empty() || load.size() == f.links(), load.size(), f.links());
  std::string out = "graph fabric {\n  node [shape=box];\n";
  const auto edge = [&](const std::string& a, const std::string& b, const Link& link, double busy) {
    const std::string label = busy < 0.0 ? short_text(link.bandwidth) : fmt::format("{:.0f} %", 100.0 * busy);
    fmt::format_to(std::back_inserter(out),
                   "  \"{}\" -- \"{}\" [label=\"{}\", kind={}, bandwidth=\"{}\", latency=\"{}\"{}];\n", a, b, label,
                   name_of(link.kind), exact_text(link.bandwidth), exact_text(link.latency),
                   busy < 0.0 ? "" : look_of(busy));
  };
  for (std::uint32_t n = 0; f.node_ && n < f.spec_.nodes; ++n) {
    const std::uint32_t first = n * f.node_->links();
    const BusierSide busy(*f.node_, load, first);
    for (std::uint32_t l = 0; l < f.node_->links(); ++l) {
      const Topology::Sides s = f.node_->sides(l);
      const auto name = [&](std::uint32_t v) {
        const std::uint32_t gpus = f.spec_.node.gpus;
        return v >= gpus && v < f.node_->ends() && !std::holds_alternative<WiredNetwork>(f.spec_.network)
                   ? fmt::format("node {} nic {}", n, v - gpus)
               : v >= gpus && v < f.node_->ends() ? fmt::format("nic{}", n * f.spec_.node.nics + v - gpus)
                                                  : fmt::format("node {} {}", n, f.node_->vertex_name(v));
      };
      if (s.from < s.to) edge(name(s.from), name(s.to), f.link(LinkId{first + l}), busy.of(s));
    }
  }
  if (!f.network_) return out + "}\n";
  const BusierSide busy(*f.network_, load, f.node_links_);
  for (std::uint32_t l = 0; l < f.network_->links(); ++l) {
    const Topology::Sides s = f.network_->sides(l);
    if (s.from < s.to) {
      edge(f.network_vertex(s.from), f.network_vertex(s.to), f.link(LinkId{f.node_links_ + l}), busy.of(s));
    }
  }
  return out + "}\n";
}

}  // namespace orrery
