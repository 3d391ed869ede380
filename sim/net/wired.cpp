#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <limits>
#include <numeric>

#include "core/base/diagnostics.hpp"
#include "sim/net/topology.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t far = std::numeric_limits<std::uint32_t>::max();

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

/// Number of links to `end` from every vertex; ends pass nothing on.
std::vector<std::uint32_t> distances_to(std::uint32_t end, std::uint32_t ends, std::uint32_t vertices,
                                        const std::vector<Wire>& wires) {
  // Edges go backwards from `end`: another end may be reached, but leads nowhere.
  Graph graph(vertices);
  for (const Wire& w : wires) {
    if (w.a >= ends || w.a == end) boost::add_edge(w.a, w.b, graph);
    if (w.b >= ends || w.b == end) boost::add_edge(w.b, w.a, graph);
  }
  std::vector<std::uint32_t> distance(vertices, far);
  distance[end] = 0;
  boost::breadth_first_search(
      graph, end,
      boost::visitor(boost::make_bfs_visitor(boost::record_distances(distance.data(), boost::on_tree_edge()))));
  return distance;
}

/// Link 2 i goes along wire i, 2 i + 1 against it.
class Wired final : public Topology {
 public:
  Wired(std::uint32_t ends, std::vector<std::string> names, std::vector<Wire> wires)
      : ends_(ends), names_(std::move(names)), wires_(std::move(wires)), out_(names_.size()) {
    for (std::uint32_t i = 0; i < wires_.size(); ++i) {
      out_[wires_[i].a].push_back(2 * i);
      out_[wires_[i].b].push_back(2 * i + 1);
    }
    for (std::uint32_t e = 0; e < ends_; ++e) distance_.push_back(distances_to(e, ends_, vertices(), wires_));
    const auto unlike = [&](const Wire& w) { return w.link.bandwidth != wires_.front().link.bandwidth; };
    if (std::any_of(wires_.begin(), wires_.end(), unlike)) {
      for (std::uint32_t e = 0; e < ends_; ++e) widest_.push_back(widest_to(e));
    }
  }

  std::uint32_t ends() const override { return ends_; }
  std::uint32_t vertices() const override { return static_cast<std::uint32_t>(names_.size()); }
  std::uint32_t links() const override { return static_cast<std::uint32_t>(2 * wires_.size()); }
  Link link(std::uint32_t l) const override { return wires_[l / 2].link; }
  Sides sides(std::uint32_t l) const override {
    const Wire& w = wires_[l / 2];
    return l % 2 == 0 ? Sides{w.a, w.b} : Sides{w.b, w.a};
  }
  std::string vertex_name(std::uint32_t v) const override { return names_[v]; }

  void route(std::uint32_t from, std::uint32_t to, const PathChoice& choice,
             std::vector<std::uint32_t>& into) const override {
    const std::vector<std::uint32_t>& distance = distance_[to];
    ORRERY_ASSERT(distance[from] != far, from, to);
    for (std::uint32_t at = from, left = distance[from]; left > 0; --left) {
      std::uint32_t ways = 0;
      const auto leads_on = [&](std::uint32_t l) {
        return is_nearer(l, to) && (widest_.empty() || width_by(l, widest_[to]) >= widest_[to][at]);
      };
      for (const std::uint32_t l : out_[at]) ways += leads_on(l) ? 1 : 0;
      std::uint32_t which = choice.pick(left, ways, to);
      for (const std::uint32_t l : out_[at]) {
        if (!leads_on(l) || which-- > 0) continue;
        into.push_back(l);
        at = sides(l).to;
        break;
      }
    }
  }

 private:
  /// Whether link l is on a shortest way to `to`.
  [[nodiscard]] bool is_nearer(std::uint32_t l, std::uint32_t to) const {
    const auto [at, next] = sides(l);
    return distance_[to][at] != far && distance_[to][next] + 1 == distance_[to][at] && (next >= ends_ || next == to);
  }
  /// Width of the narrowest link on the widest shortest way that begins with link l.
  [[nodiscard]] Bandwidth width_by(std::uint32_t l, const std::vector<Bandwidth>& widest) const {
    return std::min(wires_[l / 2].link.bandwidth, widest[sides(l).to]);
  }
  /// For every vertex, the width of the narrowest link on the widest of the shortest ways to `to`.
  [[nodiscard]] std::vector<Bandwidth> widest_to(std::uint32_t to) const {
    std::vector<Bandwidth> widest(vertices());
    widest[to] = Bandwidth::of(std::numeric_limits<double>::infinity());
    std::vector<std::uint32_t> order(vertices());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return distance_[to][a] < distance_[to][b]; });
    for (const std::uint32_t v : order) {
      for (const std::uint32_t l : out_[v]) {
        if (is_nearer(l, to)) widest[v] = std::max(widest[v], width_by(l, widest));
      }
    }
    return widest;
  }

  std::uint32_t ends_;
  std::vector<std::string> names_;
  std::vector<Wire> wires_;
  std::vector<std::vector<std::uint32_t>> out_;       ///< links out of each vertex
  std::vector<std::vector<std::uint32_t>> distance_;  ///< [end][vertex]
  std::vector<std::vector<Bandwidth>> widest_;        ///< [end][vertex]; none where all wires are alike
};

}  // namespace

std::unique_ptr<Topology> wired(std::uint32_t ends, std::vector<std::string> names, std::vector<Wire> wires) {
  return std::make_unique<Wired>(ends, std::move(names), std::move(wires));
}

Topology::Sides unconnected(std::uint32_t ends, std::uint32_t vertices, const std::vector<Wire>& wires) {
  for (std::uint32_t to = 0; to < ends; ++to) {
    const std::vector<std::uint32_t> distance = distances_to(to, ends, vertices, wires);
    for (std::uint32_t from = 0; from < ends; ++from) {
      if (distance[from] == far) return {from, to};
    }
  }
  return {0, 0};
}

}  // namespace orrery
