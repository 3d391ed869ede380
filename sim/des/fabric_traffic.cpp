#include "sim/des/fabric_traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/diagnostics.hpp"
#include "sim/cost/nccl/nccl_tables.hpp"
#include "sim/net/collective_traffic.hpp"

namespace orrery {

namespace {

using Kind = Collective::Kind;

bool is_one_way(Kind kind) { return kind == Kind::broadcast || kind == Kind::reduce; }

/// Whether the switches of its outermost level make an all-reduce's sums.
bool by_network(const CollectiveCost::Choice& choice, const NetworkLevel& outermost) {
  if (!choice.nccl) return choice.algorithm == CollectiveAlgorithm::in_network;
  return choice.nccl == NcclAlgorithm::collnet_direct || choice.nccl == NcclAlgorithm::collnet_chain ||
         (choice.nccl == NcclAlgorithm::nvls && outermost.switches == SwitchSum::sharp);
}

/// The pattern in which collective_traffic moves a kind by an algorithm; one number for all collectives that move
/// alike.
CollectivePattern pattern_of(Kind kind, CollectiveAlgorithm algorithm, double& payloads) {
  payloads = 1.0;
  if (kind == Kind::barrier) return {kind, CollectiveAlgorithm::ring};
  if (kind == Kind::all_to_all) {
    const bool rounds = algorithm == CollectiveAlgorithm::recursive;
    return {kind, rounds ? algorithm : CollectiveAlgorithm::ring};
  }
  if (algorithm == CollectiveAlgorithm::tree && (kind == Kind::all_reduce || is_one_way(kind)))
    return {kind, algorithm};
  if (algorithm == CollectiveAlgorithm::in_network && kind == Kind::all_reduce) return {kind, algorithm};
  if (is_one_way(kind)) return {kind, CollectiveAlgorithm::ring};
  if (algorithm == CollectiveAlgorithm::tree) algorithm = CollectiveAlgorithm::ring;
  payloads = kind == Kind::all_reduce ? 2.0 : 1.0;
  return {Kind::all_gather, algorithm};
}

}  // namespace

FabricTraffic::FabricTraffic(const FabricRoutes& routes, const Program& program, const CostModel& costs,
                             std::span<const std::uint32_t> placement)
    : routes_(routes), program_(program), costs_(costs), choices_(token_choices(program)), placement_(placement) {}

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
  Link link = routes_.fabric->link(id);
  if (routes_.faster == link.kind) link.bandwidth = (1.0 / 0.9) * link.bandwidth;
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
  c.payload = Bytes::of(costs_.sent_share(op) * static_cast<double>(payload_bytes(program_, block, op)));
  if (action.kind == Kind::permute) {
    c.pattern = {action.kind, CollectiveAlgorithm::ring, index(action.root), action.width};
    c.latency = picoseconds(costs_.collective(action.kind, Bytes{}, program_[action.group]));
    return c;
  }
  const CollectiveCost::Choice choice = costs_.choice(action.kind, c.payload, shape);
  const bool in_switches = choice.nccl == NcclAlgorithm::nvls || choice.nccl == NcclAlgorithm::nvls_tree;
  if (in_switches && action.kind == Kind::all_reduce) {
    c.pattern = {action.kind, CollectiveAlgorithm::tree, 0, 0, true};
  } else {
    c.pattern = pattern_of(action.kind, choice.algorithm, c.payloads);
  }
  const auto& levels = costs_.cluster().levels;
  if (action.kind == Kind::all_reduce && shape.levels > 0 && by_network(choice, levels[shape.levels - 1U])) {
    c.pattern = {action.kind, CollectiveAlgorithm::in_network, 0, 0,
                 choice.nccl ? in_switches : levels.front().switches == SwitchSum::nvls};
    c.payloads = 1.0;
  }
  // Communication that software hides behind compute is in no price, and loads no link; neither are copies of tokens
  // that an exchange spares.
  double factor = costs_.collective_factor(program_[action.group].axes);
  if (exchanges_tokens(program_, action) && costs_.kinds() == 1 && choice.time > Seconds{}) {
    factor *= costs_.exchange(c.payload, shape, choices_) / choice.time;
  }
  c.payload = std::min(factor, 1.0) * c.payload;
  const Seconds latency = choice.moving
                              ? choice.time - *choice.moving
                              : costs_.collectives().choose(action.kind, Bytes{}, shape, choice.algorithm).time;
  c.latency = picoseconds(factor * latency);
  return c;
}

std::vector<GpuTraffic> FabricTraffic::pairs(const CollectivePattern& pattern, std::span<const Rank> members) const {
  std::vector<GpuTraffic> out;
  if (pattern.kind == Kind::permute) {
    const std::vector<std::uint32_t> gpus = gpus_of(members);
    const auto width = pattern.width == 0 ? static_cast<std::uint32_t>(members.size()) : pattern.width;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      out.push_back({gpus[i], gpus[i / width * width + (i % width + pattern.distance) % width], 1.0});
    }
    return out;
  }
  // Ranks stand box by box, in the order of the boxes' first ranks.
  std::vector<Rank> ranks(members.begin(), members.end());
  std::sort(ranks.begin(), ranks.end());
  const std::uint32_t of_box = routes_.fabric->spec().node.gpus;
  std::vector<std::uint32_t> order, boxes;
  std::map<std::uint32_t, std::uint32_t> place;  // of a box among `boxes`
  for (const Rank r : ranks) {
    const auto [at, is_new] = place.try_emplace(gpu_of(r) / of_box, static_cast<std::uint32_t>(boxes.size()));
    if (is_new) boxes.push_back(0);
    order.push_back(at->second);
    ++boxes[at->second];
  }
  std::vector<std::uint32_t> next(boxes.size(), 0), gpus(ranks.size());
  std::exclusive_scan(boxes.begin(), boxes.end(), next.begin(), 0U);
  for (std::size_t i = 0; i < ranks.size(); ++i) gpus[next[order[i]]++] = gpu_of(ranks[i]);
  for (const PairTraffic& t :
       collective_traffic(pattern.kind, pattern.algorithm, boxes, Bytes::of(1.0), pattern.in_switches)) {
    out.push_back({gpus[t.from], gpus[t.to], t.payload.base()});
  }
  return out;
}

LinkShares FabricTraffic::shares(const CollectivePattern& pattern, std::span<const Rank> members) const {
  return over_links(pairs(pattern, members));
}

LinkShares FabricTraffic::shares(Rank from, Rank to) const {
  const GpuTraffic pair{gpu_of(from), gpu_of(to), 1.0};
  return over_links(std::span(&pair, 1));
}

Picoseconds FabricTraffic::latency(Rank from, Rank to) const { return picoseconds(costs_.transfer(Bytes{}, from, to)); }

void FabricTraffic::tell_cut_off(const CutOff& cut) const {
  const auto ranks = static_cast<std::uint32_t>(program_.mesh.size());
  std::uint32_t from = 0, to = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (gpu_of(Rank{r}) == cut.from_gpu) from = r;
    if (gpu_of(Rank{r}) == cut.to_gpu) to = r;
  }
  // Finds the other ranks that a failed link cuts off; of very many ranks not all are tried.
  constexpr std::uint32_t most_tried = 4096, most_named = 16;
  std::string others;
  std::uint32_t count = 0;
  std::vector<LinkId> route;
  for (std::uint32_t r = 0; r < std::min(ranks, most_tried); ++r) {
    if (r == from) continue;
    try {
      routes_.fabric->route(cut.from_gpu, gpu_of(Rank{r}), routes_.rule, routes_.seed, route);
    } catch (const CutOff&) {
      if (++count <= most_named) others += fmt::format("{}{}", others.empty() ? "" : ", ", r);
    }
  }
  if (count > most_named) others += fmt::format(" and {} more", count - most_named);
  throw CutOff(cut.from_gpu, cut.to_gpu,
               fmt::format("rank {} is cut off from rank {}: {}; it reaches none of ranks {}", from, to, cut.what(),
                           others.empty() ? std::to_string(to) : others));
}

LinkShares FabricTraffic::over_links(std::span<const GpuTraffic> pairs) const {
  std::vector<std::pair<LinkId, double>> bytes;
  std::vector<LinkId> route;
  for (const GpuTraffic& p : pairs) {
    if (p.from == p.to || p.payload == 0.0) continue;
    route.clear();
    try {
      routes_.fabric->route(p.from, p.to, routes_.rule, routes_.seed, route);
    } catch (const CutOff& cut) {
      tell_cut_off(cut);
    }
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
