#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphviz.hpp>
#include <map>
#include <set>

#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/import/source.hpp"

// Reads a graph whose vertices are named as `orrery show fabric --dot` names them: gpu0, nic0 in one node; node 3 gpu0,
// node 3 nic 0 (or nic<number in the fabric>) and node 3 switch0 in several. All other vertices stand between the
// nodes. Edges have bandwidth and latency, and may have kind.

namespace orrery::importing {
namespace {

struct EdgeText {
  std::string bandwidth, latency, kind;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                    boost::property<boost::vertex_name_t, std::string>, EdgeText>;
using UndirectedGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS,
                                              boost::property<boost::vertex_name_t, std::string>, EdgeText>;

/// A vertex by its name.
struct Place {
  enum class Kind : std::uint8_t { gpu, nic, inside, between } kind = Kind::between;
  std::uint32_t node = 0, number = 0;
  std::string name;
};

bool number_at(std::string_view text, std::size_t& i, std::uint32_t& out) {
  const std::size_t first = i;
  std::uint64_t v = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9' && i - first < 8)
    v = 10 * v + static_cast<std::uint64_t>(text[i++] - '0');
  out = static_cast<std::uint32_t>(v);
  return i > first && v < max_fabric_gpus;
}

/// Whether a name is the word and a number, and nothing else.
bool numbered(std::string_view name, std::string_view word, std::uint32_t& out) {
  if (!name.starts_with(word)) return false;
  std::size_t i = word.size();
  return number_at(name, i, out) && i == name.size();
}

class Reader {
 public:
  explicit Reader(Source& source) : source_(source) {}

  std::optional<FabricSpec> read() {
    try {
      if (!load<UndirectedGraph>() && !load<Graph>()) return std::nullopt;
    } catch (const boost::bad_graphviz_syntax& e) {
      source_.error({}, "import.syntax", fmt::format("not a graph of Graphviz: {}", brief(e.errmsg)));
      return std::nullopt;
    } catch (const std::exception& e) {  // a graph that the library cannot hold
      source_.error({}, "import.syntax", fmt::format("not a graph of Graphviz: {}", brief(e.what())));
      return std::nullopt;
    }
    if (!source_.clean()) return std::nullopt;
    return assemble();
  }

 private:
  struct Edge {
    std::size_t a, b;
    Link link;
  };

  /// Returns false where the text is of the other kind of graph.
  template <class G>
  bool load() {
    G graph;
    boost::dynamic_properties properties(boost::ignore_other_properties);
    properties.property("node_id", boost::get(boost::vertex_name, graph));
    properties.property("bandwidth", boost::get(&EdgeText::bandwidth, graph));
    properties.property("latency", boost::get(&EdgeText::latency, graph));
    properties.property("kind", boost::get(&EdgeText::kind, graph));
    try {
      boost::read_graphviz(source_.text(), graph, properties);
    } catch (const boost::directed_graph_error&) {
      return false;
    } catch (const boost::undirected_graph_error&) {
      return false;
    }
    for (const auto v : boost::make_iterator_range(boost::vertices(graph)))
      names_.push_back(boost::get(boost::vertex_name, graph, v));
    std::set<std::pair<std::size_t, std::size_t>> seen;
    for (const auto e : boost::make_iterator_range(boost::edges(graph))) {
      std::size_t a = boost::source(e, graph), b = boost::target(e, graph);
      // The two directions of a cable may be separate edges.
      if (std::is_same_v<G, Graph> && !seen.insert({a, b}).second) continue;
      if (std::is_same_v<G, Graph> && seen.count({b, a}) > 0) continue;
      if (const auto link = link_of(graph[e], names_[a], names_[b])) edges_.push_back({a, b, *link});
      if (!source_.clean()) return true;
    }
    return true;
  }

  std::optional<Link> link_of(const EdgeText& text, const std::string& a, const std::string& b) {
    Link link;
    std::string problem;
    const auto wrong = [&](const char* key, const std::string& value) {
      source_.error(
          {}, "import.value", fmt::format("the {} of \"{}\" -- \"{}\" cannot be read", key, brief(a), brief(b)),
          {fmt::format(
              "It is \"{}\"; bandwidth=\"50 GB/s\", latency=\"500 ns\", kind=nvlink, pcie, socket or network would "
              "be right.",
              brief(value))});
      return std::nullopt;
    };
    if (!parse_quantity(text.bandwidth, link.bandwidth, problem) || !(link.bandwidth.base() > 0.0) ||
        link.bandwidth.base() > 1e18) {
      return wrong("bandwidth", text.bandwidth);
    }
    if (!parse_quantity(text.latency, link.latency, problem) || !(link.latency.base() >= 0.0) ||
        link.latency.base() > 1.0) {
      return wrong("latency", text.latency);
    }
    static const std::map<std::string, LinkKind> kinds{{"nvlink", LinkKind::nvlink},
                                                       {"pcie", LinkKind::pcie},
                                                       {"socket", LinkKind::socket},
                                                       {"network", LinkKind::network},
                                                       {"", LinkKind::network}};
    const auto found = kinds.find(text.kind);
    if (found == kinds.end()) return wrong("kind", text.kind);
    link.kind = found->second;
    return link;
  }

  static Place place_of(const std::string& name, bool several) {
    Place p;
    p.name = name;
    std::uint32_t number = 0;
    std::size_t i = 5;
    if (name.starts_with("node ") && number_at(name, i, p.node) && i < name.size() && name[i] == ' ') {
      p.name = name.substr(i + 1);
      p.kind = Place::Kind::inside;
    } else if (!several) {
      p.kind = Place::Kind::inside;
    }
    if (numbered(p.name, "gpu", number)) {
      p.kind = Place::Kind::gpu;
    } else if (numbered(p.name, "nic ", number) || numbered(p.name, "nic", number)) {
      p.kind = Place::Kind::nic;
    } else {
      p.name = wire_name(std::move(p.name));
    }
    p.number = number;
    return p;
  }

  std::optional<FabricSpec> assemble() {
    const bool several =
        std::any_of(names_.begin(), names_.end(), [](const std::string& n) { return n.starts_with("node "); });
    std::vector<Place> places;
    std::uint64_t gpus = 0, nics = 0;
    std::uint32_t nodes = 1;
    for (const std::string& n : names_) {
      places.push_back(place_of(n, several));
      const Place& p = places.back();
      if (p.name.empty() || p.name.size() > 64) {
        source_.error({}, "import.value", fmt::format("the name \"{}\" cannot be kept", brief(n)),
                      {"A name may have 1 to 64 characters."});
        return std::nullopt;
      }
      gpus += p.kind == Place::Kind::gpu ? 1 : 0;
      nics += p.kind == Place::Kind::nic ? 1 : 0;
      if (p.kind == Place::Kind::gpu) nodes = std::max(nodes, p.node + 1);
    }
    // Without GPUs every NIC counts as one.
    FabricSpec f;
    f.nodes = gpus == 0 ? static_cast<std::uint32_t>(nics) : nodes;
    if (nics == 0 || (gpus > 0 && (gpus % nodes != 0 || nics % nodes != 0 || gpus < nics))) {
      source_.error({}, "import.nodes", "the nodes of this graph are not alike",
                    {fmt::format("It has {} (gpu0, node 1 gpu0) and {} (nic0, node 1 nic 0) in {}; each node needs the "
                                 "same number of both, at least one NIC, and no fewer GPUs than NICs.",
                                 counted(gpus, "GPU"), counted(nics, "NIC"), counted(nodes, "node"))});
      return std::nullopt;
    }
    f.node.gpus = gpus == 0 ? 1 : static_cast<std::uint32_t>(gpus / nodes);
    f.node.nics = gpus == 0 ? 1 : static_cast<std::uint32_t>(nics / nodes);
    // The number in "nic5" counts through all nodes, that in "node 1 nic 1" in one.
    for (std::size_t v = 0; v < places.size(); ++v) {
      Place& p = places[v];
      if (p.kind == Place::Kind::nic && several && !names_[v].starts_with("node ")) {
        p.node = p.number / f.node.nics;
        p.number %= f.node.nics;
      }
      const bool wrong =
          (p.kind == Place::Kind::gpu && p.number >= f.node.gpus) ||
          (p.kind == Place::Kind::nic && (p.number >= (gpus == 0 ? nics : f.node.nics) || p.node >= f.nodes));
      if (!wrong) continue;
      source_.error({}, "import.nodes", fmt::format("\"{}\" is out of the order of its node", brief(names_[v])),
                    {fmt::format("A node has gpu0 to gpu{} and nic 0 to nic {}.", f.node.gpus - 1, f.node.nics - 1)});
      return std::nullopt;
    }
    if (!wire(f, places, gpus > 0)) return std::nullopt;
    return f;
  }

  bool wire(FabricSpec& f, const std::vector<Place>& places, bool has_gpus) {
    std::vector<std::map<std::string, std::uint32_t>> inside(has_gpus ? f.nodes : 0);
    std::vector<std::vector<Wire>> node_wires(inside.size());
    std::map<std::string, std::uint32_t> between;
    WiredNetwork network;
    const std::uint32_t ends = f.node.gpus + f.node.nics;
    if (has_gpus) {
      for (std::uint32_t g = 0; g < f.node.gpus; ++g) f.node.vertices.push_back(fmt::format("gpu{}", g));
      for (std::uint32_t n = 0; n < f.node.nics; ++n) f.node.vertices.push_back(fmt::format("nic{}", n));
    }
    if (f.nics() <= 2048) {
      for (std::uint32_t n = 0; n < f.nics(); ++n) network.vertices.push_back(fmt::format("nic{}", n));
    }
    const auto in_node = [&](const Place& p) {
      if (p.kind == Place::Kind::gpu) return p.number;
      if (p.kind == Place::Kind::nic) return f.node.gpus + p.number;
      auto& names = inside[p.node];
      const auto [at, first] = names.try_emplace(p.name, ends + static_cast<std::uint32_t>(names.size()));
      if (first && p.node == 0) f.node.vertices.push_back(p.name);
      return at->second;
    };
    const auto in_network = [&](const Place& p) {
      if (p.kind == Place::Kind::nic) return p.node * f.node.nics + p.number;
      const auto [at, first] = between.try_emplace(p.name, static_cast<std::uint32_t>(network.vertices.size()));
      if (first) network.vertices.push_back(p.name);
      return at->second;
    };
    for (const Edge& e : edges_) {
      const Place &a = places[e.a], &b = places[e.b];
      const auto local = [&](const Place& p) { return p.kind == Place::Kind::gpu || p.kind == Place::Kind::inside; };
      const bool in = has_gpus && (local(a) || local(b));
      const bool crosses = in && (a.node != b.node || a.kind == Place::Kind::between ||
                                  b.kind == Place::Kind::between || a.node >= f.nodes);
      if (e.a == e.b || crosses) {
        source_.error({}, "import.edge",
                      fmt::format("\"{}\" -- \"{}\" is not a cable", brief(names_[e.a]), brief(names_[e.b])),
                      {e.a == e.b ? "It leads from a vertex to itself." : "Only NICs lead out of a node."});
        return false;
      }
      if (in) {
        node_wires[a.node].push_back({in_node(a), in_node(b), e.link});
      } else {
        network.wires.push_back({in_network(a), in_network(b), e.link});
      }
    }
    for (std::size_t n = 1; n < node_wires.size(); ++n) {
      if (inside[n] == inside[0] && node_wires[n] == node_wires[0]) continue;
      source_.error({}, "import.nodes", fmt::format("node {} is not wired like node 0", n),
                    {"All nodes of a fabric must be alike, with their cables in the same order."});
      return false;
    }
    if (has_gpus) {
      f.node.wires = node_wires[0];
      if (!ends_are_joined(source_, {}, ends, f.node.vertices, f.node.wires)) return false;
    }
    if (f.nodes == 1 && network.wires.empty()) return true;
    if (f.nics() > 2048) {
      source_.error({}, "import.size", "there are too many NICs for single wires",
                    {fmt::format("There are {}; at most 2048 are read.", f.nics())});
      return false;
    }
    if (!ends_are_joined(source_, {}, static_cast<std::uint32_t>(f.nics()), network.vertices, network.wires))
      return false;
    f.network = std::move(network);
    return true;
  }

  Source& source_;
  std::vector<std::string> names_;
  std::vector<Edge> edges_;
};

}  // namespace

std::optional<FabricSpec> read_dot_graph(Source& source, const ImportOptions&) { return Reader(source).read(); }

}  // namespace orrery::importing
