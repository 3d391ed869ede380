#include "sim/des/step_list.hpp"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <tuple>

#include "core/base/diagnostics.hpp"
#include "core/program/tail_history.hpp"
#include "core/record/operation.hpp"

namespace orrery {

namespace {

StepOp::Kind kind_of(const Op& op) {
  struct {
    StepOp::Kind operator()(const Compute&) const { return StepOp::Kind::compute; }
    StepOp::Kind operator()(const Collective&) const { return StepOp::Kind::collective; }
    StepOp::Kind operator()(const Exchange&) const { return StepOp::Kind::exchange; }
    StepOp::Kind operator()(const Copy&) const { return StepOp::Kind::copy; }
    StepOp::Kind operator()(const Alloc&) const { return StepOp::Kind::untimed; }
    StepOp::Kind operator()(const Free&) const { return StepOp::Kind::untimed; }
  } visitor;
  return std::visit(visitor, op.action);
}

/// Positions in a list are 32-bit numbers, and the largest one means "none".
void refuse_long_list(const Program& program, std::uint32_t rank_class) {
  constexpr double most = std::numeric_limits<std::uint32_t>::max() - 1U;
  // Doubles cannot wrap, and their error is far below the limit's distance to what fits in memory.
  double ops = 0;
  double waits = 0;
  double transfers = 0;
  for (const Slot& slot : program.classes[rank_class].step) {
    const Block& block = program[slot.block];
    ops += static_cast<double>(slot.repeat) * static_cast<double>(block.ops.size());
    waits += static_cast<double>(slot.repeat) * static_cast<double>(block.waits.size());
    transfers += static_cast<double>(slot.repeat) * static_cast<double>(block.transfers.size());
  }
  const auto refuse = [&](double count, const char* what) {
    if (count <= most) return;
    throw Error(
        fmt::format("rank {} has {:.0f} {} in its step, and the simulator numbers at most {:.0f}; estimate "
                    "takes such programs",
                    index(representative(program, rank_class)), count, what, most));
  };
  refuse(ops, "operations");
  refuse(waits, "waits");
  refuse(transfers, "messages");
}

StepList expand(const Program& program, const Prices& prices, std::uint32_t rank_class) {
  StepList list;
  list.lanes.resize(prices.concurrent_lanes ? lane_count : 1);
  TailHistory<std::uint32_t> tails(UINT32_MAX);
  std::vector<std::uint32_t> ordinal(program.groups.size(), 0);
  const Rank rank = representative(program, rank_class);
  std::uint32_t run = UINT32_MAX;
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& r) {
    if (r.block_run != run) {
      run = r.block_run;
      tails.enter(r.receives_ahead);
    }
    const std::uint32_t id = index(r.id);
    StepOp op;
    op.kind = kind_of(*r.op);
    if (op.kind == StepOp::Kind::untimed) {
      list.ops.push_back(op);
      return;
    }
    const auto block = BlockId{static_cast<std::uint32_t>(r.block - program.blocks.data())};
    const std::size_t lane = lane_number(r.op->lane);
    op.lane = prices.concurrent_lanes ? static_cast<std::uint8_t>(lane) : std::uint8_t{0};
    op.block = block;
    op.op_index = r.op_index;
    op.duration = prices.of_op(block, r.op_index);
    op.first_wait = static_cast<std::uint32_t>(list.waits.size());
    if (prices.concurrent_lanes) {  // else list order is enough
      for (std::uint32_t w = r.op->waits.first; w < r.op->waits.first + r.op->waits.count; ++w) {
        const Wait& wait = r.block->waits[w];
        const std::uint32_t on =
            wait.kind == Wait::Kind::tail ? tails.at_entry(lane_number(wait.lane)) : id - r.op_index + wait.op;
        if (on == UINT32_MAX || list.ops[on].kind == StepOp::Kind::untimed) continue;
        list.waits.push_back(on);
      }
    }
    op.wait_count = static_cast<std::uint32_t>(list.waits.size()) - op.first_wait;
    if (const auto* collective = std::get_if<Collective>(&r.op->action)) {
      op.group = index(collective->group);
      op.ordinal = ordinal[op.group]++;
    } else if (const auto* exchange = std::get_if<Exchange>(&r.op->action)) {
      op.first_transfer = static_cast<std::uint32_t>(list.transfers.size());
      op.transfer_count = static_cast<std::uint16_t>(exchange->transfers.count);
      for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count;
           ++t) {
        const Transfer& from = r.block->transfers[t];
        StepTransfer transfer;
        transfer.send = from.send;
        transfer.channel = from.channel;
        transfer.group = from.group;
        transfer.peer = from.peer;
        transfer.partner_class = class_of(program, peer_rank(program, program[from.group], from.peer, rank));
        if (from.send) {
          const View& view = r.block->views[r.op->views.first + from.view];
          transfer.duration = prices.of_transfer(rank_class, block, t);
          transfer.bytes = view.count * size_of(program[view.buffer].dtype);
        }
        list.transfers.push_back(transfer);
      }
    }
    list.lanes[op.lane].push_back(id);
    list.ops.push_back(op);
    tails.issued(lane, id);
  });
  return list;
}

}  // namespace

std::vector<StepList> step_lists(const Program& program, const Prices& prices) {
  std::vector<StepList> lists;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) refuse_long_list(program, c);
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) lists.push_back(expand(program, prices, c));

  // Sends wait here, by (from, to, channel), for the receives, which come in the same order.
  struct Place {
    std::uint32_t op;
    std::uint32_t transfer;
  };
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>, std::vector<Place>> sends;
  const auto visit = [&](bool send, auto&& found) {
    for (std::uint32_t c = 0; c < lists.size(); ++c) {
      for (std::uint32_t i = 0; i < lists[c].ops.size(); ++i) {
        const StepOp& op = lists[c].ops[i];
        for (std::uint32_t t = op.first_transfer; t < op.first_transfer + op.transfer_count; ++t) {
          if (lists[c].transfers[t].send == send) found(c, i, t);
        }
      }
    }
  };
  visit(true, [&](std::uint32_t c, std::uint32_t op, std::uint32_t t) {
    const StepTransfer& s = lists[c].transfers[t];
    sends[{c, s.partner_class, s.channel}].push_back({op, t});
  });
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint8_t>, std::size_t> taken;
  visit(false, [&](std::uint32_t c, std::uint32_t op, std::uint32_t t) {
    StepTransfer& receive = lists[c].transfers[t];
    const std::tuple<std::uint32_t, std::uint32_t, std::uint8_t> key{receive.partner_class, c, receive.channel};
    const auto found = sends.find(key);
    std::size_t& next = taken[key];
    if (found == sends.end() || next == found->second.size()) return;
    const Place place = found->second[next++];
    StepTransfer& send = lists[receive.partner_class].transfers[place.transfer];
    receive.partner_op = place.op;
    receive.duration = send.duration;
    receive.bytes = send.bytes;
    send.partner_op = op;
  });
  return lists;
}

}  // namespace orrery
