#include "sim/cost/collective_cost.hpp"

#include <algorithm>
#include <bit>

#include "core/base/diagnostics.hpp"
#include "sim/cost/nccl/nccl_cost.hpp"

namespace orrery {

namespace {

/// Units of the level below, fewest members in one of them; members themselves below the first.
std::uint32_t units_below(const GroupShape& s, std::size_t level) {
  return level == 0 ? s.members : s.level[level - 1].units;
}
std::uint32_t least_below(const GroupShape& s, std::size_t level) { return level == 0 ? 1 : s.level[level - 1].least; }
bool is_crossed(const GroupShape& s, std::size_t level) { return units_below(s, level) > s.level[level].units; }
/// So large a message that its size no longer counts.
constexpr Bytes endless = Bytes::of(0x1p53);
/// ceil(log2 n).
double rounds(std::uint32_t n) { return n <= 1 ? 0.0 : static_cast<double>(std::bit_width(n - 1)); }

}  // namespace

RingPath ring_path(const GroupShape& shape, std::span<const LinkCost> links, std::optional<Bytes> step) {
  ORRERY_ASSERT(shape.levels <= links.size(), shape.levels, links.size());
  RingPath path;
  std::optional<Seconds> least;
  std::optional<Bandwidth> narrowest;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (!is_crossed(shape, l)) continue;
    // Hops that leave a unit of this level too are counted further out.
    const std::uint32_t below = units_below(shape, l);
    const std::uint32_t above = shape.level[l].units > 1 ? shape.level[l].units : 0;
    path.latency += static_cast<double>(below - above) * links[l].latency;
    least = least ? std::min(*least, links[l].latency) : links[l].latency;
    const double ways = least_below(shape, l);
    const Bandwidth way = ways * bandwidth_at(links[l], step.value_or(endless) / ways);
    narrowest = narrowest ? std::min(*narrowest, way) : way;
  }
  if (least) path.latency -= *least;
  if (narrowest) path.bandwidth = *narrowest;
  return path;
}

Seconds ring_half(Bytes payload, std::uint32_t members, const RingPath& path) {
  ORRERY_ASSERT(members >= 1, members);
  if (members == 1) return {};
  return path.latency + (static_cast<double>(members - 1) / members) * payload / path.bandwidth;
}

Seconds ring_all_reduce(Bytes payload, std::uint32_t members, const RingPath& path) {
  return 2.0 * ring_half(payload, members, path);
}

Seconds chain(Bytes payload, const RingPath& path) { return path.latency + payload / path.bandwidth; }

Seconds pairwise_all_to_all(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links) {
  Seconds total;
  const Bytes block = payload / static_cast<double>(shape.members);
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const double peers = static_cast<double>(shape.level[l].least) - least_below(shape, l);
    total += peers * message_time(block, links[l]);
  }
  return total;
}

Seconds tree_latency(const GroupShape& shape, std::span<const LinkCost> links) {
  Seconds total;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const std::uint32_t parts = (units_below(shape, l) + shape.level[l].units - 1) / shape.level[l].units;
    total += rounds(parts) * links[l].latency;
  }
  return total;
}

Seconds tree_all_reduce(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links) {
  if (shape.members == 1) return {};
  return 2.0 * tree_latency(shape, links) + 2.0 * payload / ring_path(shape, links, 0.5 * payload).bandwidth;
}

bool is_uniform(const GroupShape& shape) {
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const std::uint64_t all = std::uint64_t{shape.level[l].units} * shape.level[l].least;
    if (all != shape.members || shape.level[l].least % least_below(shape, l) != 0) return false;
  }
  return true;
}

namespace {

/// What (parts - 1) / parts of `all` take in rounds of 1, 2, 4, ... parts, the last of what is left of them.
Seconds in_rounds(Bytes all, std::uint32_t parts, const LinkCost& link) {
  if (link.rates.values.empty()) return (static_cast<double>(parts - 1) / parts) * all / link.bandwidth;
  Seconds total;
  for (std::uint32_t d = 1; d < parts; d *= 2) {
    const Bytes message = (static_cast<double>(std::min(d, parts - d)) / parts) * all;
    total += message / bandwidth_at(link, message);
  }
  return total;
}

}  // namespace

Seconds recursive_half(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links) {
  ORRERY_ASSERT(is_uniform(shape));
  Seconds total;
  Bytes left = payload;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const std::uint32_t parts = units_below(shape, l) / shape.level[l].units;
    if (parts == 1) continue;
    total += rounds(parts) * links[l].latency + in_rounds(left, parts, links[l]);
    left = left / static_cast<double>(parts);
  }
  return total;
}

std::optional<Seconds> recursive_doubling_all_reduce(Bytes payload, const GroupShape& shape,
                                                     std::span<const LinkCost> links) {
  ORRERY_ASSERT(is_uniform(shape));
  Seconds total;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const std::uint32_t parts = units_below(shape, l) / shape.level[l].units;
    if (!std::has_single_bit(parts)) return std::nullopt;
    total += rounds(parts) * message_time(payload, links[l]);
  }
  return total;
}

Seconds one_hop(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links) {
  Seconds worst;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (is_crossed(shape, l)) worst = std::max(worst, message_time(payload, links[l]));
  }
  return worst;
}

Seconds bruck_all_to_all(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links) {
  if (shape.members == 1) return {};
  const LinkCost& link = links[shape.levels - 1U];
  const Bytes block = payload / static_cast<double>(shape.members);
  Seconds total;
  for (std::uint32_t bit = 1; bit < shape.members; bit *= 2) {
    // Numbers below p with this bit: whole periods of 2 bit, then the rest above the first half.
    const std::uint32_t rest = shape.members % (2 * bit);
    const std::uint32_t blocks = shape.members / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
    total += message_time(static_cast<double>(blocks) * block, link);
  }
  return total;
}

namespace {

std::optional<Seconds> ring_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                 std::span<const LinkCost> links) {
  const bool whole = kind == Collective::Kind::broadcast || kind == Collective::Kind::reduce;
  const RingPath path = ring_path(shape, links, whole ? payload : payload / static_cast<double>(shape.members));
  switch (kind) {
    case Collective::Kind::all_reduce: return ring_all_reduce(payload, shape.members, path);
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter: return ring_half(payload, shape.members, path);
    case Collective::Kind::broadcast:
    case Collective::Kind::reduce: return chain(payload, path);
    case Collective::Kind::all_to_all: return pairwise_all_to_all(payload, shape, links);
    case Collective::Kind::permute: return one_hop(payload, shape, links);
    case Collective::Kind::barrier: return 2.0 * path.latency;
  }
  return std::nullopt;
}

std::optional<Seconds> tree_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                 std::span<const LinkCost> links) {
  switch (kind) {
    case Collective::Kind::all_reduce: return tree_all_reduce(payload, shape, links);
    case Collective::Kind::broadcast:
    case Collective::Kind::reduce: return 0.5 * tree_all_reduce(payload, shape, links);
    case Collective::Kind::barrier: return 2.0 * tree_latency(shape, links);
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter:
    case Collective::Kind::permute:
    case Collective::Kind::all_to_all: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Seconds> recursive_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                      std::span<const LinkCost> links) {
  if (!is_uniform(shape)) return std::nullopt;
  switch (kind) {
    case Collective::Kind::all_reduce: {
      const Seconds halving = 2.0 * recursive_half(payload, shape, links);
      const auto doubling = recursive_doubling_all_reduce(payload, shape, links);
      return doubling ? std::min(halving, *doubling) : halving;
    }
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter: return recursive_half(payload, shape, links);
    case Collective::Kind::broadcast:  // scatter, then all-gather
    case Collective::Kind::reduce: return 2.0 * recursive_half(payload, shape, links);
    case Collective::Kind::all_to_all: return bruck_all_to_all(payload, shape, links);
    case Collective::Kind::permute: return std::nullopt;
    case Collective::Kind::barrier: return tree_latency(shape, links);
  }
  return std::nullopt;
}

/// A broadcast's or a reduction's one direction, over switches that copy or add.
std::optional<Seconds> in_network_one_way(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links) {
  Seconds latency, moving;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (!is_crossed(shape, l)) continue;
    if (!links[l].switches) return std::nullopt;
    latency += links[l].latency;
    moving = std::max(moving, payload / bandwidth_at(links[l], payload));
  }
  return latency + moving;
}

std::optional<Seconds> in_network_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                       std::span<const LinkCost> links) {
  switch (kind) {
    case Collective::Kind::all_reduce: return in_network_all_reduce(payload, shape, links);
    case Collective::Kind::broadcast:
    case Collective::Kind::reduce: return in_network_one_way(payload, shape, links);
    case Collective::Kind::barrier: return in_network_all_reduce(Bytes{}, shape, links);
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter:
    case Collective::Kind::permute:
    case Collective::Kind::all_to_all: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Seconds> in_network_all_reduce(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links) {
  Seconds latency, moving;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (!is_crossed(shape, l)) continue;
    if (!links[l].switches) return std::nullopt;
    const double ways = least_below(shape, l), members = shape.level[l].least / ways;
    const bool reads = *links[l].switches == SwitchSum::nvls;
    const double passes = reads ? 1.0 + 1.0 / members : 1.0;
    latency += (reads ? 2.0 : 1.0) * links[l].latency;
    moving = std::max(moving, passes * (payload / ways) / bandwidth_at(links[l], payload / ways));
  }
  return latency + moving;
}

std::optional<Seconds> collective_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                       CollectiveAlgorithm algorithm, std::span<const LinkCost> links) {
  if (shape.members == 1) return Seconds{};
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return ring_time(kind, payload, shape, links);
    case CollectiveAlgorithm::tree: return tree_time(kind, payload, shape, links);
    case CollectiveAlgorithm::recursive: return recursive_time(kind, payload, shape, links);
    case CollectiveAlgorithm::in_network: return in_network_time(kind, payload, shape, links);
  }
  return std::nullopt;
}

Seconds stepwise_ring(Collective::Kind kind, Bytes payload, std::uint32_t members, const MessageRate& rates,
                      Seconds latency) {
  if (members <= 1) return {};
  const auto step = [&](Bytes bytes, const RateTable& rate) {
    return latency + bytes / Bandwidth::of(interpolate(rate, bytes.in(byte)));
  };
  const double steps = members - 1;
  const Bytes chunk = payload / static_cast<double>(members);
  switch (kind) {
    case Collective::Kind::all_reduce: return steps * (step(chunk, rates.add) + step(chunk, rates.copy));
    case Collective::Kind::reduce_scatter: return steps * step(chunk, rates.add);
    case Collective::Kind::all_gather:
    case Collective::Kind::all_to_all: return steps * step(chunk, rates.copy);
    case Collective::Kind::permute: return step(payload, rates.copy);
    case Collective::Kind::broadcast: return steps * step(payload, rates.send);
    case Collective::Kind::reduce: return steps * step(payload, rates.add);
    case Collective::Kind::barrier: return rounds(members) * latency;
  }
  return {};
}

CollectiveCost::CollectiveCost(const ClusterSpec& cluster, const Calibration& calibration, bool more_ranks_than_cores)
    : algorithms_(calibration.algorithms),
      launch_(calibration.collective_launch),
      all_to_all_(calibration.software[SoftwareCost::all_to_all]),
      messages_(calibration.messages),
      serial_(!cluster.device.concurrent_lanes) {
  if (NcclCost::applies(cluster, calibration)) nccl_ = std::make_shared<const NcclCost>(cluster, calibration);
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    const auto& e = calibration.level_efficiency;
    const double efficiency = e.empty() ? 1.0 : e[std::min(l, e.size() - 1)];
    const double slower = calibration.software[l == 0 ? SoftwareCost::link : SoftwareCost::network];
    reach_.push_back(efficiency / slower);
    const double pairs =
        nccl_ ? (nccl_->is_inside(l) ? calibration.nccl->node.pairs : calibration.nccl->network.pairs) : 1.0;
    LinkCost link{cluster.levels[l].latency, (reach_.back() / pairs) * cluster.levels[l].bandwidth};
    if (!cluster.levels[l].rates.empty()) {
      link.rates.axes.emplace_back();
      for (const SizedRate& r : cluster.levels[l].rates) {
        link.rates.axes.front().push_back(r.message.in(byte));
        link.rates.values.push_back((reach_.back() / pairs) * r.rate.base());
      }
    }
    link.switches = cluster.levels[l].switches;
    links_.push_back(std::move(link));
  }
  if (messages_) message_latency_ = more_ranks_than_cores ? messages_->latency_shared : messages_->latency;
  if (serial_) {
    algorithms_ = {CollectiveAlgorithm::ring};  // the only one that CPU ranks run
  } else if (algorithms_.empty()) {
    algorithms_ = {CollectiveAlgorithm::ring, CollectiveAlgorithm::tree, CollectiveAlgorithm::recursive,
                   CollectiveAlgorithm::in_network};
  }
}

CollectiveCost::Choice CollectiveCost::made(CollectiveAlgorithm algorithm, Seconds time) const {
  return {algorithm, launch_ + time, {}, {}};
}

CollectiveCost::Choice CollectiveCost::choose(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                              std::optional<CollectiveAlgorithm> algorithm) const {
  if (shape.members == 1) return {};
  if (messages_) {
    return made(CollectiveAlgorithm::ring, stepwise_ring(kind, payload, shape.members, *messages_, message_latency_));
  }
  if (nccl_ && algorithm != CollectiveAlgorithm::recursive) {
    NcclExcluded excluded{};
    if (algorithm == CollectiveAlgorithm::in_network) {
      excluded[static_cast<std::size_t>(NcclAlgorithm::ring)] = true;
      excluded[static_cast<std::size_t>(NcclAlgorithm::tree)] = true;
      excluded[static_cast<std::size_t>(NcclAlgorithm::pat)] = true;
    } else if (algorithm) {
      excluded = all_but(*algorithm == CollectiveAlgorithm::tree ? NcclAlgorithm::tree : NcclAlgorithm::ring);
    }
    if (const auto price = nccl_->price(kind, payload, shape, excluded)) {
      const bool tree = price->algorithm == NcclAlgorithm::tree;
      return {tree ? CollectiveAlgorithm::tree : CollectiveAlgorithm::ring, price->time, price->algorithm,
              price->moving};
    }
  }
  if (algorithm && !serial_) {
    if (const auto time = collective_time(kind, payload, shape, *algorithm, links_)) {
      return made(*algorithm, *time);
    }
    return made(CollectiveAlgorithm::ring, *collective_time(kind, payload, shape, CollectiveAlgorithm::ring, links_));
  }
  std::optional<Choice> best;
  for (const CollectiveAlgorithm a : algorithms_) {
    const auto time = collective_time(kind, payload, shape, a, links_);
    if (time && (!best || *time < best->time)) best = Choice{a, *time, {}, {}};
  }
  if (!best) {  // the offered algorithms do not know this kind
    best = Choice{
        CollectiveAlgorithm::ring, *collective_time(kind, payload, shape, CollectiveAlgorithm::ring, links_), {}, {}};
  }
  if (kind == Collective::Kind::all_to_all) best->time = all_to_all_ * best->time;
  return made(best->algorithm, best->time);
}

Seconds CollectiveCost::message(Bytes bytes, std::size_t level) const {
  if (messages_) {
    return messages_->wake + bytes / Bandwidth::of(interpolate(messages_->send, bytes.in(byte)));
  }
  return message_time(bytes, links_[level]);
}

}  // namespace orrery
