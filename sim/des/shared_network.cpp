#include "sim/des/shared_network.hpp"

#include <algorithm>
#include <limits>

#include "core/base/diagnostics.hpp"
#include "core/record/traffic.hpp"
#include "sim/net/collective_traffic.hpp"

namespace orrery {

SharedNetwork::SharedNetwork(const FabricRoutes& routes, const Program& program, const CostModel& costs,
                             std::span<const std::uint32_t> placement)
    : routes_(routes),
      program_(program),
      costs_(costs),
      placement_(placement),
      flows_(routes.fabric->links(), [this](LinkId l) { return capacity(l); }) {}

std::uint32_t SharedNetwork::gpu_of(Rank rank) const {
  return placement_.empty() ? index(rank) : placement_[index(rank)];
}

/// Calibrations say which part of a level's bandwidth the library reaches; that part of a link is shared.
Bandwidth SharedNetwork::capacity(LinkId id) const {
  const Link link = routes_.fabric->link(id);
  const auto& levels = costs_.cluster().levels;
  if (levels.empty()) return link.bandwidth;
  const std::size_t level = link.kind == LinkKind::network ? levels.size() - 1 : 0;
  return (costs_.collectives().links()[level].bandwidth / levels[level].bandwidth) * link.bandwidth;
}

std::uint32_t SharedNetwork::collective(const std::vector<Rank>& members, BlockId block_id, std::uint32_t op_index) {
  const std::tuple key{index(members.front()), index(block_id), op_index};
  const auto known = collectives_.find(key);
  if (known != collectives_.end()) return known->second;

  const Block& block = program_[block_id];
  const Op& op = block.ops[op_index];
  const auto& action = std::get<Collective>(op.action);
  const auto payload = Bytes::of(static_cast<double>(payload_bytes(program_, block, op)));
  std::vector<std::uint32_t> gpus;
  for (const Rank r : members) gpus.push_back(gpu_of(r));
  std::vector<Pair> pairs;
  Seconds latency;
  if (action.kind == Collective::Kind::permute) {
    const auto width = action.width == 0 ? static_cast<std::uint32_t>(members.size()) : action.width;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      const std::uint32_t to = i / width * width + (i % width + index(action.root)) % width;
      pairs.push_back({gpus[i], gpus[to], payload});
    }
    latency = costs_.collective(action.kind, Bytes{}, program_[action.group]);
  } else {
    // A library orders its rings by boxes.
    std::sort(gpus.begin(), gpus.end());
    std::vector<std::uint32_t> boxes;
    const std::uint32_t of_box = routes_.fabric->spec().node.gpus;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (i == 0 || gpus[i] / of_box != gpus[i - 1] / of_box) boxes.push_back(0);
      ++boxes.back();
    }
    const GroupShape shape = group_shape(gpus, costs_.cluster());
    const CollectiveAlgorithm algorithm = costs_.algorithm(action.kind, payload, shape);
    latency = costs_.collectives().choose(action.kind, Bytes{}, shape, algorithm).time;
    for (const PairTraffic& t : collective_traffic(action.kind, algorithm, boxes, payload)) {
      pairs.push_back({gpus[t.from], gpus[t.to], t.payload});
    }
  }
  return collectives_[key] = add(pairs, latency);
}

std::uint32_t SharedNetwork::message(Rank from, Rank to, Bytes bytes) {
  const std::tuple key{index(from), index(to), bytes.base()};
  const auto known = messages_.find(key);
  if (known != messages_.end()) return known->second;
  return messages_[key] = add({{gpu_of(from), gpu_of(to), bytes}}, costs_.transfer(Bytes{}, from, to));
}

std::uint32_t SharedNetwork::add(const std::vector<Pair>& pairs, Seconds latency) {
  std::map<LinkId, double> bytes;
  std::vector<LinkId> route;
  for (const Pair& p : pairs) {
    if (p.from == p.to) continue;
    route.clear();
    routes_.fabric->route(p.from, p.to, routes_.rule, routes_.seed, route);
    for (const LinkId l : route) bytes[l] += p.payload.base();
  }
  Traffic t;
  t.latency = picoseconds(latency);
  double most = 0.0;
  for (const auto& [link, sum] : bytes) most = std::max(most, sum);
  t.payload = Bytes::of(most);
  if (most > 0.0) {
    for (const auto& [link, sum] : bytes) {
      if (sum == 0.0) continue;
      t.links.push_back(link);
      t.weights.push_back(sum / most);
    }
  }
  traffic_.push_back(std::move(t));
  return static_cast<std::uint32_t>(traffic_.size() - 1);
}

void SharedNetwork::start(Picoseconds now, const Communication& c) {
  const Traffic& t = traffic_[c.traffic];
  const Picoseconds latency = std::min(t.latency, c.alone);
  const auto moving = static_cast<double>(c.alone - latency) * 1e-12;
  if (t.links.empty() || moving == 0.0) {  // nothing that could meet others
    flows_.start(now, {}, c.alone, Bytes{}, c.number);
    return;
  }
  flows_.start(now, t.links, t.weights, t.payload / Seconds::of(moving), latency, t.payload, c.number);
}

std::vector<LinkLoad> SharedNetwork::loads() const {
  std::vector<LinkLoad> out;
  for (std::uint32_t l = 0; l < routes_.fabric->links(); ++l) {
    const Bytes carried = flows_.carried(LinkId{l});
    if (carried.base() > 0.0) out.push_back({LinkId{l}, carried, capacity(LinkId{l})});
  }
  return out;
}

}  // namespace orrery
