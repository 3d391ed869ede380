#include "gui/model/fabric_picture.hpp"

#include <fmt/format.h>

#include <QCoreApplication>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "core/base/units_text.hpp"
#include "sim/cost/prices.hpp"

namespace orrery::gui {
namespace {

/// Most kinds of vertices at one distance; where there are more, kinds are not told apart.
constexpr std::size_t most_kinds = 4;
constexpr std::uint32_t unseen = std::numeric_limits<std::uint32_t>::max();

/// The vertices of a fabric by name, and the links between them.
struct Graph {
  std::vector<std::string> names;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> links;  ///< [link]: from, to
  std::vector<std::uint32_t> device;                           ///< [vertex]: its number; else unseen
};

std::uint32_t number_after(std::string_view text, std::string_view prefix) {
  const auto at = text.find(prefix);
  if (at == std::string_view::npos) return unseen;
  std::uint32_t out = unseen;
  std::from_chars(text.data() + at + prefix.size(), text.data() + text.size(), out);
  return out;
}

/// The text "node 3: gpu5" is device 5 of node 3. A node of one device has no wires of its own: its port is the device.
std::uint32_t device_of(const std::string& name, const FabricSpec& spec) {
  const std::uint32_t node = number_after(name, "node ");
  if (node == unseen) return unseen;
  const bool bare = spec.node.vertices.empty();
  const std::uint32_t at = number_after(name, bare ? " nic " : ": gpu");
  return at == unseen || at >= spec.node.gpus ? unseen : node * spec.node.gpus + at;
}

Graph graph_of(const Fabric& fabric) {
  Graph out;
  std::unordered_map<std::string, std::uint32_t> known;
  const bool bare = fabric.spec().node.vertices.empty();
  const auto vertex = [&](std::string name) {
    // The network and the node have different words for one port.
    if (const auto at = name.find(" nic "); !bare && at != std::string::npos && name.starts_with("node ")) {
      name.replace(at, 5, ": nic");
    }
    const auto [found, is_new] = known.try_emplace(std::move(name), static_cast<std::uint32_t>(out.names.size()));
    if (is_new) {
      out.names.push_back(found->first);
      out.device.push_back(device_of(found->first, fabric.spec()));
    }
    return found->second;
  };
  out.links.reserve(fabric.links());
  for (std::uint32_t l = 0; l < fabric.links(); ++l) {
    const std::string name = fabric.name(LinkId{l});
    const auto arrow = name.find(" -> ");
    const std::string from = name.substr(0, arrow);
    std::string to = name.substr(arrow + 4);
    // Inside a node only the first side names the node.
    if (const auto colon = from.find(": "); colon != std::string::npos) to = from.substr(0, colon + 2) + to;
    const std::uint32_t a = vertex(from);
    out.links.emplace_back(a, vertex(std::move(to)));
  }
  return out;
}

/// Number of links to the nearest device, for each vertex, and the lowest device at that distance.
struct Distances {
  std::vector<std::uint32_t> level, device;
};
Distances distances(const Graph& graph) {
  std::vector<std::vector<std::uint32_t>> near(graph.names.size());
  for (const auto& [a, b] : graph.links) near[a].push_back(b), near[b].push_back(a);
  Distances out{std::vector<std::uint32_t>(graph.names.size(), unseen), graph.device};
  std::vector<std::uint32_t> front;
  for (std::uint32_t v = 0; v < graph.names.size(); ++v) {
    if (graph.device[v] == unseen) continue;
    out.level[v] = 0;
    front.push_back(v);
  }
  for (std::uint32_t level = 1; !front.empty(); ++level) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t v : front) {
      for (const std::uint32_t w : near[v]) {
        if (out.level[w] == unseen) {
          out.level[w] = level;
          next.push_back(w);
        }
        if (out.level[w] == level) out.device[w] = std::min(out.device[w], out.device[v]);
      }
    }
    front = std::move(next);
  }
  return out;
}

/// The kind in a name: "node 3: nic5" is a "nic".
std::string kind_of(const std::string& name) {
  std::string out = name;
  if (const auto colon = out.find(": "); colon != std::string::npos) out = out.substr(colon + 2);
  std::erase_if(out, [](unsigned char c) { return std::isdigit(c) != 0 || c == ' ' || c == '.'; });
  return out;
}

/// The two cells at a link's ends, the lower level first.
struct Place {
  std::uint32_t level = 0, cell = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};
std::vector<Place> cells_of(const Graph& graph, FabricPicture& picture) {
  const Distances far = distances(graph);
  std::map<std::uint32_t, std::set<std::string>> kinds;  // by distance
  for (std::uint32_t v = 0; v < graph.names.size(); ++v) kinds[far.level[v]].insert(kind_of(graph.names[v]));
  std::map<std::pair<std::uint32_t, std::string>, std::vector<std::uint32_t>> sorted;
  for (std::uint32_t v = 0; v < graph.names.size(); ++v) {
    const std::uint32_t level = far.level[v];
    if (level == unseen) continue;  // no way leads to a device
    // Where every vertex has a name of its own, names do not tell kinds.
    const bool told = level > 0 && kinds[level].size() <= most_kinds;
    sorted[{level, told ? kind_of(graph.names[v]) : ""}].push_back(v);
  }
  std::vector<std::vector<std::uint32_t>> levels;
  for (auto& [key, vertices] : sorted) {
    picture.kinds.push_back(key.first == 0 ? "gpu" : key.second);
    levels.push_back(std::move(vertices));
  }
  std::vector<Place> out(graph.names.size());
  for (std::uint32_t level = 0; level < levels.size(); ++level) {
    std::vector<std::uint32_t>& vertices = levels[level];
    std::stable_sort(vertices.begin(), vertices.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return far.device[a] < far.device[b]; });
    const auto count = static_cast<std::uint32_t>(vertices.size());
    const std::uint32_t of_cell = (count + most_cells_of_level - 1) / most_cells_of_level;
    std::vector<FabricCell>& cells = picture.levels.emplace_back();
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i % of_cell == 0) cells.push_back({graph.names[vertices[i]], 0, {}});
      FabricCell& cell = cells.back();
      ++cell.vertices;
      if (level == 0) cell.devices.push_back(graph.device[vertices[i]]);
      out[vertices[i]] = {level, static_cast<std::uint32_t>(cells.size() - 1)};
      const bool last = (i + 1) % of_cell == 0 || i + 1 == count;
      if (last && cell.vertices > 1) cell.name += fmt::format(" \u2026 {}", graph.names[vertices[i]]);
    }
  }
  return out;
}

/// Sums one pass of the messages of every rank.
class Senders {
 public:
  Senders(const Program& program, const FabricTraffic& traffic) : program_(program), traffic_(traffic) {
    collectives_.assign(program.groups.size(), std::vector<std::vector<Part>>(program.classes.size()));
    messages_.assign(program.groups.size(), std::vector<std::map<Peer, double>>(program.classes.size()));
  }
  /// Adds a share of the bytes that the op sends.
  void add(std::uint32_t rank_class, const Block& block, const Op& op, double share) {
    if (const auto* c = std::get_if<Collective>(&op.action)) {
      std::vector<Part>& parts = collectives_[index(c->group)][rank_class];
      const auto at = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.op == &op; });
      at == parts.end() ? parts.push_back({&block, &op, share}) : static_cast<void>(at->share += share);
    } else if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
      for (std::uint32_t t = 0; t < exchange->transfers.count; ++t) {
        const Transfer& transfer = block.transfers[exchange->transfers.first + t];
        if (!transfer.send) continue;
        const View& view = block.views[op.views.first + transfer.view];
        messages_[index(transfer.group)][rank_class][transfer.peer] +=
            share * static_cast<double>(view.count * size_of(program_[view.buffer].dtype));
      }
    }
  }
  [[nodiscard]] std::vector<GpuTraffic> sent() const {
    std::vector<GpuTraffic> out;
    const auto ranks = static_cast<std::uint32_t>(program_.mesh.size());
    for (std::uint32_t g = 0; g < program_.groups.size(); ++g) {
      const Group& group = program_.groups[g];
      for (std::uint32_t r = 0; r < ranks; ++r) {
        const Rank rank{r};
        for (const auto& [peer, bytes] : messages_[g][class_of(program_, rank)]) {
          const Rank other = peer_rank(program_, group, peer, rank);
          if (other != rank && bytes > 0.0) out.push_back({traffic_.gpu_of(rank), traffic_.gpu_of(other), bytes});
        }
        if (group_size(group, program_.mesh) == 1 || coordinate(program_.mesh, rank, group.axes) != 0) continue;
        const std::vector<Rank> members = group_ranks(group, program_.mesh, rank);
        add_collectives(collectives_[g][class_of(program_, members.front())], members, out);
      }
    }
    return out;
  }

 private:
  struct Part {
    const Block* block;
    const Op* op;
    double share;  ///< of runs
  };
  void add_collectives(const std::vector<Part>& parts, const std::vector<Rank>& members,
                       std::vector<GpuTraffic>& out) const {
    if (parts.empty()) return;
    const GroupShape shape = traffic_.shape(members);
    std::map<CollectivePattern, double> payloads;
    for (const Part& p : parts) {
      const FabricTraffic::Collected c = traffic_.collective(*p.block, *p.op, shape);
      payloads[c.pattern] += p.share * c.payloads * c.payload.base();
    }
    for (const auto& [pattern, payload] : payloads) {
      for (const GpuTraffic& pair : traffic_.pairs(pattern, members)) {
        if (pair.from != pair.to && pair.payload > 0.0) out.push_back({pair.from, pair.to, pair.payload * payload});
      }
    }
  }

  const Program& program_;
  const FabricTraffic& traffic_;
  std::vector<std::vector<std::vector<Part>>> collectives_;    ///< [group][class]
  std::vector<std::vector<std::map<Peer, double>>> messages_;  ///< [group][class]: bytes to a peer
};

}  // namespace

FabricPicture make_picture(const Fabric& fabric) {
  FabricPicture out;
  out.name = fabric.spec().name;
  const Graph graph = graph_of(fabric);
  if (graph.names.empty()) {  // one device, which no link joins to anything
    out.levels.push_back({{"gpu0", 1, {0}}});
    out.kinds.emplace_back("gpu");
    return out;
  }
  const std::vector<Place> places = cells_of(graph, out);
  std::map<std::pair<Place, Place>, std::uint32_t> edges;
  out.edge_of_link.reserve(graph.links.size());
  for (const auto& [a, b] : graph.links) {
    const auto [low, high] = std::minmax(places[a], places[b]);
    const auto [at, is_new] = edges.try_emplace({low, high}, static_cast<std::uint32_t>(out.edges.size()));
    if (is_new) out.edges.push_back({low.level, low.cell, high.level, high.cell, 0, 0.0, {}});
    ++out.edges[at->second].links;
    out.edge_of_link.push_back(at->second);
  }
  return out;
}

void set_loads(FabricPicture& picture, const Fabric& fabric, const std::vector<LinkLoad>& loads, double seconds) {
  picture.seconds = seconds;
  for (FabricEdge& e : picture.edges) {
    e.load = 0.0;
    e.busiest.reset();
  }
  std::vector<HotLink> all;
  for (const LinkLoad& l : loads) {
    const double load = seconds > 0.0 ? (l.carried / l.bandwidth).base() / seconds : 0.0;
    FabricEdge& edge = picture.edges[picture.edge_of_link[index(l.link)]];
    if (load > edge.load) {
      edge.load = load;
      edge.busiest = l.link;
    }
    all.push_back({l.link, "", l.carried.base(), load});
  }
  std::stable_sort(all.begin(), all.end(), [](const HotLink& a, const HotLink& b) { return a.load > b.load; });
  if (all.size() > most_hot_links) all.resize(most_hot_links);
  for (HotLink& l : all) l.name = fabric.name(l.link);
  picture.hottest = std::move(all);
}

TableContent hot_links_table(const FabricPicture& picture) {
  const auto tr = [](const char* text) { return QCoreApplication::translate("orrery::gui", text); };
  TableContent out;
  out.headers = {tr("Link"), tr("Load"), tr("Carries")};
  for (const HotLink& l : picture.hottest) {
    out.rows.push_back({index(l.link),
                        {{QString::fromStdString(l.name)},
                         {QString::fromStdString(fmt::format("{:.1f} %", 100.0 * l.load)), l.load},
                         {QString::fromStdString(short_text(Bytes::of(l.bytes))), l.bytes}}});
  }
  return out;
}

std::vector<GpuTraffic> traffic_within(const Program& program, const Trace& trace, TimeRange range,
                                       const FabricTraffic& traffic) {
  Senders senders(program, traffic);
  std::vector<bool> seen(program.classes.size());
  for (const RankTrace& rank : trace.ranks) {
    const std::uint32_t rank_class = class_of(program, rank.rank);
    if (seen[rank_class]) continue;
    seen[rank_class] = true;
    for_each_op(program, program.classes[rank_class].step, [&](const OpRun& run) {
      const Span span = rank.spans[index(run.id)];
      const std::int64_t inside = std::min(span.end, range.end) - std::max(span.start, range.start);
      if (inside <= 0) return;
      senders.add(rank_class, *run.block, *run.op,
                  static_cast<double>(inside) / static_cast<double>(span.end - span.start));
    });
  }
  return senders.sent();
}

}  // namespace orrery::gui
