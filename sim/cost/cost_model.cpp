#include "sim/cost/cost_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"

namespace orrery {

Picoseconds picoseconds(Seconds s) {
  const double ps = s.base() * 1e12;
  ORRERY_ASSERT(ps >= 0, s.base());
  // Blocks add up many ops: below 2^63 ps by a factor that leaves room for their sum.
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

/// Bits of the axes of more than one coordinate, in the order of the axes.
std::size_t axis_set(const AxisList& axes, const std::array<std::uint16_t, axis_count>& bit) {
  std::size_t set = 0;
  for (const Axis a : axes) set |= bit[index(a)];
  return set;
}

}  // namespace

CostModel::CostModel(const ClusterSpec& cluster, const Calibration& calibration, const Mesh& mesh,
                     std::vector<std::uint32_t> placement, std::optional<CollectiveAlgorithm> algorithm)
    : cluster_(cluster),
      mesh_(mesh),
      placement_(std::move(placement)),
      override_(algorithm),
      ranks_on_node_(ranks_per_node(cluster, mesh, placement_)),
      kernel_cost_(cluster.device, calibration, cores_of(cluster, calibration) > 1 && ranks_on_node_ > 1),
      collective_cost_(cluster, calibration,
                       cores_of(cluster, calibration) > 0 && ranks_on_node_ > cores_of(cluster, calibration)),
      host_bandwidth_(calibration.host_bandwidth),
      overlap_loss_(calibration.software[SoftwareCost::overlap]),
      tensor_factor_(calibration.software[SoftwareCost::tensor]) {
  ORRERY_ASSERT(placement_.empty() || placement_.size() == mesh.size(), placement_.size(), mesh.size());
  ORRERY_ASSERT(!placement_.empty() || mesh.size() <= cluster.devices(), mesh.size(), cluster.devices());
  const std::uint32_t cores = cores_of(cluster, calibration);
  if (cores > 0 && ranks_on_node_ > cores) sharing_ = CoreSharing{cores, ranks_on_node_};
  aligned_ = placement_.empty() && is_aligned(mesh_, cluster_);
  AxisList present;
  for (std::size_t a = 0; a < axis_count; ++a) {
    const auto axis = static_cast<Axis>(a);
    if (mesh.size(axis) <= 1) continue;
    axis_bit_[a] = static_cast<std::uint16_t>(1U << present.count);
    present.axis[present.count++] = axis;
  }
  axis_shapes_.resize(std::size_t{1} << present.count);
  for (std::size_t set = 0; set < axis_shapes_.size(); ++set) {
    AxisList axes;
    for (std::uint8_t i = 0; i < present.count; ++i) {
      if ((set >> i & 1U) != 0) axes.axis[axes.count++] = present.axis[i];
    }
    axis_shapes_[set] = group_shapes(Group{axes, {}}, mesh_, placement_, cluster_);
  }
}

Seconds CostModel::compute(const Program& program, const Block& block, const Op& op, Derivation* why) const {
  const auto* compute = std::get_if<Compute>(&op.action);
  ORRERY_ASSERT(compute != nullptr);
  const auto touched = Bytes::of(static_cast<double>(touched_bytes(program, block, op)));
  if (op.lane.kind == LaneKind::host) {
    if (why != nullptr) {
      why->given("bytes", touched, NumberSource::program, "read and written by the host");
      why->given("rate of the host", host_rate(), NumberSource::cluster, "host_bandwidth, a rank's share");
      why->made(NumberBy::quotient, 2, "host memory", touched / host_rate());
    }
    return touched / host_rate();
  }
  return kernel(block.kernels[compute->kernel], touched, why);
}

Seconds CostModel::kernel(const Kernel& k, Bytes touched, Derivation* why) const {
  return kernel_cost_.kernel(k, touched, why);
}

Seconds CostModel::slowest(Collective::Kind kind, Bytes payload, const std::vector<GroupShape>& shapes,
                           Derivation* why) const {
  Seconds worst;
  for (const GroupShape& shape : shapes) {
    worst = std::max(worst, collective_cost_.choose(kind, payload, shape, override_, why).time);
  }
  if (why != nullptr && shapes.size() > 1) why->made(NumberBy::largest, shapes.size(), "slowest group", worst);
  return worst;
}

Seconds CostModel::collective(const Program& program, const Block& block, const Op& op, Derivation* why) const {
  const auto* c = std::get_if<Collective>(&op.action);
  ORRERY_ASSERT(c != nullptr);
  const auto payload = Bytes::of(static_cast<double>(payload_bytes(program, block, op)));
  const Group& group = program[c->group];
  if (c->width == 0) return collective(c->kind, payload, group, why);
  // Narrow rings of a permute: each is a group of its own.
  Seconds worst;
  std::size_t rings = 0;
  for (std::uint32_t first = 0; first < group_size(group, mesh_); first += c->width) {
    Group ring{group.axes, {}};
    for (std::uint32_t i = first; i < first + c->width; ++i) {
      ring.members.push_back(group.members.empty() ? i : group.members[i]);
    }
    worst = std::max(worst, collective(c->kind, payload, ring, why));
    ++rings;
  }
  if (why != nullptr && rings > 1) why->made(NumberBy::largest, rings, "slowest ring", worst);
  return worst;
}

Seconds CostModel::collective(Collective::Kind kind, Bytes payload, const Group& group, Derivation* why) const {
  const double factor = collective_factor(group.axes);
  if (why != nullptr) {
    const bool tensor = group.axes.count == 1 && group.axes.axis[0] == Axis::tensor;
    why->given("factor of the program", factor, tensor ? NumberSource::software : NumberSource::formula,
               tensor ? "tensor" : "1 but on the tensor axis");
  }
  const Seconds time =
      factor * (group.members.empty() ? slowest(kind, payload, axis_shapes_[axis_set(group.axes, axis_bit_)], why)
                                      : slowest(kind, payload, group_shapes(group, mesh_, placement_, cluster_), why));
  if (why != nullptr) why->made(NumberBy::product, 2, std::string(name_of(kind)), time);
  return time;
}

CollectiveCost::Choice CostModel::choice(Collective::Kind kind, Bytes payload, const GroupShape& shape) const {
  return collective_cost_.choose(kind, payload, shape, override_);
}

std::uint32_t CostModel::device_of(Rank rank) const {
  return placement_.empty() ? index(rank) : placement_[index(rank)];
}

Seconds CostModel::transfer(Bytes bytes, Rank from, Rank to) const {
  return collective_cost_.message(bytes, level_between(device_of(from), device_of(to), cluster_));
}

std::uint32_t CostModel::pair_levels(const AxisList& axes, Rank from, Rank to) const {
  const auto level_of = [&](std::uint32_t a, std::uint32_t b) {
    return std::uint32_t{1} << level_between(device_of(Rank{a}), device_of(Rank{b}), cluster_);
  };
  if (aligned_ && axes.count == 1) return level_of(index(from), index(to));
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
  const std::uint32_t all = (std::uint32_t{1} << cluster_.levels.size()) - 1;
  std::uint32_t levels = 0;
  for (;;) {
    levels |= level_of(a, b);
    if (levels == all) return levels;
    std::size_t d = 0;
    for (; d < digits.size() && ++digits[d].at == digits[d].size; ++d) {
      digits[d].at = 0;
      a -= digits[d].stride * (digits[d].size - 1);
      b -= digits[d].stride * (digits[d].size - 1);
    }
    if (d == digits.size()) return levels;
    a += digits[d].stride;
    b += digits[d].stride;
  }
}

Seconds CostModel::transfer(Bytes bytes, std::uint32_t levels, Derivation* why) const {
  Seconds slowest;
  std::size_t crossed = 0;
  for (std::size_t l = 0; l < cluster_.levels.size(); ++l) {
    if ((levels >> l & 1U) == 0) continue;
    slowest = std::max(slowest, collective_cost_.message(bytes, l, why));
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

Seconds CostModel::copy(const Program& program, const Block& block, const Op& op, Derivation* why) const {
  Bytes bytes;
  for (std::uint32_t i = 1; i < op.views.count; i += 2) {
    const View& view = block.views[op.views.first + i];
    bytes += Bytes::of(static_cast<double>(view.count * size_of(program[view.buffer].dtype)));
  }
  const auto* c = std::get_if<Copy>(&op.action);
  ORRERY_ASSERT(c != nullptr);
  const bool disk = c->from == Tier::disk || c->to == Tier::disk;
  const Seconds latency = disk && cluster_.disk ? cluster_.disk->latency : Seconds();
  const Bandwidth rate = tier_rate(c->from, c->to);
  if (why != nullptr) {
    why->given("latency", latency, NumberSource::cluster, disk ? "disk.latency" : "none without a disk");
    why->given("bytes", bytes, NumberSource::program);
    why->given("rate", rate, NumberSource::cluster,
               disk ? "disk.read or disk.write, a rank's share"
                    : "least of host_link, host_bandwidth (a rank's share) and the calibration's host_bandwidth");
    why->made(NumberBy::quotient, 2, "moving", bytes / rate);
    why->made(NumberBy::sum, 2, "copy", latency + bytes / rate);
  }
  return latency + bytes / rate;
}

Bandwidth CostModel::host_rate() const {
  // Without host memory of its own the host works in the device's.
  return cluster_.host_bandwidth ? (1.0 / ranks_on_node_) * *cluster_.host_bandwidth : cluster_.device.memory_bandwidth;
}

Bandwidth CostModel::tier_rate(Tier from, Tier to) const {
  if (from == Tier::disk || to == Tier::disk) {
    // A file without a disk is memory.
    if (!cluster_.disk) return 0.5 * host_rate();
    return (1.0 / ranks_on_node_) * (from == Tier::disk ? cluster_.disk->read : cluster_.disk->write);
  }
  // Measured, as the link's datasheet has it, and what the node's ranks leave each other of the host's memory.
  std::optional<Bandwidth> rate = host_bandwidth_;
  const auto at_most = [&](std::optional<Bandwidth> other) {
    if (other && (!rate || *other < *rate)) rate = other;
  };
  at_most(cluster_.host_link);
  if (cluster_.host_bandwidth) at_most(host_rate());
  // Without a host link the tiers share the device's memory: read once, written once.
  return rate.value_or(0.5 * cluster_.device.memory_bandwidth);
}

Picoseconds CostModel::price(const Program& program, const Block& block, const Op& op, Rank rank) const {
  struct Pricer {
    const CostModel& costs;
    const Program& program;
    const Block& block;
    const Op& op;
    Rank rank;
    Seconds operator()(const Compute&) const { return costs.compute(program, block, op); }
    Seconds operator()(const Collective&) const { return costs.collective(program, block, op); }
    Seconds operator()(const Exchange& exchange) const {
      Seconds slowest;
      for (std::uint32_t i = 0; i < exchange.transfers.count; ++i) {
        const Transfer& t = block.transfers[exchange.transfers.first + i];
        slowest = std::max(slowest, costs.transfer(program, block, op, t, rank));
      }
      return slowest;
    }
    Seconds operator()(const Copy&) const { return costs.copy(program, block, op); }
    Seconds operator()(const Alloc&) const { return {}; }
    Seconds operator()(const Free&) const { return {}; }
  };
  return picoseconds(std::visit(Pricer{*this, program, block, op, rank}, op.action));
}

std::string communication_beside_compute(const CostModel& costs) {
  if (costs.overlap_loss() <= 0.0) return "communication does not slow down compute";
  return fmt::format("compute loses {:.2f} s in each second of collectives of gradients and parameters beside it",
                     costs.overlap_loss());
}

}  // namespace orrery
