#include "sim/cost/cost_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"

namespace orrery {

Picoseconds picoseconds(Seconds s) {
  const double ps = s.base() * 1e12;
  ORRERY_ASSERT(ps >= 0, s.base());
  // Blocks add up many ops, so the limit stays below 2^63 ps by a factor that leaves room for their sum.
  if (!(ps < 1e17)) throw Error("an operation takes more than 28 hours; times are counted in whole picoseconds");
  return std::llround(ps);
}

namespace {

/// Ranks on the fullest node.
std::uint32_t ranks_per_node(const ClusterSpec& cluster, const Mesh& mesh,
                             const std::vector<std::uint32_t>& placement) {
  if (placement.empty()) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(mesh.size(), cluster.devices_per_node));
  }
  std::vector<std::uint32_t> count(cluster.nodes);
  for (const std::uint32_t device : placement) ++count[device / cluster.devices_per_node];
  return *std::max_element(count.begin(), count.end());
}

/// Cores that the ranks of a node share; 0 for devices with compute units of their own.
std::uint32_t cores_of(const ClusterSpec& cluster, const Calibration& calibration) {
  if (cluster.device.cores_shared == 0) return 0;
  return calibration.cores > 0 ? calibration.cores : cluster.device.cores_shared;
}

/// The largest of this software cost over the kinds of devices.
double largest(const ClusterSpec& cluster, const Calibration& calibration, SoftwareCost cost) {
  double out = calibration.software[cost];
  for (std::uint32_t k = 1; k < node_kinds(cluster); ++k) {
    out = std::max(out, calibration_of(calibration, k).software[cost]);
  }
  return out;
}

/// The kinds whose ranks pay the same for a collective, because groups of these shapes join them: the kinds joined with
/// `kind`, or all.
NodeKinds joined_with(std::uint32_t kind, const std::vector<GroupShape>& shapes) {
  auto joined = static_cast<NodeKinds>(1U << kind);
  for (NodeKinds before = 0; before != joined;) {
    before = joined;
    for (const GroupShape& s : shapes) {
      if ((s.kinds & joined) != 0) joined |= s.kinds;
    }
  }
  return joined;
}

/// A bit for each axis of more than one coordinate, in the order of the axes.
std::size_t axis_set(const AxisList& axes, const std::array<std::uint16_t, axis_count>& bit) {
  std::size_t set = 0;
  for (const Axis a : axes) set |= bit[index(a)];
  return set;
}

}  // namespace

std::shared_ptr<const CostModel::Devices> CostModel::devices_with(const ClusterSpec& cluster,
                                                                  const Calibration& calibration,
                                                                  std::uint32_t ranks_on_node) {
  const std::uint32_t cores = cores_of(cluster, calibration);
  Devices of{cluster,
             {},
             MixedCollectiveCost(cluster, calibration, cores > 0 && ranks_on_node > cores),
             {},
             false,
             largest(cluster, calibration, SoftwareCost::overlap),
             largest(cluster, calibration, SoftwareCost::tensor),
             largest(cluster, calibration, SoftwareCost::host_launch),
             largest(cluster, calibration, SoftwareCost::weights_gather)};
  for (std::uint32_t k = 0; k < node_kinds(cluster); ++k) {
    const Calibration& own = calibration_of(calibration, k);
    of.kernels.emplace_back(orrery::device_of(cluster, k), own, cores > 1 && ranks_on_node > 1);
    of.host_bandwidth.push_back(own.host_bandwidth);
  }
  if (of.cluster.disk && calibration.disk) {
    of.disk_measured = true;
    of.cluster.disk->read = calibration.disk->read;
    of.cluster.disk->write = calibration.disk->write;
    of.cluster.disk->latency = calibration.disk->latency;
  }
  return std::make_shared<const Devices>(std::move(of));
}

CostModel::CostModel(const ClusterSpec& cluster, const Calibration& calibration, const Mesh& mesh,
                     std::vector<std::uint32_t> placement, std::optional<CollectiveAlgorithm> algorithm)
    : mesh_(mesh),
      placement_(std::move(placement)),
      override_(algorithm),
      ranks_on_node_(ranks_per_node(cluster, mesh, placement_)),
      devices_(devices_with(cluster, calibration, ranks_on_node_)) {
  ORRERY_ASSERT(placement_.empty() || placement_.size() == mesh.size(), placement_.size(), mesh.size());
  ORRERY_ASSERT(!placement_.empty() || mesh.size() <= cluster.devices(), mesh.size(), cluster.devices());
  const std::uint32_t cores = cores_of(cluster, calibration);
  if (cores > 0 && ranks_on_node_ > cores) sharing_ = CoreSharing{cores, ranks_on_node_};
  lay_axes();
}

CostModel::CostModel(const CostModel& other, const Mesh& mesh)
    : mesh_(mesh),
      override_(other.override_),
      ranks_on_node_(other.ranks_on_node_),
      devices_(other.devices_),
      sharing_(other.sharing_) {
  ORRERY_ASSERT(other.placement_.empty() && mesh.size() == other.mesh_.size(), mesh.size(), other.mesh_.size());
  lay_axes();
}

void CostModel::lay_axes() {
  const ClusterSpec& cluster = devices_->cluster;
  aligned_ = placement_.empty() && is_aligned(mesh_, cluster);
  AxisList present;
  for (std::size_t a = 0; a < axis_count; ++a) {
    const auto axis = static_cast<Axis>(a);
    if (mesh_.size(axis) <= 1) continue;
    axis_bit_[a] = static_cast<std::uint16_t>(1U << present.count);
    present.axis[present.count++] = axis;
  }
  axis_shapes_.resize(std::size_t{1} << present.count);
  for (std::size_t set = 0; set < axis_shapes_.size(); ++set) {
    AxisList axes;
    for (std::uint8_t i = 0; i < present.count; ++i) {
      if ((set >> i & 1U) != 0) axes.axis[axes.count++] = present.axis[i];
    }
    axis_shapes_[set] = aligned_ ? std::vector{aligned_shape(axes, mesh_, cluster)}
                                 : group_shapes(Group{axes, {}}, mesh_, placement_, cluster);
  }
}

Seconds CostModel::compute(const Program& program, const Block& block, const Op& op, Derivation* why,
                           std::uint32_t kind) const {
  const auto* compute = std::get_if<Compute>(&op.action);
  ORRERY_ASSERT(compute != nullptr);
  const auto touched = Bytes::of(static_cast<double>(touched_bytes(program, block, op)));
  if (op.lane.kind == LaneKind::host) {
    const Bandwidth rate = host_rate(kind);
    if (why != nullptr) {
      why->given("bytes", touched, NumberSource::program, "read and written by the host");
      why->given("rate of the host", rate, NumberSource::cluster, "host_bandwidth, a rank's share");
      why->made(NumberBy::quotient, 2, "host memory", touched / rate);
    }
    return touched / rate;
  }
  return kernel(block.kernels[compute->kernel], touched, why, kind);
}

Seconds CostModel::kernel(const Kernel& k, Bytes touched, Derivation* why, std::uint32_t kind) const {
  if (kind == any_kind && kinds() > 1) {
    kind = 0;
    for (std::uint32_t other = 1; other < kinds(); ++other) {
      if (devices_->kernels[other].kernel(k, touched) < devices_->kernels[kind].kernel(k, touched)) kind = other;
    }
  }
  return devices_->kernels[kind == any_kind ? 0 : kind].kernel(k, touched, why);
}

/// The slowest of those groups among `shapes` that keep pace with ranks of `kind`, which `pace` joins.
Seconds CostModel::slowest(Collective::Kind kind, Bytes payload, const std::vector<GroupShape>& shapes,
                           std::uint32_t of, const std::vector<GroupShape>& pace, Derivation* why) const {
  if (of == any_kind && kinds() > 1) {  // the fastest pace that there may be
    std::optional<Seconds> least;
    for (std::uint32_t k = 0; k < kinds(); ++k) {
      const NodeKinds joined = joined_with(k, pace);
      Seconds worst;
      bool has = false;
      for (GroupShape shape : shapes) {
        if ((shape.kinds & joined) == 0) continue;
        shape.kinds = 0;
        worst = std::max(worst, devices_->collectives.choose(kind, payload, shape, override_).time);
        has = true;
      }
      if (has && (!least || worst < *least)) least = worst;
    }
    return least.value_or(Seconds{});
  }
  const NodeKinds joined = kinds() > 1 ? joined_with(of, pace) : NodeKinds{0};
  Seconds worst;
  std::size_t counted = 0;
  for (const GroupShape& shape : shapes) {
    if (joined != 0 && (shape.kinds & joined) == 0) continue;
    worst = std::max(worst, devices_->collectives.choose(kind, payload, shape, override_, why).time);
    ++counted;
  }
  if (why != nullptr && counted > 1) why->made(NumberBy::largest, counted, "slowest group", worst);
  if (why != nullptr && counted == 0) why->given("no rank of such a node", Seconds{}, NumberSource::placement);
  return worst;
}

Seconds CostModel::collective(const Program& program, const Block& block, const Op& op, Derivation* why,
                              std::uint32_t kind) const {
  const auto* c = std::get_if<Collective>(&op.action);
  ORRERY_ASSERT(c != nullptr);
  const auto payload = Bytes::of(sent_share(op) * static_cast<double>(payload_bytes(program, block, op)));
  return collective(c->kind, payload, program[c->group], c->width, why, kind);
}

double CostModel::sent_share(const Op& op) const {
  const auto* c = std::get_if<Collective>(&op.action);
  const bool gathers =
      c != nullptr && c->kind == Collective::Kind::all_gather && op.lane.kind == LaneKind::collective &&
      (op.lane.index == gather_lane || op.lane.index == all_lane || op.lane.index == index(Axis::data));
  return gathers ? weights_gather() : 1.0;
}

Seconds CostModel::collective(Collective::Kind of, Bytes payload, const Group& group, std::uint32_t width,
                              Derivation* why, std::uint32_t kind) const {
  if (width == 0) return collective(of, payload, group, kind, {}, why);
  // In a permute each narrow ring is a group of its own, but all rings of a group keep pace.
  const std::vector<GroupShape> pace = kinds() > 1 ? shapes_of(group) : std::vector<GroupShape>{};
  Seconds worst;
  std::size_t rings = 0;
  for (std::uint32_t first = 0; first < group_size(group, mesh_); first += width) {
    Group ring{group.axes, {}};
    for (std::uint32_t i = first; i < first + width; ++i) {
      ring.members.push_back(group.members.empty() ? i : group.members[i]);
    }
    worst = std::max(worst, collective(of, payload, ring, kind, pace, why));
    ++rings;
  }
  if (why != nullptr && rings > 1) why->made(NumberBy::largest, rings, "slowest ring", worst);
  return worst;
}

std::vector<GroupShape> CostModel::shapes_of(const Group& group) const {
  return group.members.empty() ? axis_shapes_[axis_set(group.axes, axis_bit_)]
                               : group_shapes(group, mesh_, placement_, devices_->cluster);
}

Seconds CostModel::collective(Collective::Kind kind, Bytes payload, const Group& group, Derivation* why) const {
  return collective(kind, payload, group, any_kind, {}, why);
}

Seconds CostModel::collective(Collective::Kind kind, Bytes payload, const Group& group, std::uint32_t of,
                              const std::vector<GroupShape>& pace, Derivation* why) const {
  const double factor = collective_factor(group.axes);
  if (why != nullptr) {
    const bool tensor = group.axes.count == 1 && group.axes.axis[0] == Axis::tensor;
    why->given("factor of the program", factor, tensor ? NumberSource::software : NumberSource::formula,
               tensor ? "tensor" : "1 but on the tensor axis");
  }
  const auto priced = [&](const std::vector<GroupShape>& shapes) {
    return slowest(kind, payload, shapes, of, pace.empty() ? shapes : pace, why);
  };
  const Seconds time =
      factor * (group.members.empty() ? priced(axis_shapes_[axis_set(group.axes, axis_bit_)])
                                      : priced(group_shapes(group, mesh_, placement_, devices_->cluster)));
  if (why != nullptr) why->made(NumberBy::product, 2, std::string(name_of(kind)), time);
  return time;
}

Seconds CostModel::exchange(Bytes payload, const Group& group, const TokenChoices& t, std::uint32_t kind,
                            Derivation* why) const {
  if (kinds() > 1) return collective(Collective::Kind::all_to_all, payload, group, 0, why, kind);
  const std::vector<GroupShape> shapes = shapes_of(group);
  Seconds worst;
  for (const GroupShape& shape : shapes) {
    worst = std::max(worst, devices_->collectives.exchange(payload, shape, t, override_, why));
  }
  if (why != nullptr && shapes.size() > 1) why->made(NumberBy::largest, shapes.size(), "slowest group", worst);
  return worst;
}

Seconds CostModel::exchange(Bytes payload, const GroupShape& shape, const TokenChoices& t) const {
  return devices_->collectives.exchange(payload, shape, t, override_);
}

CollectiveCost::Choice CostModel::choice(Collective::Kind kind, Bytes payload, const GroupShape& shape) const {
  return devices_->collectives.choose(kind, payload, shape, override_);
}

std::uint32_t CostModel::device_of(Rank rank) const {
  return placement_.empty() ? index(rank) : placement_[index(rank)];
}

Seconds CostModel::transfer(Bytes bytes, Rank from, Rank to) const {
  const auto kinds_of = [&](Rank r) { return kinds() > 1 ? static_cast<NodeKinds>(1U << kind_of(r)) : NodeKinds{0}; };
  return devices_->collectives.message(bytes, level_between(device_of(from), device_of(to), devices_->cluster),
                                       kinds_of(from) | kinds_of(to));
}

/// Calls `look(a, b)` for each pair, until one call returns that it has seen enough.
template <class Look>
void CostModel::for_each_pair(const AxisList& axes, Rank from, Rank to, const Look& look) const {
  // Counts through the coordinates on all other axes, both ranks starting from 0 there.
  struct Digit {
    std::uint32_t stride;
    std::uint32_t size;
    std::uint32_t at;
  };
  std::vector<Digit> digits;
  std::uint32_t a = index(from);
  std::uint32_t b = index(to);
  for (const MeshAxis& m : mesh_.axes) {
    if (m.size == 1 || std::find(axes.begin(), axes.end(), m.axis) != axes.end()) continue;
    const auto stride = static_cast<std::uint32_t>(mesh_.stride(m.axis));
    a -= mesh_.coordinate(Rank{a}, m.axis) * stride;
    b -= mesh_.coordinate(Rank{b}, m.axis) * stride;
    digits.push_back({stride, m.size, 0});
  }
  for (;;) {
    if (look(Rank{a}, Rank{b})) return;
    std::size_t d = 0;
    for (; d < digits.size() && ++digits[d].at == digits[d].size; ++d) {
      digits[d].at = 0;
      a -= digits[d].stride * (digits[d].size - 1);
      b -= digits[d].stride * (digits[d].size - 1);
    }
    if (d == digits.size()) return;
    a += digits[d].stride;
    b += digits[d].stride;
  }
}

std::uint32_t CostModel::pair_levels(const AxisList& axes, Rank from, Rank to) const {
  const auto level_of = [&](Rank a, Rank b) {
    return std::uint32_t{1} << level_between(device_of(a), device_of(b), devices_->cluster);
  };
  if (aligned_ && axes.count == 1) return level_of(from, to);
  const std::uint32_t all = (std::uint32_t{1} << devices_->cluster.levels.size()) - 1;
  std::uint32_t levels = 0;
  for_each_pair(axes, from, to, [&](Rank a, Rank b) { return (levels |= level_of(a, b)) == all; });
  return levels;
}

std::vector<PairWay> CostModel::pair_ways(const AxisList& axes, Rank from, Rank to) const {
  std::vector<PairWay> out;
  for_each_pair(axes, from, to, [&](Rank a, Rank b) {
    PairWay way{level_between(device_of(a), device_of(b), devices_->cluster), 0};
    if (kinds() > 1) way.kinds = static_cast<NodeKinds>(1U << kind_of(a) | 1U << kind_of(b));
    if (std::find(out.begin(), out.end(), way) == out.end()) out.push_back(way);
    return false;
  });
  return out;
}

Seconds CostModel::transfer(Bytes bytes, const std::vector<PairWay>& ways, Derivation* why) const {
  Seconds slowest;
  for (const PairWay& way : ways) {
    slowest = std::max(slowest, devices_->collectives.message(bytes, way.level, way.kinds, why));
  }
  if (why != nullptr && ways.size() > 1) why->made(NumberBy::largest, ways.size(), "slowest way", slowest);
  return slowest;
}

Seconds CostModel::transfer(Bytes bytes, std::uint32_t levels, Derivation* why) const {
  Seconds slowest;
  std::size_t crossed = 0;
  for (std::size_t l = 0; l < devices_->cluster.levels.size(); ++l) {
    if ((levels >> l & 1U) == 0) continue;
    slowest = std::max(slowest, devices_->collectives.message(bytes, l, 0, why));
    ++crossed;
  }
  if (why != nullptr && crossed > 1) why->made(NumberBy::largest, crossed, "slowest way", slowest);
  return slowest;
}

Seconds CostModel::transfer(const Program& program, const Block& block, const Op& op, const Transfer& t,
                            Rank rank) const {
  const View& view = block.views[op.views.first + t.view];
  const auto bytes = Bytes::of(static_cast<double>(view.count * size_of(program[view.buffer].dtype)));
  const Rank peer = group_ranks(program[t.group], mesh_, rank)[index(t.peer)];
  return transfer(bytes, rank, peer);
}

Seconds CostModel::copy(const Program& program, const Block& block, const Op& op, Derivation* why,
                        std::uint32_t kind) const {
  Bytes bytes;
  for (std::uint32_t i = 1; i < op.views.count; i += 2) {
    const View& view = block.views[op.views.first + i];
    bytes += Bytes::of(static_cast<double>(view.count * size_of(program[view.buffer].dtype)));
  }
  const auto* c = std::get_if<Copy>(&op.action);
  ORRERY_ASSERT(c != nullptr);
  const bool disk = c->from == Tier::disk || c->to == Tier::disk;
  const Seconds latency = disk && devices_->cluster.disk ? devices_->cluster.disk->latency : Seconds();
  const Bandwidth rate = tier_rate(c->from, c->to, kind);
  if (why != nullptr) {
    const NumberSource source = disk && devices_->disk_measured ? NumberSource::calibration : NumberSource::cluster;
    why->given("latency", latency, source, disk ? "disk.latency" : "none without a disk");
    why->given("bytes", bytes, NumberSource::program);
    why->given("rate", rate, source,
               disk ? "disk.read or disk.write, a rank's share"
                    : "least of host_link, host_bandwidth (a rank's share) and the calibration's host_bandwidth");
    why->made(NumberBy::quotient, 2, "moving", bytes / rate);
    why->made(NumberBy::sum, 2, "copy", latency + bytes / rate);
  }
  return latency + bytes / rate;
}

Bandwidth CostModel::host_rate(std::uint32_t kind) const {
  if (devices_->cluster.host_bandwidth) return (1.0 / ranks_on_node_) * *devices_->cluster.host_bandwidth;
  // A host without memory of its own works in the device's memory.
  if (kind != any_kind) return orrery::device_of(devices_->cluster, kind).memory_bandwidth;
  Bandwidth most;
  for (std::uint32_t k = 0; k < kinds(); ++k) most = std::max(most, host_rate(k));
  return most;
}

Bandwidth CostModel::tier_rate(Tier from, Tier to, std::uint32_t kind) const {
  if (kind == any_kind) {
    Bandwidth most;
    for (std::uint32_t k = 0; k < kinds(); ++k) most = std::max(most, tier_rate(from, to, k));
    return most;
  }
  if (from == Tier::disk || to == Tier::disk) {
    // A file that states no disk gets one as fast as memory.
    if (!devices_->cluster.disk) return 0.5 * host_rate(kind);
    return (1.0 / ranks_on_node_) * (from == Tier::disk ? devices_->cluster.disk->read : devices_->cluster.disk->write);
  }
  // The rate is the least of what was measured, what the link's datasheet states, and what the node's ranks leave each
  // other of the host's memory.
  std::optional<Bandwidth> rate = devices_->host_bandwidth[kind];
  const auto at_most = [&](std::optional<Bandwidth> other) {
    if (other && (!rate || *other < *rate)) rate = other;
  };
  at_most(devices_->cluster.host_link);
  if (devices_->cluster.host_bandwidth) at_most(host_rate(kind));
  // Without a host link the tiers share the device's memory: each byte is read once and written once.
  return rate.value_or(0.5 * orrery::device_of(devices_->cluster, kind).memory_bandwidth);
}

Picoseconds CostModel::price(const Program& program, const Block& block, const Op& op, Rank rank) const {
  struct Pricer {
    const CostModel& costs;
    const Program& program;
    const Block& block;
    const Op& op;
    Rank rank;
    std::uint32_t kind;
    Seconds operator()(const Compute&) const { return costs.compute(program, block, op, nullptr, kind); }
    Seconds operator()(const Collective&) const { return costs.collective(program, block, op, nullptr, kind); }
    Seconds operator()(const Exchange& exchange) const {
      Seconds slowest;
      for (std::uint32_t i = 0; i < exchange.transfers.count; ++i) {
        const Transfer& t = block.transfers[exchange.transfers.first + i];
        slowest = std::max(slowest, costs.transfer(program, block, op, t, rank));
      }
      return slowest;
    }
    Seconds operator()(const Copy&) const { return costs.copy(program, block, op, nullptr, kind); }
    Seconds operator()(const Alloc&) const { return {}; }
    Seconds operator()(const Free&) const { return {}; }
  };
  return picoseconds(std::visit(Pricer{*this, program, block, op, rank, kind_of(rank)}, op.action));
}

std::string pace_of_kinds(const CostModel& costs) {
  return "nodes of " + std::to_string(costs.kinds()) +
         " kinds: a rank computes at its own device's pace, a collective or a message goes at the slowest member's";
}

std::string communication_beside_compute(const CostModel& costs) {
  if (costs.overlap_loss() <= 0.0) return "communication does not slow down compute";
  return fmt::format("compute loses {:.2f} s in each second of collectives of gradients and parameters beside it",
                     costs.overlap_loss());
}

}  // namespace orrery
