#include "sim/des/fabric_traffic.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "sim/cost/nccl/nccl_tables.hpp"
#include "sim/net/collective_traffic.hpp"

namespace orrery {

namespace {

using Kind = Collective::Kind;

bool is_one_way(Kind kind) { return kind == Kind::broadcast || kind == Kind::reduce; }

/// The pattern of what collective_traffic makes of a kind and an algorithm, the same for all that move alike.
CollectivePattern pattern_of(Kind kind, CollectiveAlgorithm algorithm, double& payloads) {
  payloads = 1.0;
  if (kind == Kind::barrier) return {kind, CollectiveAlgorithm::ring};
  if (kind == Kind::all_to_all) {
    const bool rounds = algorithm == CollectiveAlgorithm::recursive;
    return {kind, rounds ? algorithm : CollectiveAlgorithm::ring};
  }
  if (algorithm == CollectiveAlgorithm::tree && (kind == Kind::all_reduce || is_one_way(kind)))
    return {kind, algorithm};
  if (is_one_way(kind)) return {kind, CollectiveAlgorithm::ring};
  if (algorithm == CollectiveAlgorithm::tree) algorithm = CollectiveAlgorithm::ring;
  payloads = kind == Kind::all_reduce ? 2.0 : 1.0;
  return {Kind::all_gather, algorithm};
}

}  // namespace

FabricTraffic::FabricTraffic(const FabricRoutes& routes, const Program& program, const CostModel& costs,
                             std::span<const std::uint32_t> placement)
    : routes_(routes), program_(program), costs_(costs), placement_(placement) {}

std::uint32_t FabricTraffic::gpu_of(Rank rank) const {
  return placement_.empty() ? index(rank) : placement_[index(rank)];
}

std::vector<std::uint32_t> FabricTraffic::gpus_of(std::span<const Rank> ranks) const {
  std::vector<std::uint32_t> gpus;
  gpus.reserve(ranks.size());
  for (const Rank r : ranks) gpus.push_back(gpu_of(r));
  return gpus;
}

Bandwidth FabricTraffic::capacity(LinkId id) const {
  const Link link = routes_.fabric->link(id);
  const auto& levels = costs_.cluster().levels;
  if (levels.empty()) return link.bandwidth;
  const std::size_t level = link.kind == LinkKind::network ? levels.size() - 1 : 0;
  return costs_.collectives().reach(level) * link.bandwidth;
}

GroupShape FabricTraffic::shape(std::span<const Rank> members) const {
  return group_shape(gpus_of(members), costs_.cluster());
}

FabricTraffic::Collected FabricTraffic::collective(const Block& block, const Op& op, const GroupShape& shape) const {
  const auto& action = std::get<Collective>(op.action);
  Collected c;
  c.payload = Bytes::of(static_cast<double>(payload_bytes(program_, block, op)));
  if (action.kind == Kind::permute) {
    c.pattern = {action.kind, CollectiveAlgorithm::ring, index(action.root), action.width};
    c.latency = picoseconds(costs_.collective(action.kind, Bytes{}, program_[action.group]));
    return c;
  }
  const CollectiveCost::Choice choice = costs_.choice(action.kind, c.payload, shape);
  const bool in_switches = choice.nccl == NcclAlgorithm::nvls || choice.nccl == NcclAlgorithm::nvls_tree;
  c.pattern = in_switches && action.kind == Kind::all_reduce
                  ? CollectivePattern{action.kind, CollectiveAlgorithm::tree, 0, 0, true}
                  : pattern_of(action.kind, choice.algorithm, c.payloads);
  // What software hides behind compute is in no price, and loads no link.
  const double factor = costs_.collective_factor(program_[action.group].axes);
  c.payload = std::min(factor, 1.0) * c.payload;
  const Seconds latency = choice.moving
                              ? choice.time - *choice.moving
                              : costs_.collectives().choose(action.kind, Bytes{}, shape, choice.algorithm).time;
  c.latency = picoseconds(factor * latency);
  return c;
}

LinkShares FabricTraffic::shares(const CollectivePattern& pattern, std::span<const Rank> members) const {
  std::vector<std::uint32_t> gpus = gpus_of(members);
  std::vector<Pair> pairs;
  if (pattern.kind == Kind::permute) {
    const auto width = pattern.width == 0 ? static_cast<std::uint32_t>(members.size()) : pattern.width;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      pairs.push_back({gpus[i], gpus[i / width * width + (i % width + pattern.distance) % width], 1.0});
    }
    return over_links(pairs);
  }
  // A library orders its rings by boxes.
  std::sort(gpus.begin(), gpus.end());
  std::vector<std::uint32_t> boxes;
  const std::uint32_t of_box = routes_.fabric->spec().node.gpus;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (i == 0 || gpus[i] / of_box != gpus[i - 1] / of_box) boxes.push_back(0);
    ++boxes.back();
  }
  for (const PairTraffic& t :
       collective_traffic(pattern.kind, pattern.algorithm, boxes, Bytes::of(1.0), pattern.in_switches)) {
    pairs.push_back({gpus[t.from], gpus[t.to], t.payload.base()});
  }
  return over_links(pairs);
}

LinkShares FabricTraffic::shares(Rank from, Rank to) const {
  const Pair pair{gpu_of(from), gpu_of(to), 1.0};
  return over_links(std::span(&pair, 1));
}

Picoseconds FabricTraffic::latency(Rank from, Rank to) const { return picoseconds(costs_.transfer(Bytes{}, from, to)); }

LinkShares FabricTraffic::over_links(std::span<const Pair> pairs) const {
  std::vector<std::pair<LinkId, double>> bytes;
  std::vector<LinkId> route;
  for (const Pair& p : pairs) {
    if (p.from == p.to || p.payload == 0.0) continue;
    route.clear();
    routes_.fabric->route(p.from, p.to, routes_.rule, routes_.seed, route);
    for (const LinkId l : route) bytes.emplace_back(l, p.payload);
  }
  std::stable_sort(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  LinkShares out;
  for (const auto& [link, payload] : bytes) {
    if (out.links.empty() || out.links.back() != link) {
      out.links.push_back(link);
      out.weights.push_back(0.0);
    }
    out.weights.back() += payload;
  }
  for (const double w : out.weights) out.most = std::max(out.most, w);
  for (double& w : out.weights) w /= out.most;
  return out;
}

}  // namespace orrery
