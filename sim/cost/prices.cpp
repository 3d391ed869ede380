#include "sim/cost/prices.hpp"

#include <algorithm>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/program/kernel_table.hpp"

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

void resize(Prices& prices, const Program& program, std::uint32_t kinds) {
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
  prices.blocks.clear();
  prices.runs.clear();
  prices.first_block.assign(1, 0);
  std::vector<std::uint64_t> runs(program.blocks.size(), 0);  // of the class at hand
  for (const RankClass& ranks : program.classes) {
    for (const Slot& slot : ranks.step) {
      std::uint64_t& count = runs[index(slot.block)];
      if (count == 0) prices.blocks.push_back(slot.block);
      count += slot.repeat;
    }
    for (std::size_t at = prices.first_block.back(); at < prices.blocks.size(); ++at) {
      prices.runs.push_back(std::exchange(runs[index(prices.blocks[at])], 0));
    }
    prices.first_block.push_back(static_cast<std::uint32_t>(prices.blocks.size()));
  }
  prices.kinds = kinds;
  prices.kind_of_rank.clear();
  prices.ops = ops;
  prices.op.assign(std::size_t{kinds} * ops, 0);
  prices.transfer.assign(std::size_t{prices.transfers} * program.classes.size(), 0);
}

void take_fastest(Prices& prices) {
  for (std::uint32_t k = 1; k < prices.kinds; ++k) {
    for (std::uint32_t i = 0; i < prices.ops; ++i) {
      prices.op[i] = std::min(prices.op[i], prices.op[std::size_t{k} * prices.ops + i]);
    }
  }
  prices.op.resize(prices.ops);
  prices.kinds = 1;
  prices.kind_of_rank.clear();
}

namespace {

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

/// Remembers times of collectives of one Program that were asked for before: blocks of many stages, and the steps of a
/// ring, send as much to as many.
class KnownCollectives {
 public:
  KnownCollectives(const CostModel& costs, const Program& program) : costs_(costs), program_(program) {}

  Seconds time(const Block& block, const Op& op, const Collective& c, std::uint32_t kind, const TokenChoices& choices) {
    const double sent = costs_.sent_share(op) * static_cast<double>(payload_bytes(program_, block, op));
    const Asked asked{c.kind, c.group, c.width, kind, sent};
    const auto known =
        std::find_if(times_.begin(), times_.end(), [&](const auto& answer) { return answer.first == asked; });
    if (known != times_.end()) return known->second;
    const Bytes payload = Bytes::of(sent);
    const Seconds time = exchanges_tokens(program_, c)
                             ? costs_.exchange(payload, program_[c.group], choices, kind)
                             : costs_.collective(c.kind, payload, program_[c.group], c.width, nullptr, kind);
    times_.emplace_back(asked, time);
    return time;
  }

 private:
  struct Asked {
    Collective::Kind collective;
    GroupId group;
    std::uint32_t width;
    std::uint32_t kind;  ///< of nodes
    double payload;      ///< bytes
    friend bool operator==(const Asked&, const Asked&) = default;
  };
  const CostModel& costs_;
  const Program& program_;
  std::vector<std::pair<Asked, Seconds>> times_;
};

/// The cost of an op by itself; the messages of an Exchange are priced by class.
struct Alone {
  const CostModel& costs;
  const Program& program;
  const Block& block;
  const Op& op;
  std::uint32_t kind = 0;
  Derivation* why = nullptr;
  KnownCollectives* known = nullptr;  ///< where nobody asks why
  TokenChoices choices = {};
  Seconds operator()(const Compute&) const { return costs.compute(program, block, op, why, kind); }
  Seconds operator()(const Collective& c) const {
    if (known != nullptr) return known->time(block, op, c, kind, choices);
    if (!exchanges_tokens(program, c)) return costs.collective(program, block, op, why, kind);
    const auto payload = Bytes::of(static_cast<double>(payload_bytes(program, block, op)));
    return costs.exchange(payload, program[c.group], choices, kind, why);
  }
  Seconds operator()(const Copy&) const { return costs.copy(program, block, op, why, kind); }
  Seconds operator()(const Exchange&) const { return {}; }
  Seconds operator()(const Alloc&) const { return {}; }
  Seconds operator()(const Free&) const { return {}; }
};

/// Whether the op moves parameters or gradients beside the computation of other layers.
bool runs_beside(const Op& op) {
  if (op.lane.kind != LaneKind::collective) return false;
  return op.lane.index == gather_lane || op.lane.index == all_lane || op.lane.index == index(Axis::data) ||
         op.lane.index == index(Axis::replica);
}

/// The cost of each op of a block by itself, for ranks on nodes of one kind.
void alone_times(std::vector<Seconds>& alone, const Program& program, const Block& block, const CostModel& costs,
                 std::uint32_t kind, KnownCollectives& known, const TokenChoices& choices) {
  alone.clear();
  for (const Op& op : block.ops) {
    alone.push_back(std::visit(Alone{costs, program, block, op, kind, nullptr, &known, choices}, op.action));
  }
}

/// T' = T + k min(C, T): the time of a block's compute, T, with collectives of C seconds beside it. k is the share of
/// the device's multiprocessors and memory that NCCL takes while it runs. It comes from fits, so it stands with the
/// costs of software.
double compute_stretch(double loss, const Block& block, const std::vector<Seconds>& alone, Derivation* why = nullptr) {
  if (loss <= 0.0) return 1.0;
  double compute = 0.0;
  double beside = 0.0;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    if (runs_beside(block.ops[i])) {
      beside += alone[i].base();
    } else if (block.ops[i].lane.kind == LaneKind::compute) {
      compute += alone[i].base();
    }
  }
  const double stretch = compute > 0.0 ? 1.0 + loss * std::min(beside, compute) / compute : 1.0;
  if (why != nullptr && stretch > 1.0) {
    why->given("alone", 1.0, NumberSource::formula);
    why->given("time lost in each second", loss, NumberSource::software, "overlap");
    why->given("share of the block's compute with collectives beside it", std::min(beside, compute) / compute,
               NumberSource::formula, "block " + block.name);
    why->made(NumberBy::product, 2, "lost", stretch - 1.0);
    why->made(NumberBy::sum, 2, "collectives beside it", stretch);
  }
  return stretch;
}

/// Kernels and collectives that the host launches one by one for a block. An update of all parameters is a few launches
/// however many tensors there are, and is not counted.
double launches_of(const Block& block) {
  double count = 0.0;
  for (const Op& op : block.ops) {
    if (const auto* compute = std::get_if<Compute>(&op.action)) {
      const KernelKind kind = block.kernels[compute->kernel].kind;
      if (op.lane.kind != LaneKind::compute || row_of(kind).traits.parameters || kind == KernelKind::fill) continue;
      count += kind == KernelKind::attention_unfused_forward    ? 4.0
               : kind == KernelKind::attention_unfused_backward ? 6.0
                                                                : 1.0;
    } else if (std::holds_alternative<Collective>(op.action) || std::holds_alternative<Exchange>(op.action)) {
      count += 1.0;
    }
  }
  return count;
}

/// Factor of a block's compute where the host is slower than the device:
///
///     f = max(1, (n h - W) / C)
///
///     n  launches of the block    h  seconds of the host for each    C  its compute
///     W  its collectives that compute waits for, in which the host goes on
///
/// The host runs ahead of the device within a block, so only sums count. Source: derived. Leaves out: how far it is
/// ahead when the block begins, and synchronisations in its middle.
double host_stretch(double launch, const Block& block, const std::vector<Seconds>& alone, double stretch,
                    Derivation* why = nullptr) {
  if (launch <= 0.0) return 1.0;
  double compute = 0.0, waits = 0.0;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    if (block.ops[i].lane.kind == LaneKind::compute) {
      compute += stretch * alone[i].base();
    } else if (std::holds_alternative<Collective>(block.ops[i].action) && !runs_beside(block.ops[i])) {
      waits += alone[i].base();
    }
  }
  const double count = launches_of(block);
  if (compute <= 0.0 || count * launch - waits <= compute) return 1.0;
  const double factor = (count * launch - waits) / compute;
  if (why != nullptr) {
    why->given("launches of the block", count, NumberSource::program, "block " + block.name);
    why->given("host for each", Seconds::of(launch), NumberSource::software, "host_launch");
    why->made(NumberBy::product, 2, "the host's time", Seconds::of(count * launch));
    why->given("less collectives that are waited for", Seconds::of(-waits), NumberSource::formula);
    why->made(NumberBy::sum, 2, "left for compute", Seconds::of(count * launch - waits));
    why->given("the block's compute", Seconds::of(compute), NumberSource::formula);
    why->made(NumberBy::quotient, 2, "bound by the host", factor);
  }
  return factor;
}

/// Bytes of a message.
Bytes bytes_of(const Program& program, const Block& block, const Op& op, const Transfer& transfer) {
  const View& view = block.views[op.views.first + transfer.view];
  return Bytes::of(static_cast<double>(view.count * size_of(program[view.buffer].dtype)));
}

}  // namespace

void price(Prices& prices, const Program& program, const CostModel& costs) {
  resize(prices, program, costs.kinds());
  for (std::uint32_t r = 0; costs.kinds() > 1 && r < program.mesh.size(); ++r) {
    prices.kind_of_rank.push_back(static_cast<std::uint8_t>(costs.kind_of(Rank{r})));
  }
  prices.concurrent_lanes = costs.cluster().device.concurrent_lanes;
  const auto sharing = costs.core_sharing();
  prices.core_count = sharing ? sharing->cores : 0;
  prices.ranks_per_node = sharing ? sharing->ranks_per_node : 0;

  // The levels over which the pairs of ranks of two classes talk, for the current class; there are few per class.
  struct Way {
    GroupId group;
    Peer peer;
    std::uint32_t levels = 0;
    std::vector<PairWay> pairs = {};  // in place of `levels` where nodes are of several kinds
  };
  std::vector<Way> ways;
  const auto way_of = [&](const Transfer& t, Rank rank) -> const Way& {
    for (const Way& w : ways) {
      if (w.group == t.group && w.peer == t.peer) return w;
    }
    const Rank peer = peer_rank(program, program[t.group], t.peer, rank);
    Way& w = ways.emplace_back(Way{t.group, t.peer});
    if (costs.kinds() > 1) {
      w.pairs = costs.pair_ways(program.class_axes, rank, peer);
    } else {
      w.levels = costs.pair_levels(program.class_axes, rank, peer);
    }
    return w;
  };
  std::vector<bool> priced(program.blocks.size(), false);
  KnownCollectives known(costs, program);
  const TokenChoices choices = token_choices(program);
  std::vector<Seconds> alone;                                // of the block at hand
  std::vector<double> ops_time(program.blocks.size(), 0.0);  // of one run
  double all = 0.0;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const Rank rank = representative(program, c);
    ways.clear();
    for (std::uint32_t at = prices.first_block[c]; at < prices.first_block[c + 1]; ++at) {
      const std::size_t b = index(prices.blocks[at]);
      const Block& block = program.blocks[b];
      if (!priced[b]) {
        priced[b] = true;
        for (std::uint32_t kind = 0; kind < prices.kinds; ++kind) {
          alone_times(alone, program, block, costs, kind, known, choices);
          double stretch = compute_stretch(costs.overlap_loss(), block, alone);
          stretch *= host_stretch(costs.host_launch(), block, alone, stretch);
          double sum = 0.0;
          for (std::size_t i = 0; i < block.ops.size(); ++i) {
            const bool slowed = stretch > 1.0 && block.ops[i].lane.kind == LaneKind::compute;
            const Picoseconds duration = whole(slowed ? stretch * alone[i] : alone[i]);
            prices.op[std::size_t{kind} * prices.ops + prices.first_op[b] + i] = duration;
            sum += static_cast<double>(duration);
          }
          ops_time[b] = std::max(ops_time[b], sum);
        }
      }
      double messages = 0.0;
      if (!block.transfers.empty()) {
        Picoseconds* row = &prices.transfer[std::size_t{c} * prices.transfers + prices.first_transfer[b]];
        for (const Op& op : block.ops) {
          const auto* exchange = std::get_if<Exchange>(&op.action);
          if (exchange == nullptr) continue;
          for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count;
               ++t) {
            const Transfer& transfer = block.transfers[t];
            if (!transfer.send) continue;
            const Bytes bytes = bytes_of(program, block, op, transfer);
            const Way& way = way_of(transfer, rank);
            row[t] = whole(way.pairs.empty() ? costs.transfer(bytes, way.levels) : costs.transfer(bytes, way.pairs));
            messages += static_cast<double>(row[t]);
          }
        }
      }
      all += (ops_time[b] + messages) * static_cast<double>(prices.runs[at]);
    }
  }
  // No instant of the step lies beyond the sum of all ops, so below this limit no sum of times overflows.
  if (!(all < most_picoseconds)) too_long();
}

DerivedNumber derive(const Program& program, const CostModel& costs, std::uint32_t rank_class, BlockId id,
                     std::uint32_t at) {
  const Block& block = program[id];
  const Op& op = block.ops[at];
  Derivation why;
  if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
    const Rank rank = representative(program, rank_class);
    Seconds slowest;
    for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count; ++t) {
      const Transfer& transfer = block.transfers[t];
      if (!transfer.send) continue;
      const Rank peer = peer_rank(program, program[transfer.group], transfer.peer, rank);
      const Bytes bytes = bytes_of(program, block, op, transfer);
      slowest = std::max(slowest, costs.kinds() > 1
                                      ? costs.transfer(bytes, costs.pair_ways(program.class_axes, rank, peer), &why)
                                      : costs.transfer(bytes, costs.pair_levels(program.class_axes, rank, peer), &why));
    }
    if (why.size() == 0) why.given("receives", Seconds{}, NumberSource::formula, "the sender has the price");
    if (why.size() > 1) why.made(NumberBy::largest, why.size(), "exchange", slowest);
    return why.take();
  }
  const std::uint32_t kind = costs.kind_of(representative(program, rank_class));
  const TokenChoices choices = token_choices(program);
  const Seconds alone = std::visit(Alone{costs, program, block, op, kind, &why, nullptr, choices}, op.action);
  if (why.size() == 0) why.given("takes no time", Seconds{}, NumberSource::formula);
  if (op.lane.kind == LaneKind::compute && (costs.overlap_loss() > 0.0 || costs.host_launch() > 0.0)) {
    std::vector<Seconds> times;
    KnownCollectives known(costs, program);
    alone_times(times, program, block, costs, kind, known, choices);
    const double stretch = compute_stretch(costs.overlap_loss(), block, times, &why);
    if (stretch > 1.0) why.made(NumberBy::product, 2, "with collectives beside it", stretch * alone);
    const double host = host_stretch(costs.host_launch(), block, times, stretch, &why);
    if (host > 1.0) why.made(NumberBy::product, 2, "as the host launches it", host * stretch * alone);
  }
  return why.take();
}

}  // namespace orrery
