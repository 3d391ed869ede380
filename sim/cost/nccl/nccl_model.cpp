#include "sim/cost/nccl/nccl_model.hpp"

#include <algorithm>
#include <bit>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;

/// The ways that exist for one collective of one group, and their costs.
class Tuning {
 public:
  Tuning(NcclCollective collective, const NcclTopology& topology)
      : collective_(collective), t_(topology), graphs_(nccl_graphs(topology)) {}

  /// Calls into(way) for each.
  template <class Into>
  void each(Into&& into) const {
    for (std::size_t a = 0; a < nccl_algorithm_count; ++a) {
      const auto algorithm = static_cast<Algorithm>(a);
      if (!exists(algorithm)) continue;
      const bool all = algorithm == Algorithm::ring || algorithm == Algorithm::tree;
      for (std::size_t p = all ? 0 : static_cast<std::size_t>(Protocol::simple); p < nccl_protocol_count; ++p) {
        const auto protocol = static_cast<Protocol>(p);
        const double b = bandwidth(algorithm, protocol);
        if (b <= 0.0) continue;
        into(NcclWay{algorithm, protocol, latency(algorithm, protocol) * microsecond, b * gigabyte_per_second});
      }
    }
  }
  [[nodiscard]] std::uint32_t channels() const { return graphs_.ring.count; }

 private:
  [[nodiscard]] bool sums_all() const { return collective_ == NcclCollective::all_reduce; }
  [[nodiscard]] bool is_half() const {
    return collective_ == NcclCollective::all_gather || collective_ == NcclCollective::reduce_scatter;
  }
  [[nodiscard]] bool exists(Algorithm a) const {
    const bool several = t_.nodes > 1;
    switch (a) {
      case Algorithm::ring: return true;
      case Algorithm::tree: return sums_all();
      case Algorithm::collnet_direct: return t_.collnet && several && t_.per_node > 1 && (sums_all() || is_half());
      case Algorithm::collnet_chain: return t_.collnet && several && sums_all();
      case Algorithm::nvls:
        return graphs_.nvls.count >= 2 && (!several || t_.collnet) && (sums_all() || (is_half() && t_.per_node <= 32));
      case Algorithm::nvls_tree: return graphs_.nvls.count >= 2 && several && sums_all();
      case Algorithm::pat: return several && t_.per_node == 1 && is_half();
    }
    return false;
  }
  [[nodiscard]] double steps() const {
    switch (collective_) {
      case NcclCollective::all_reduce: return 2.0 * (t_.ranks - 1.0);
      case NcclCollective::all_gather:
      case NcclCollective::reduce_scatter: return t_.ranks - 1.0;
      case NcclCollective::broadcast:
      case NcclCollective::reduce: return t_.ranks;
    }
    return 1.0;
  }
  /// The result is a share of what a ring's channels move.
  [[nodiscard]] double around() const { return t_.ranks / steps(); }

  [[nodiscard]] double bandwidth(Algorithm a, Protocol p) const {
    const NcclChannels& g = graphs_.ring;
    const auto together = [&](const NcclChannels& c) { return c.count * (t_.nodes <= 2 ? c.inside : c.between); };
    const double all = together(g);
    switch (a) {
      case Algorithm::ring: return around() * ring(p, all, g.count);
      case Algorithm::tree: return 0.5 * tree(p, together(graphs_.tree), graphs_.tree.count);
      case Algorithm::nvls:
      case Algorithm::nvls_tree: return (is_half() ? 1.0 : around()) * nvls(a);
      case Algorithm::collnet_direct: return collnet_direct();
      case Algorithm::collnet_chain: return 0.5 * g.count * g.inside;
      case Algorithm::pat: return 0.75 * all;
    }
    return 0.0;
  }
  [[nodiscard]] double ring(Protocol p, double all, double channels) const {
    switch (p) {
      case Protocol::ll: return std::min(nccl_tables::most_ll(t_.generation, t_.nodes), 0.5 * all);
      case Protocol::ll128:
        return std::min(0.92 * all, channels * nccl_tables::most_ring_ll128(t_.generation, t_.nodes));
      case Protocol::simple: return all;
    }
    return 0.0;
  }
  [[nodiscard]] double tree(Protocol p, double all, double channels) const {
    const double b = std::min(0.92 * all, channels * nccl_tables::most_tree(t_.generation, t_.nodes));
    switch (p) {
      case Protocol::ll: return std::min(b / 3.8, nccl_tables::most_ll(t_.generation, t_.nodes));
      case Protocol::ll128:
        return std::min(b * (t_.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                        channels * nccl_tables::most_tree_ll128(t_.generation, t_.nodes));
      case Protocol::simple: return b;
    }
    return 0.0;
  }
  [[nodiscard]] double nvls(Algorithm a) const {
    const NcclChannels& g = graphs_.nvls;
    const double c = g.count;
    double b = g.inside * nccl_tables::nvls_efficiency(t_.generation) * (c - 1.0) / c;
    b *= sums_all() ? 2.0 : (t_.per_node - 1.0) / t_.per_node;
    if (t_.nodes > 1) b = std::min(b, g.between * (a == Algorithm::nvls_tree && t_.nodes <= 2 ? 2.0 : 1.0));
    if (a == Algorithm::nvls_tree) b = std::min(b, nccl_tables::most_nvls_tree(t_.generation, t_.nodes));
    const double links = nccl_tables::nvlink_share(t_.generation) * t_.nvlink.in(gigabyte_per_second);
    if (t_.nodes == 1 && sums_all()) return std::min(c * b, nccl_tables::most_nvls_share * links / around());
    return c * b;
  }
  [[nodiscard]] double collnet_direct() const {
    const NcclChannels& g = graphs_.ring;
    if (is_half()) return t_.per_node * std::min(g.inside, 0.9 * g.between);
    const double heads = static_cast<double>(t_.per_node) / g.count;
    const double b = g.count * g.inside / (0.5 * (heads + 1.0));
    return 0.5 * b * (t_.generation >= GpuGeneration::hopper ? 0.85 : 1.0);
  }

  [[nodiscard]] double latency(Algorithm a, Protocol p) const {
    const double base = nccl_tables::base_latency(a, p);
    const double inside = nccl_tables::link_latency(NcclLink::nvlink, a, p);
    // With one member on a node every algorithm waits as a tree does.
    const double between = nccl_tables::link_latency(NcclLink::network, t_.per_node == 1 ? Algorithm::tree : a, p);
    const double nodes = t_.nodes;
    const double depth = std::bit_width(t_.nodes) - 1;  // floor(log2)
    const double others = static_cast<double>(t_.ranks) / nodes - 1.0;
    switch (a) {
      case Algorithm::ring: {
        if (!sums_all() && !is_half()) {  // pipelined: one step
          if (t_.nodes == 1) return base + inside;
          return base + nccl_tables::link_latency(NcclLink::network, a, p);
        }
        const double out = t_.nodes == 1 ? 0.0 : (sums_all() ? 2.0 : 1.0) * (nodes - 1.0);
        const double host = t_.nodes == 1 ? 0.0 : nccl_tables::network_overhead * (p == Protocol::simple ? 3.0 : 1.0);
        return base + (steps() - out) * std::max(inside, host) + out * between;
      }
      case Algorithm::tree: return base + 2.0 * (others * inside + depth * between);
      case Algorithm::nvls: return inside + (t_.nodes > 1 ? between : 0.0);
      case Algorithm::nvls_tree: return base + inside + 2.0 * depth * between;
      case Algorithm::collnet_direct: return base + 2.0 * (std::min(1.0, others) * inside + 0.4 * others) + between;
      case Algorithm::collnet_chain: return base + 2.0 * others * inside + between;
      case Algorithm::pat: return base + depth * between / 3.5 + 2.8 * t_.ranks;
    }
    return base;
  }

  NcclCollective collective_;
  const NcclTopology& t_;
  NcclGraphs graphs_;
};

NcclChoice with_time(NcclCollective collective, const NcclTopology& t, const NcclWay& way, Bytes whole,
                     std::uint32_t channels) {
  double slower = 1.0;
  double share = 1.0;
  if (collective == NcclCollective::all_reduce) {
    if (way.algorithm == Algorithm::tree) share = nccl_tables::tree_correction(way.protocol, whole.in(byte));
    if (way.algorithm == Algorithm::ring && way.protocol == Protocol::simple && t.nodes > 1 &&
        whole.in(byte) >= 64.0 * channels * t.ranks) {
      slower = t.generation >= GpuGeneration::hopper ? 1.4 : 1.9;
    }
  }
  const Seconds moving = whole / (share * way.bandwidth);
  return {way, slower * way.latency + moving, moving};
}

/// Channels of a communicator: those that the search finds, doubled.
std::uint32_t communicator_channels(const Tuning& tuning) { return 2 * tuning.channels(); }

}  // namespace

std::string_view name_of(NcclCollective c) {
  constexpr std::array<std::string_view, 5> names{"broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce"};
  return names[static_cast<std::size_t>(c)];
}

NcclExcluded all_but(NcclAlgorithm a) {
  NcclExcluded out;
  out.fill(true);
  out[static_cast<std::size_t>(a)] = false;
  return out;
}

std::vector<NcclWay> nccl_ways(NcclCollective collective, const NcclTopology& topology) {
  ORRERY_ASSERT(topology.ranks >= 2 && topology.nodes <= topology.ranks, topology.ranks, topology.nodes);
  std::vector<NcclWay> out;
  Tuning(collective, topology).each([&](const NcclWay& way) { out.push_back(way); });
  return out;
}

Seconds nccl_time(NcclCollective collective, const NcclTopology& topology, const NcclWay& way, Bytes whole) {
  return with_time(collective, topology, way, whole, communicator_channels(Tuning(collective, topology))).time;
}

std::optional<NcclChoice> nccl_choice(NcclCollective collective, const NcclTopology& topology, Bytes whole,
                                      const NcclExcluded& excluded) {
  ORRERY_ASSERT(topology.ranks >= 2 && topology.nodes <= topology.ranks, topology.ranks, topology.nodes);
  const Tuning tuning(collective, topology);
  const std::uint32_t channels = communicator_channels(tuning);
  std::optional<NcclChoice> best;
  tuning.each([&](const NcclWay& way) {
    if (excluded[static_cast<std::size_t>(way.algorithm)]) return;
    const NcclChoice choice = with_time(collective, topology, way, whole, channels);
    if (!best || choice.time < best->time) best = choice;
  });
  return best;
}

}  // namespace orrery
