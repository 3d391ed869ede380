#include "sim/cost/nccl/nccl_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"
#include "sim/cost/nccl/link_curve.hpp"

namespace orrery {
namespace {

std::optional<NcclCollective> tuned(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::all_reduce:
    case Collective::Kind::barrier: return NcclCollective::all_reduce;
    case Collective::Kind::all_gather: return NcclCollective::all_gather;
    case Collective::Kind::reduce_scatter: return NcclCollective::reduce_scatter;
    case Collective::Kind::broadcast: return NcclCollective::broadcast;
    case Collective::Kind::reduce: return NcclCollective::reduce;
    case Collective::Kind::all_to_all:
    case Collective::Kind::permute: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool NcclCost::applies(const ClusterSpec& cluster, const Calibration& calibration) {
  return calibration.nccl && cluster.device.concurrent_lanes && !cluster.levels.empty() &&
         cluster.levels.front().bandwidth >= least_nvlink;
}

NcclCost::NcclCost(const ClusterSpec& cluster, const Calibration& calibration)
    : constants_(*calibration.nccl), network_(calibration.software[SoftwareCost::network]) {
  ORRERY_ASSERT(applies(cluster, calibration) && cluster.levels.size() <= bandwidth_.size(), cluster.levels.size());
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    bandwidth_[l] = cluster.levels[l].bandwidth;
    sharp_[l] = cluster.levels[l].switches == SwitchSum::sharp;
  }
  found_ = cluster.channels;
  while (domain_ < cluster.levels.size() && bandwidth_[domain_] == bandwidth_[0]) ++domain_;
}

namespace {

NcclGraphs graphs_found(const std::vector<ChannelGraph>& found, const NcclTopology& t) {
  NcclGraphs out;
  for (const ChannelGraph& g : found) {
    if (g.ranks != t.ranks || g.nodes != t.nodes) continue;
    const NcclChannels channels{g.channels, g.inside.in(gigabyte_per_second), g.between.in(gigabyte_per_second)};
    switch (g.kind) {
      case ChannelGraph::Kind::ring: out.ring = channels; break;
      case ChannelGraph::Kind::tree: out.tree = channels; break;
      case ChannelGraph::Kind::nvls: out.nvls = channels; break;
    }
  }
  return out;
}

}  // namespace

NcclTopology NcclCost::topology(const GroupShape& shape) const {
  NcclTopology t;
  t.generation = constants_.generation;
  t.ranks = shape.members;
  t.per_node = shape.members;
  t.nvlink = bandwidth_[0];
  if (shape.levels <= domain_) {
    t.found = graphs_found(found_, t);
    return t;
  }
  t.nodes = shape.level[domain_ - 1].units;
  t.per_node = shape.level[domain_ - 1].least;
  std::optional<Bandwidth> port;
  t.collnet = true;
  for (std::size_t l = domain_; l < shape.levels; ++l) {
    if (shape.level[l].units == shape.level[l - 1].units) continue;  // nobody leaves a unit of the level below over it
    const Bandwidth of_member = (static_cast<double>(shape.level[l - 1].least) / t.per_node) * bandwidth_[l];
    port = port ? std::min(*port, of_member) : of_member;
    t.collnet = t.collnet && sharp_[l];
  }
  t.collnet = t.collnet && port.has_value();
  t.port = port.value_or(bandwidth_[domain_]);
  t.found = graphs_found(found_, t);
  return t;
}

std::optional<NcclCost::Price> NcclCost::price(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                               const NcclExcluded& excluded, Derivation* why) const {
  const std::optional<NcclCollective> collective = tuned(kind);
  if (!collective) return std::nullopt;
  const NcclTopology t = topology(shape);
  std::optional<NcclChoice> choice = nccl_choice(*collective, t, payload, excluded);
  if (!choice) choice = nccl_choice(*collective, t, payload, all_but(NcclAlgorithm::ring));
  ORRERY_ASSERT(choice.has_value());
  const bool within = t.nodes == 1;
  const double slower = within ? 1.0 : network_;
  const Seconds modelled = choice->time + (slower - 1.0) * choice->moving;
  const Seconds time = on_links(within ? constants_.node : constants_.network, modelled);
  // The time that the bytes do not explain is waiting, which loads no link.
  const Price price{choice->way.algorithm, choice->way.protocol, modelled, time,
                    std::min(time, slower * choice->moving)};
  if (why != nullptr) tell(*why, t, *choice, payload, price);
  return price;
}

void NcclCost::tell(Derivation& why, const NcclTopology& t, const NcclChoice& choice, Bytes payload,
                    const Price& price) const {
  const bool within = t.nodes == 1;
  const double slower = within ? 1.0 : network_;
  const LinkCurve& curve = within ? constants_.node : constants_.network;
  const std::string key = within ? "nccl.node." : "nccl.network.";
  const std::string way = fmt::format("{}, {}", name_of(price.algorithm), name_of(price.protocol));
  const NcclGraphs graphs = nccl_graphs(t);
  const auto tell_modelled = [&] {
    why.given("latency of its steps", choice.time - choice.moving, NumberSource::nccl,
              fmt::format("{}: {} ranks on {} domains", way, t.ranks, t.nodes));
    why.given("payload", payload, NumberSource::program, "of the whole vector");
    why.given("slowdown by the program", slower, within ? NumberSource::formula : NumberSource::software,
              within ? "1 inside a node" : "network");
    why.made(NumberBy::product, 2, "payload", slower * payload);
    why.given(
        "rate of NCCL's model", payload.base() > 0.0 ? payload / choice.moving : choice.way.bandwidth,
        NumberSource::nccl,
        fmt::format("{}: channels of rings {} x {:g} GB/s inside, {:g} between; of trees {}, of NVLS {}", way,
                    graphs.ring.count, graphs.ring.inside, graphs.ring.between, graphs.tree.count, graphs.nvls.count));
    why.made(NumberBy::quotient, 2, "moving", slower * choice.moving);
    why.made(NumberBy::sum, 2, "time by NCCL's model", price.modelled, "NCCL 2.28.9, src/graph/tuning.cc");
  };
  why.given("least time", curve.floor, NumberSource::calibration, key + "floor");
  why.given("stretch", curve.stretch, NumberSource::calibration, key + "stretch");
  tell_modelled();
  why.made(NumberBy::product, 2, "stretched", curve.stretch * price.modelled);
  std::size_t parts = 1;
  Seconds total = curve.stretch * price.modelled;
  if (curve.fill_time.base() > 0.0) {
    const double filled = price.modelled / curve.fill_time;
    tell_modelled();
    why.given("fill_time", curve.fill_time, NumberSource::calibration, key + "fill_time");
    why.made(NumberBy::quotient, 2, "of the time to fill", filled);
    why.made(NumberBy::saturation, 1, "1 - exp(-x)", -std::expm1(-filled));
    why.given("fill", curve.fill, NumberSource::calibration, key + "fill");
    why.made(NumberBy::product, 2, "pipelines fill", -std::expm1(-filled) * curve.fill);
    total += -std::expm1(-filled) * curve.fill;
    ++parts;
  }
  why.made(NumberBy::sum, parts, "over this link", total, "LinkCurve, fitted to traces/measured/collectives.csv");
  why.made(NumberBy::largest, 2, "NCCL, " + way, price.time);
}

}  // namespace orrery
