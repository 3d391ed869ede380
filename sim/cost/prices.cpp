#include "sim/cost/prices.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

Rank peer_rank(const Program& program, const Group& group, Peer peer, Rank rank) {
  std::uint64_t at = group.members.empty() ? index(peer) : group.members[index(peer)];
  for (std::size_t i = group.axes.count; i-- > 0;) {
    const Axis axis = group.axes.axis[i];
    const std::uint32_t n = program.mesh.size(axis);
    rank = program.mesh.moved(rank, axis, static_cast<std::uint32_t>(at % n));
    at /= n;
  }
  return rank;
}

void resize(Prices& prices, const Program& program) {
  prices.first_op.clear();
  prices.first_transfer.clear();
  std::uint32_t ops = 0;
  prices.transfers = 0;
  for (const Block& block : program.blocks) {
    prices.first_op.push_back(ops);
    prices.first_transfer.push_back(prices.transfers);
    ops += static_cast<std::uint32_t>(block.ops.size());
    prices.transfers += static_cast<std::uint32_t>(block.transfers.size());
  }
  prices.op.assign(ops, 0);
  prices.transfer.assign(std::size_t{prices.transfers} * program.classes.size(), 0);
}

namespace {

/// Distances of up to `most` ranks of a class from its first, spread evenly:
/// ranks of one class differ along the other axes only.
std::vector<std::uint32_t> spread_ranks(const Program& program, std::uint32_t most) {
  std::vector<MeshAxis> inside;
  std::uint64_t count = 1;
  for (const MeshAxis& a : program.mesh.axes) {
    if (std::find(program.class_axes.begin(), program.class_axes.end(), a.axis) != program.class_axes.end()) continue;
    inside.push_back(a);
    count *= a.size;
  }
  const std::uint64_t taken = std::min<std::uint64_t>(count, most);
  std::vector<std::uint32_t> distances;
  for (std::uint64_t i = 0; i < taken; ++i) {
    std::uint64_t at = taken == 1 ? 0 : i * (count - 1) / (taken - 1);
    std::uint64_t distance = 0;
    for (std::size_t a = inside.size(); a-- > 0;) {
      distance += at % inside[a].size * program.mesh.stride(inside[a].axis);
      at /= inside[a].size;
    }
    distances.push_back(static_cast<std::uint32_t>(distance));
  }
  return distances;
}

/// Longest time that is counted, over all classes: 23 days.
constexpr double most_picoseconds = 2e18;

[[noreturn]] void too_long() {
  throw Error(
      "a step of this plan takes more than 23 days of a rank's time on this cluster, too long to be counted in "
      "picoseconds");
}

Picoseconds whole(Seconds s) {
  if (!(s.base() * 1e12 < most_picoseconds)) too_long();
  return picoseconds(s);
}

/// What an op costs by itself; the messages of an Exchange are priced by class.
struct Alone {
  const CostModel& costs;
  const Program& program;
  const Block& block;
  const Op& op;
  Seconds operator()(const Compute&) const { return costs.compute(program, block, op); }
  Seconds operator()(const Collective&) const { return costs.collective(program, block, op); }
  Seconds operator()(const Copy&) const { return costs.copy(program, block, op); }
  Seconds operator()(const Exchange&) const { return {}; }
  Seconds operator()(const Alloc&) const { return {}; }
  Seconds operator()(const Free&) const { return {}; }
};

}  // namespace

void price(Prices& prices, const Program& program, const CostModel& costs) {
  resize(prices, program);
  prices.concurrent_lanes = costs.cluster().device.concurrent_lanes;
  const auto sharing = costs.core_sharing();
  prices.core_count = sharing ? sharing->cores : 0;
  prices.ranks_per_node = sharing ? sharing->ranks_per_node : 0;

  const std::vector<std::uint32_t> distances = spread_ranks(program, 16);
  std::vector<bool> priced(program.blocks.size(), false);
  std::vector<bool> sent(program.blocks.size());
  std::vector<double> ops_time(program.blocks.size(), 0.0);       // of one run
  std::vector<double> messages_time(program.blocks.size(), 0.0);  // of one run by the class at hand
  double all = 0.0;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const Rank rank = representative(program, c);
    sent.assign(program.blocks.size(), false);
    for (const Slot& slot : program.classes[c].step) {
      const std::size_t b = index(slot.block);
      const Block& block = program.blocks[b];
      if (!priced[b]) {
        priced[b] = true;
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
          const Op& op = block.ops[i];
          const Picoseconds duration = whole(std::visit(Alone{costs, program, block, op}, op.action));
          prices.op[prices.first_op[b] + i] = duration;
          ops_time[b] += static_cast<double>(duration);
        }
      }
      if (block.transfers.empty() || sent[b]) {
        all += (ops_time[b] + messages_time[b]) * slot.repeat;
        continue;
      }
      sent[b] = true;
      messages_time[b] = 0.0;
      Picoseconds* row = &prices.transfer[std::size_t{c} * prices.transfers + prices.first_transfer[b]];
      for (const Op& op : block.ops) {
        const auto* exchange = std::get_if<Exchange>(&op.action);
        if (exchange == nullptr) continue;
        for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count;
             ++t) {
          const Transfer& transfer = block.transfers[t];
          if (!transfer.send) continue;
          const View& view = block.views[op.views.first + transfer.view];
          const auto bytes = Bytes::of(static_cast<double>(view.count * size_of(program[view.buffer].dtype)));
          const Rank peer = peer_rank(program, program[transfer.group], transfer.peer, rank);
          Seconds slowest;
          for (const std::uint32_t d : distances) {
            slowest = std::max(slowest, costs.transfer(bytes, Rank{index(rank) + d}, Rank{index(peer) + d}));
          }
          row[t] = whole(slowest);
          messages_time[b] += static_cast<double>(row[t]);
        }
      }
      all += (ops_time[b] + messages_time[b]) * slot.repeat;
    }
  }
  // No instant of the step lies beyond the sum of all ops, so no sum of times overflows below this.
  if (!(all < most_picoseconds)) too_long();
}

}  // namespace orrery
