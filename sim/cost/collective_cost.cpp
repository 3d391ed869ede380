#include "sim/cost/collective_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_names.hpp"
#include "sim/cost/nccl/nccl_cost.hpp"

namespace orrery {

namespace {

/// Number of units on the level below, and the fewest members in one of them; below the first level these are the
/// members themselves.
std::uint32_t units_below(const GroupShape& s, std::size_t level) {
  return level == 0 ? s.members : s.level[level - 1].units;
}
std::uint32_t least_below(const GroupShape& s, std::size_t level) { return level == 0 ? 1 : s.level[level - 1].least; }
bool is_crossed(const GroupShape& s, std::size_t level) { return units_below(s, level) > s.level[level].units; }
/// A message so large that its size no longer counts.
constexpr Bytes endless = Bytes::of(0x1p53);
/// Notes `times` for the number that was noted last.
void tell_times(Derivation& why, const char* what, double times, Seconds product) {
  why.given(what, times, NumberSource::placement);
  why.made(NumberBy::product, 2, what, product);
}
void tell_sum(Derivation* why, std::size_t parts, const char* name, Seconds total, const char* source = "") {
  if (why == nullptr) return;
  if (parts == 0) {
    why->given(name, total, NumberSource::placement, "nothing is sent");
  } else {
    why->made(NumberBy::sum, parts, name, total, source);
  }
}
/// Notes a part of the payload over the rate that was noted last.
void tell_moving(Derivation& why, double share, Bytes payload, Seconds time) {
  DerivedNumber rate = why.take();
  why.given("share that is sent", share, NumberSource::formula);
  why.given("payload", payload, NumberSource::program, "of the whole vector");
  why.made(NumberBy::product, 2, "bytes", share * payload);
  why.put(std::move(rate));
  why.made(NumberBy::quotient, 2, "moving", time);
}
/// ceil(log2 n).
double rounds(std::uint32_t n) { return n <= 1 ? 0.0 : static_cast<double>(std::bit_width(n - 1)); }

}  // namespace

RingPath ring_path(const GroupShape& shape, std::span<const LinkCost> links, std::optional<Bytes> step,
                   Derivation* why) {
  ORRERY_ASSERT(shape.levels <= links.size(), shape.levels, links.size());
  RingPath path;
  std::optional<Seconds> least;
  std::optional<Bandwidth> narrowest;
  std::size_t parts = 0;
  std::size_t slowest = 0, nearest = 0;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (!is_crossed(shape, l)) continue;
    // Hops that also leave a unit of this level are counted further out.
    const std::uint32_t below = units_below(shape, l);
    const std::uint32_t above = shape.level[l].units > 1 ? shape.level[l].units : 0;
    path.latency += static_cast<double>(below - above) * links[l].latency;
    if (why != nullptr) {
      tell_latency(*why, links[l]);
      tell_times(*why, "hops", below - above, static_cast<double>(below - above) * links[l].latency);
      ++parts;
    }
    if (!least || links[l].latency < *least) {
      least = links[l].latency;
      nearest = l;
    }
    const double ways = least_below(shape, l);
    const Bandwidth way = ways * bandwidth_at(links[l], step.value_or(endless) / ways);
    if (!narrowest || way < *narrowest) {
      narrowest = way;
      slowest = l;
    }
  }
  if (least) path.latency -= *least;
  if (narrowest) path.bandwidth = *narrowest;
  if (why != nullptr && least) {
    tell_latency(*why, links[nearest]);
    tell_times(*why, "the ring's last hop is not waited for", -1.0, -1.0 * *least);
    tell_sum(why, parts + 1, "latency of the ring", path.latency);
    const double ways = least_below(shape, slowest);
    (void)bandwidth_at(links[slowest], step.value_or(endless) / ways, why);
    why->given("members side by side", ways, NumberSource::placement);
    why->made(NumberBy::product, 2, "narrowest crossing", path.bandwidth);
  }
  return path;
}

Seconds ring_half(Bytes payload, std::uint32_t members, const RingPath& path, Derivation* why) {
  ORRERY_ASSERT(members >= 1, members);
  if (members == 1) return {};
  const double share = static_cast<double>(members - 1) / members;
  const Seconds moving = share * payload / path.bandwidth;
  if (why != nullptr) {
    tell_moving(*why, share, payload, moving);
    tell_sum(why, 2, "ring", path.latency + moving, "Patarasuk and Yuan, JPDC 69(2), 2009");
  }
  return path.latency + moving;
}

Seconds ring_all_reduce(Bytes payload, std::uint32_t members, const RingPath& path, Derivation* why) {
  const Seconds both = 2.0 * ring_half(payload, members, path, why);
  if (why != nullptr && members > 1) tell_times(*why, "reduce-scatter, then all-gather", 2.0, both);
  return both;
}

Seconds chain(Bytes payload, const RingPath& path, Derivation* why) {
  const Seconds moving = payload / path.bandwidth;
  if (why != nullptr) {
    tell_moving(*why, 1.0, payload, moving);
    tell_sum(why, 2, "chain", path.latency + moving, "Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005");
  }
  return path.latency + moving;
}

Seconds pairwise_all_to_all(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links, Derivation* why) {
  Seconds total;
  const Bytes block = payload / static_cast<double>(shape.members);
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const double peers = static_cast<double>(shape.level[l].least) - least_below(shape, l);
    const Seconds messages = peers * message_time(block, links[l], why);
    total += messages;
    if (why != nullptr) tell_times(*why, "peers over this level", peers, messages);
  }
  tell_sum(why, shape.levels, "direct messages", total, "Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005");
  return total;
}

Seconds tree_latency(const GroupShape& shape, std::span<const LinkCost> links, Derivation* why) {
  Seconds total;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const std::uint32_t parts = (units_below(shape, l) + shape.level[l].units - 1) / shape.level[l].units;
    const Seconds waits = rounds(parts) * links[l].latency;
    total += waits;
    if (why == nullptr) continue;
    tell_latency(*why, links[l]);
    tell_times(*why, "depth of the tree", rounds(parts), waits);
  }
  tell_sum(why, shape.levels, "one way through the tree", total);
  return total;
}

Seconds tree_all_reduce(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links, Derivation* why) {
  if (shape.members == 1) return {};
  const Seconds latency = 2.0 * tree_latency(shape, links, why);
  if (why != nullptr) tell_times(*why, "up and down", 2.0, latency);
  const RingPath path = ring_path(shape, links, 0.5 * payload, why);
  const Seconds moving = 2.0 * payload / path.bandwidth;
  if (why != nullptr) {
    DerivedNumber bandwidth = why->take();
    (void)why->take();  // a ring's latency
    why->put(std::move(bandwidth));
    tell_moving(*why, 2.0, payload, moving);
    tell_sum(why, 2, "two trees", latency + moving, "Sanders, Speck and Traeff, Parallel Computing 35(12), 2009");
  }
  return latency + moving;
}

bool is_uniform(const GroupShape& shape) {
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const std::uint64_t all = std::uint64_t{shape.level[l].units} * shape.level[l].least;
    if (all != shape.members || shape.level[l].least % least_below(shape, l) != 0) return false;
  }
  return true;
}

namespace {

/// The time that (parts - 1) / parts of `all` takes in rounds of 1, 2, 4, ... parts, the last round with the parts that
/// are left.
Seconds in_rounds(Bytes all, std::uint32_t parts, const LinkCost& link, Derivation* why) {
  if (link.rates.values.empty()) {
    const double share = static_cast<double>(parts - 1) / parts;
    const Seconds moving = share * all / link.bandwidth;
    if (why != nullptr) {
      (void)bandwidth_at(link, all, why);
      tell_moving(*why, share, all, moving);
    }
    return moving;
  }
  Seconds total;
  std::size_t messages = 0;
  for (std::uint32_t d = 1; d < parts; d *= 2) {
    const Bytes message = (static_cast<double>(std::min(d, parts - d)) / parts) * all;
    if (why != nullptr) why->given("bytes", message, NumberSource::program, "of one round");
    const Seconds moving = message / bandwidth_at(link, message, why);
    total += moving;
    ++messages;
    if (why != nullptr) why->made(NumberBy::quotient, 2, "moving", moving);
  }
  tell_sum(why, messages, "rounds", total);
  return total;
}

}  // namespace

Seconds recursive_half(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links, Derivation* why) {
  ORRERY_ASSERT(is_uniform(shape));
  Seconds total;
  std::size_t told = 0;
  Bytes left = payload;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const std::uint32_t parts = units_below(shape, l) / shape.level[l].units;
    if (parts == 1) continue;
    const Seconds waits = rounds(parts) * links[l].latency;
    if (why != nullptr) {
      tell_latency(*why, links[l]);
      tell_times(*why, "rounds", rounds(parts), waits);
    }
    total += waits + in_rounds(left, parts, links[l], why);
    told += 2;
    left = left / static_cast<double>(parts);
  }
  tell_sum(why, told, "halving or doubling", total, "Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005");
  return total;
}

Seconds recursive_doubling_all_reduce(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links,
                                      Derivation* why) {
  ORRERY_ASSERT(is_uniform(shape));
  Seconds total;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    const std::uint32_t parts = units_below(shape, l) / shape.level[l].units;
    const bool folds = !std::has_single_bit(parts);
    const double times = rounds(std::bit_floor(parts)) + (folds ? 2.0 : 0.0);
    const Seconds messages = times * message_time(payload, links[l], why);
    total += messages;
    if (why != nullptr) tell_times(*why, folds ? "rounds, and one before and after" : "rounds", times, messages);
  }
  tell_sum(why, shape.levels, "recursive doubling", total, "Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005");
  return total;
}

Seconds one_hop(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links, Derivation* why) {
  Seconds worst;
  std::size_t crossed = 0;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (!is_crossed(shape, l)) continue;
    worst = std::max(worst, message_time(payload, links[l], why));
    ++crossed;
  }
  if (why != nullptr && crossed > 0) why->made(NumberBy::largest, crossed, "slowest crossing", worst);
  return worst;
}

Seconds bruck_all_to_all(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links, Derivation* why) {
  if (shape.members == 1) return {};
  const LinkCost& link = links[shape.levels - 1U];
  const Bytes block = payload / static_cast<double>(shape.members);
  Seconds total;
  std::size_t messages = 0;
  for (std::uint32_t bit = 1; bit < shape.members; bit *= 2) {
    // Counts the numbers below p with this bit: whole periods of 2 bit, then the rest above the first half.
    const std::uint32_t rest = shape.members % (2 * bit);
    const std::uint32_t blocks = shape.members / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
    total += message_time(static_cast<double>(blocks) * block, link, why);
    ++messages;
  }
  tell_sum(why, messages, "Bruck's rounds", total, "Bruck et al., IEEE TPDS 8(11), 1997");
  return total;
}

namespace {

/// Twice the number that `why` noted last.
Seconds twice(Seconds one, Derivation* why, const char* what) {
  if (why != nullptr) tell_times(*why, what, 2.0, 2.0 * one);
  return 2.0 * one;
}

std::optional<Seconds> ring_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                 std::span<const LinkCost> links, Derivation* why) {
  if (kind == Collective::Kind::all_to_all) return pairwise_all_to_all(payload, shape, links, why);
  if (kind == Collective::Kind::permute) return one_hop(payload, shape, links, why);
  const bool whole = kind == Collective::Kind::broadcast || kind == Collective::Kind::reduce;
  const RingPath path = ring_path(shape, links, whole ? payload : payload / static_cast<double>(shape.members), why);
  switch (kind) {
    case Collective::Kind::all_reduce: return ring_all_reduce(payload, shape.members, path, why);
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter: return ring_half(payload, shape.members, path, why);
    case Collective::Kind::broadcast:
    case Collective::Kind::reduce: return chain(payload, path, why);
    case Collective::Kind::barrier:
      if (why != nullptr) (void)why->take();  // bandwidth
      return twice(path.latency, why, "around twice");
    case Collective::Kind::all_to_all:
    case Collective::Kind::permute: break;
  }
  return std::nullopt;
}

std::optional<Seconds> tree_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                 std::span<const LinkCost> links, Derivation* why) {
  switch (kind) {
    case Collective::Kind::all_reduce: return tree_all_reduce(payload, shape, links, why);
    case Collective::Kind::broadcast:
    case Collective::Kind::reduce: {
      const Seconds one_way = 0.5 * tree_all_reduce(payload, shape, links, why);
      if (why != nullptr) tell_times(*why, "one way", 0.5, one_way);
      return one_way;
    }
    case Collective::Kind::barrier: return twice(tree_latency(shape, links, why), why, "up and down");
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter:
    case Collective::Kind::permute:
    case Collective::Kind::all_to_all: return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Seconds> recursive_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                      std::span<const LinkCost> links, Derivation* why) {
  if (!is_uniform(shape)) return std::nullopt;
  switch (kind) {
    case Collective::Kind::all_reduce: {
      const Seconds halving = twice(recursive_half(payload, shape, links, why), why, "halving, then doubling");
      const Seconds doubling = recursive_doubling_all_reduce(payload, shape, links, why);
      const Seconds best = std::min(halving, doubling);
      if (why != nullptr) why->made(NumberBy::least, 2, "the faster one", best);
      return best;
    }
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter: return recursive_half(payload, shape, links, why);
    case Collective::Kind::broadcast:
    case Collective::Kind::reduce:
      return twice(recursive_half(payload, shape, links, why), why, "scatter, then all-gather");
    case Collective::Kind::all_to_all: return bruck_all_to_all(payload, shape, links, why);
    case Collective::Kind::permute: return std::nullopt;
    case Collective::Kind::barrier: return tree_latency(shape, links, why);
  }
  return std::nullopt;
}

/// The number that `why` noted last is the waiting of each level; `movings` are the times in which levels move the
/// bytes.
void tell_switches(Derivation& why, std::vector<DerivedNumber> movings, Seconds latency, Seconds moving) {
  const std::size_t crossed = movings.size();
  tell_sum(&why, crossed, "latency of the switches", latency);
  if (crossed == 0) return;
  for (DerivedNumber& m : movings) why.put(std::move(m));
  why.made(NumberBy::largest, crossed, "moving", moving);
  tell_sum(&why, 2, "sums in the switches", latency + moving);
}

/// One direction of a broadcast or a reduction, over switches that copy or add.
std::optional<Seconds> in_network_one_way(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links,
                                          Derivation* why) {
  Seconds latency, moving;
  std::vector<DerivedNumber> movings;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (is_crossed(shape, l) && !links[l].switches) return std::nullopt;
  }
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (!is_crossed(shape, l)) continue;
    latency += links[l].latency;
    const Seconds here = payload / bandwidth_at(links[l], payload, why);
    moving = std::max(moving, here);
    if (why == nullptr) continue;
    tell_moving(*why, 1.0, payload, here);
    movings.push_back(why->take());
    tell_latency(*why, links[l]);
  }
  if (why != nullptr) tell_switches(*why, std::move(movings), latency, moving);
  return latency + moving;
}

std::optional<Seconds> in_network_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                       std::span<const LinkCost> links, Derivation* why) {
  switch (kind) {
    case Collective::Kind::all_reduce: return in_network_all_reduce(payload, shape, links, why);
    case Collective::Kind::broadcast:
    case Collective::Kind::reduce: return in_network_one_way(payload, shape, links, why);
    case Collective::Kind::barrier: return in_network_all_reduce(Bytes{}, shape, links, why);
    case Collective::Kind::all_gather:
    case Collective::Kind::reduce_scatter:
    case Collective::Kind::permute:
    case Collective::Kind::all_to_all: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Seconds> in_network_all_reduce(Bytes payload, const GroupShape& shape, std::span<const LinkCost> links,
                                             Derivation* why) {
  Seconds latency, moving;
  std::vector<DerivedNumber> movings;
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (is_crossed(shape, l) && !links[l].switches) return std::nullopt;
  }
  for (std::size_t l = 0; l < shape.levels; ++l) {
    if (!is_crossed(shape, l)) continue;
    const double ways = least_below(shape, l), members = shape.level[l].least / ways;
    const bool reads = *links[l].switches == SwitchSum::nvls;
    const double passes = reads ? 1.0 + 1.0 / members : 1.0;
    const Seconds waits = (reads ? 2.0 : 1.0) * links[l].latency;
    latency += waits;
    const Seconds here = passes * (payload / ways) / bandwidth_at(links[l], payload / ways, why);
    moving = std::max(moving, here);
    if (why == nullptr) continue;
    tell_moving(*why, passes / ways, payload, here);
    movings.push_back(why->take());
    tell_latency(*why, links[l]);
    tell_times(*why, "ways to the switch", reads ? 2.0 : 1.0, waits);
  }
  if (why != nullptr) tell_switches(*why, std::move(movings), latency, moving);
  return latency + moving;
}

std::optional<Seconds> collective_time(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                       CollectiveAlgorithm algorithm, std::span<const LinkCost> links,
                                       Derivation* why) {
  if (shape.members == 1) return Seconds{};
  switch (algorithm) {
    case CollectiveAlgorithm::ring: return ring_time(kind, payload, shape, links, why);
    case CollectiveAlgorithm::tree: return tree_time(kind, payload, shape, links, why);
    case CollectiveAlgorithm::recursive: return recursive_time(kind, payload, shape, links, why);
    case CollectiveAlgorithm::in_network: return in_network_time(kind, payload, shape, links, why);
  }
  return std::nullopt;
}

Seconds stepwise_ring(Collective::Kind kind, Bytes payload, std::uint32_t members, const MessageRate& rates,
                      Seconds latency, Derivation* why) {
  if (members <= 1) return {};
  const auto step = [&](Bytes bytes, const RateTable& rate, const char* key) {
    const Bandwidth at = Bandwidth::of(interpolate(rate, bytes.in(byte)));
    const Seconds time = latency + bytes / at;
    if (why != nullptr) {
      why->given("latency of a step", latency, NumberSource::calibration, "messages.latency");
      why->given("bytes of a step", bytes, NumberSource::program);
      why->given("rate", at, NumberSource::calibration, fmt::format("messages.{} at so many bytes", key));
      why->made(NumberBy::quotient, 2, "moving", bytes / at);
      why->made(NumberBy::sum, 2, "step", time);
    }
    return time;
  };
  const auto times = [&](double count, Seconds one) {
    if (why != nullptr) tell_times(*why, "steps", count, count * one);
    return count * one;
  };
  const double steps = members - 1;
  const Bytes chunk = payload / static_cast<double>(members);
  switch (kind) {
    case Collective::Kind::all_reduce: {
      const Seconds adding = step(chunk, rates.add, "add");
      const Seconds both = adding + step(chunk, rates.copy, "copy");
      if (why != nullptr) why->made(NumberBy::sum, 2, "a step of each half", both);
      return times(steps, both);
    }
    case Collective::Kind::reduce_scatter: return times(steps, step(chunk, rates.add, "add"));
    case Collective::Kind::all_gather:
    case Collective::Kind::all_to_all: return times(steps, step(chunk, rates.copy, "copy"));
    case Collective::Kind::permute: return step(payload, rates.copy, "copy");
    case Collective::Kind::broadcast: return times(steps, step(payload, rates.send, "send"));
    case Collective::Kind::reduce: return times(steps, step(payload, rates.add, "add"));
    case Collective::Kind::barrier:
      if (why != nullptr) why->given("latency of a step", latency, NumberSource::calibration, "messages.latency");
      return times(rounds(members), latency);
  }
  return {};
}

CollectiveCost::CollectiveCost(const ClusterSpec& cluster, const Calibration& calibration, bool more_ranks_than_cores)
    : algorithms_(calibration.algorithms),
      launch_(calibration.collective_launch),
      node_copies_(calibration.software[SoftwareCost::node_copies]),
      messages_(calibration.messages),
      serial_(!cluster.device.concurrent_lanes) {
  if (NcclCost::applies(cluster, calibration)) nccl_ = std::make_shared<const NcclCost>(cluster, calibration);
  for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
    const auto& e = calibration.level_efficiency;
    const double efficiency = e.empty() ? 1.0 : e[std::min(l, e.size() - 1)];
    const double slower = l == 0 ? 1.0 : calibration.software[SoftwareCost::network];
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
    link.efficiency = efficiency;
    link.slower = slower;
    link.pairs = pairs;
    link.level = l;
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

CollectiveCost::Choice CollectiveCost::made(CollectiveAlgorithm algorithm, Seconds time, Derivation* why) const {
  if (why != nullptr) {
    why->given("launch", launch_, NumberSource::calibration, "collective_launch");
    why->made(NumberBy::sum, 2, std::string(name_of(algorithm)), launch_ + time);
  }
  return {algorithm, launch_ + time, {}, {}};
}

CollectiveCost::Choice CollectiveCost::choose(Collective::Kind kind, Bytes payload, const GroupShape& shape,
                                              std::optional<CollectiveAlgorithm> algorithm, Derivation* why) const {
  if (shape.members == 1) {
    if (why != nullptr) why->given("alone in its group", Seconds{}, NumberSource::placement);
    return {};
  }
  if (messages_) {
    return made(CollectiveAlgorithm::ring,
                stepwise_ring(kind, payload, shape.members, *messages_, message_latency_, why), why);
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
    if (const auto price = nccl_->price(kind, payload, shape, excluded, why)) {
      const bool tree = price->algorithm == NcclAlgorithm::tree;
      return {tree ? CollectiveAlgorithm::tree : CollectiveAlgorithm::ring, price->time, price->algorithm,
              price->moving};
    }
  }
  if (algorithm && !serial_) {
    if (const auto time = collective_time(kind, payload, shape, *algorithm, links_, why)) {
      return made(*algorithm, *time, why);
    }
    return made(CollectiveAlgorithm::ring,
                *collective_time(kind, payload, shape, CollectiveAlgorithm::ring, links_, why), why);
  }
  std::optional<Choice> best;
  for (const CollectiveAlgorithm a : algorithms_) {
    const auto time = collective_time(kind, payload, shape, a, links_);
    if (time && (!best || *time < best->time)) best = Choice{a, *time, {}, {}};
  }
  // Ring is taken where the offered algorithms do not know this kind.
  const CollectiveAlgorithm taken = best ? best->algorithm : CollectiveAlgorithm::ring;
  if (!best || why != nullptr) {
    best = Choice{taken, *collective_time(kind, payload, shape, taken, links_, why), {}, {}};
  }
  return made(taken, best->time, why);
}

Seconds CollectiveCost::message(Bytes bytes, std::size_t level, Derivation* why) const {
  if (messages_) {
    const Bandwidth at = Bandwidth::of(interpolate(messages_->send, bytes.in(byte)));
    if (why != nullptr) {
      why->given("latency", messages_->wake, NumberSource::calibration, "messages.wake");
      why->given("bytes", bytes, NumberSource::program);
      why->given("rate", at, NumberSource::calibration, "messages.send at so many bytes");
      why->made(NumberBy::quotient, 2, "moving", bytes / at);
      why->made(NumberBy::sum, 2, "message", messages_->wake + bytes / at);
    }
    return messages_->wake + bytes / at;
  }
  return message_time(bytes, links_[level], why);
}

}  // namespace orrery
