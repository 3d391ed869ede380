#include "sim/net/fabric.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "core/base/diagnostics.hpp"
#include "core/base/ids.hpp"
#include "core/base/nearest.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/node_wiring.hpp"

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
  bool any = false;
  for (const LinkFault& fault : spec_.faults) {
    const std::vector<LinkId> links = links_named(fault.link);
    ORRERY_ASSERT(!links.empty(), fault.link);
    for (const LinkId l : links) left_.try_emplace(index(l), 1.0).first->second *= fault.left;
    any = any || fault.left == 0.0;
  }
  if (any && node_) node_detour_ = std::make_shared<Detour>(*node_);
  if (any && network_) net_detour_ = std::make_shared<Detour>(*network_);
  if (spec_.node.nvls) {
    nvlink_cables_ = cables_to_nvlink_switch(spec_.node);
    ORRERY_ASSERT(!nvlink_cables_.empty(), spec_.node.gpus);
  }
}

bool Fabric::has_failed(LinkId id) const {
  const auto fault = left_.find(index(id));
  return fault != left_.end() && fault->second == 0.0;
}

std::vector<LinkId> Fabric::links_named(const std::string& wanted) const {
  // The name "node 3: gpu0 -- nvswitch" stands for both directions; backwards it is "node 3: nvswitch -> gpu0".
  std::string forward = wanted, backward;
  const std::size_t both = wanted.find(" -- ");
  if (both != std::string::npos) {
    const std::size_t colon = wanted.find(": ");
    const std::size_t from = colon == std::string::npos || colon > both ? 0 : colon + 2;
    const std::string a = wanted.substr(from, both - from), b = wanted.substr(both + 4);
    forward = wanted.substr(0, from) + a + " -> " + b;
    backward = wanted.substr(0, from) + b + " -> " + a;
  }
  const bool vertex = both == std::string::npos && wanted.find(" -> ") == std::string::npos;
  std::vector<LinkId> out;
  for (std::uint32_t l = 0; l < links(); ++l) {
    const auto [from, to] = side_names(LinkId{l});
    const bool here = vertex ? from == wanted || to == wanted
                             : name(LinkId{l}) == forward || (!backward.empty() && name(LinkId{l}) == backward);
    if (here) out.push_back(LinkId{l});
  }
  return out;
}

bool Fabric::sharp() const {
  const auto* tree = std::get_if<TreeNetwork>(&spec_.network);
  return tree != nullptr && tree->sharp && net_detour_ == nullptr;
}

namespace {

/// Links come in pairs, one for each direction of a cable; this holds for wired nodes and for trees.
LinkId against(LinkId l) { return LinkId{index(l) ^ 1U}; }

}  // namespace

void Fabric::nvls_sum(std::span<const std::uint32_t> gpus, std::uint32_t root, std::vector<LinkId>& into) const {
  ORRERY_ASSERT(nvls());
  const auto up = [&](std::uint32_t gpu) {
    ORRERY_ASSERT(gpu / spec_.node.gpus == root / spec_.node.gpus, gpu, root);
    const std::uint32_t g = gpu % spec_.node.gpus, cable = nvlink_cables_[g];
    const std::uint32_t backwards = spec_.node.wires[cable].a == g ? 0 : 1;
    return LinkId{gpu / spec_.node.gpus * node_->links() + 2 * cable + backwards};
  };
  for (const std::uint32_t gpu : gpus) into.push_back(up(gpu));
  into.push_back(against(up(root)));
}

void Fabric::nvls_copy(std::span<const std::uint32_t> gpus, std::uint32_t root, std::vector<LinkId>& into) const {
  const std::size_t first = into.size();
  nvls_sum(gpus, root, into);
  for (std::size_t i = first; i < into.size(); ++i) into[i] = against(into[i]);
}

void Fabric::sharp_all_reduce(std::span<const std::uint32_t> gpus, std::vector<LinkId>& into) const {
  ORRERY_ASSERT(sharp() && gpus.size() >= 2, gpus.size());
  const std::size_t first = into.size();
  for (const std::uint32_t gpu : gpus.subspan(1)) {
    ORRERY_ASSERT(gpu / spec_.node.gpus != gpus.front() / spec_.node.gpus, gpu, gpus.front());
    route(gpu, gpus.front(), PathRule::by_destination, 0, into);
  }
  const std::size_t all = into.size();
  for (std::size_t i = first; i < all; ++i) into.push_back(against(into[i]));
  const auto begin = into.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, into.end());
  into.erase(std::unique(begin, into.end()), into.end());
}

std::uint32_t Fabric::links() const { return node_links_ + (network_ ? network_->links() : 0); }

double Fabric::share_of(std::uint32_t l, LinkKind kind) const {
  const auto of_node = [&](std::uint32_t node) {
    for (const OtherWiring& other : spec_.other_nodes) {
      if (node >= other.first && node - other.first < other.count) return other.share[static_cast<std::size_t>(kind)];
    }
    return 1.0;
  };
  if (l < node_links_) return of_node(l / node_->links());
  const Topology::Sides s = network_->sides(l - node_links_);
  std::optional<double> least;
  for (const std::uint32_t end : {s.from, s.to}) {
    if (end >= network_->ends()) continue;
    const std::uint32_t nics = spec_.node.nics;
    const std::uint32_t node =
        rail_group_ == 0 ? end / nics : end / rail_group_ / nics * rail_group_ + end % rail_group_;
    const double share = of_node(node);
    least = least ? std::min(*least, share) : share;
  }
  return least.value_or(1.0);
}

Link Fabric::link(LinkId id) const {
  const std::uint32_t l = index(id);
  Link link = l < node_links_ ? node_->link(l % node_->links()) : network_->link(l - node_links_);
  if (!spec_.other_nodes.empty()) link.bandwidth = share_of(l, link.kind) * link.bandwidth;
  const Degraded& d = spec_.degraded;
  if (d.share > 0.0 && random_uniform(d.seed, stream_of("degraded links"), l) < d.share) {
    link.bandwidth = d.factor * link.bandwidth;
  }
  const auto fault = left_.find(l);
  if (fault != left_.end()) link.bandwidth = fault->second * link.bandwidth;
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
  const auto [from, to] = side_names(id);
  return from + " -> " + to;
}

std::pair<std::string, std::string> Fabric::side_names(LinkId id) const {
  const std::uint32_t l = index(id);
  if (l < node_links_) {
    const Topology::Sides s = node_->sides(l % node_->links());
    const auto full = [&](std::uint32_t v) {
      return fmt::format("node {}: {}", l / node_->links(), node_->vertex_name(v));
    };
    return {full(s.from), full(s.to)};
  }
  const Topology::Sides s = network_->sides(l - node_links_);
  return {network_vertex(s.from), network_vertex(s.to)};
}

std::string unknown_link(const std::string& name) {
  return fmt::format("no link or switch is named \"{}\"", name.substr(0, 100));
}

std::vector<std::string> links_like(const Fabric& fabric, const std::string& name) {
  // In a large fabric the first links and the last ones serve as examples.
  constexpr std::uint32_t most = 10'000;
  std::vector<std::string> known;
  for (std::uint32_t l = 0; l < fabric.links(); ++l) {
    if (l >= most && l + most < fabric.links()) l = fabric.links() - most;
    known.push_back(fabric.name(LinkId{l}));
  }
  if (known.empty()) return {"The fabric has no links."};
  const std::vector<std::string> near = nearest(name, known, 2);
  return {fmt::format("{}: \"{}\".", near.empty() ? "One is named" : "Nearest",
                      near.empty() ? known.back() : fmt::format("{}", fmt::join(near, "\", \""))),
          "-- in place of -> means both directions; the name of a switch or a NIC alone, all of its links."};
}

void Fabric::route(std::uint32_t from, std::uint32_t to, PathRule rule, std::uint64_t seed,
                   std::vector<LinkId>& into) const {
  const std::size_t before = into.size();
  usual_route(from, to, rule, seed, into);
  if (!node_detour_ && !net_detour_) return;
  const auto first = into.begin() + static_cast<std::ptrdiff_t>(before);
  if (std::none_of(first, into.end(), [this](LinkId l) { return has_failed(l); })) return;
  into.erase(first, into.end());
  if (detour(from, to, {rule == PathRule::hashed, random_bits(seed, from, to)}, into)) return;
  const std::uint32_t gpus_each = spec_.node.gpus;
  throw CutOff(from, to,
               fmt::format("every way from GPU {} of node {} to GPU {} of node {} crosses a link that has failed",
                           from % gpus_each, from / gpus_each, to % gpus_each, to / gpus_each));
}

bool Fabric::way_inside(std::uint32_t node, std::uint32_t from, std::uint32_t to, const PathChoice& choice,
                        std::vector<LinkId>& into) const {
  if (!node_) return true;
  const std::uint32_t first = node * node_->links();
  std::vector<std::uint32_t> hops;
  const bool found = node_detour_->route(
      from, to, choice, [&](std::uint32_t l) { return has_failed(LinkId{first + l}); }, hops);
  for (const std::uint32_t h : hops) into.push_back(LinkId{first + h});
  return found;
}

/// A way from a GPU to a NIC of its node, or back.
struct Fabric::Way {
  std::uint32_t nic;
  bool usual;  ///< the GPU's own
  std::vector<LinkId> links;
};

bool Fabric::detour(std::uint32_t from, std::uint32_t to, const PathChoice& choice, std::vector<LinkId>& into) const {
  const std::uint32_t gpus = spec_.node.gpus, nics = spec_.node.nics;
  const std::uint32_t a = from / gpus, b = to / gpus, x = from % gpus, y = to % gpus;
  if (a == b && way_inside(a, x, y, choice, into)) return true;
  if (!network_) return false;
  std::vector<Way> ways_out, ways_in;
  for (std::uint32_t n = 0; n < nics; ++n) {
    Way out{n, n == x * nics / gpus, {}}, in{n, n == y * nics / gpus, {}};
    if (way_inside(a, x, gpus + n, choice, out.links)) ways_out.push_back(std::move(out));
    if (way_inside(b, gpus + n, y, choice, in.links)) ways_in.push_back(std::move(in));
  }
  const auto nearer = [](const Way& p, const Way& q) {
    return p.usual != q.usual ? p.usual : p.links.size() < q.links.size();
  };
  std::stable_sort(ways_out.begin(), ways_out.end(), nearer);
  std::stable_sort(ways_in.begin(), ways_in.end(), nearer);
  const auto failed = [this](std::uint32_t l) { return has_failed(LinkId{node_links_ + l}); };
  for (const Way& out : ways_out) {
    for (const Way& in : ways_in) {
      // A way out and back by one NIC, or over one link, does not count.
      const auto again = [&](LinkId l) { return std::find(in.links.begin(), in.links.end(), l) != in.links.end(); };
      if (a == b && (out.nic == in.nic || std::any_of(out.links.begin(), out.links.end(), again))) continue;
      std::vector<std::uint32_t> hops;
      if (!net_detour_->route(network_end(a, out.nic), network_end(b, in.nic), choice, failed, hops)) continue;
      into.insert(into.end(), out.links.begin(), out.links.end());
      for (const std::uint32_t h : hops) into.push_back(LinkId{node_links_ + h});
      into.insert(into.end(), in.links.begin(), in.links.end());
      return true;
    }
  }
  return false;
}

void Fabric::usual_route(std::uint32_t from, std::uint32_t to, PathRule rule, std::uint64_t seed,
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

/// The busier direction of every cable of one wiring, with parallel cables together.
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

/// A colour from grey over green to violet, in steps that look different in print and to the colour-blind too
/// (viridis).
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
