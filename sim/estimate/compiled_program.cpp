#include "sim/estimate/compiled_program.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/record/traffic.hpp"

namespace orrery {

namespace {

bool is_class_axis(const Program& program, Axis axis) {
  return std::find(program.class_axes.begin(), program.class_axes.end(), axis) != program.class_axes.end();
}

}  // namespace

void CompiledProgram::compile_groups() {
  group_local.assign(program->groups.size(), true);
  for (std::size_t g = 0; g < program->groups.size(); ++g) {
    for (const Axis a : program->groups[g].axes) {
      if (is_class_axis(*program, a) && program->mesh.size(a) > 1) group_local[g] = false;
    }
  }
  group_classes.resize(program->groups.size() * program->classes.size());
  for (auto& list : group_classes) list.clear();
}

void CompiledProgram::compile_meetings(std::uint32_t g) {
  const std::size_t classes = program->classes.size();
  if (!group_classes[g * classes].empty() || !group_classes[g * classes + classes - 1].empty()) return;
  const Group& group = program->groups[g];
  // A whole group meets every class along its class axes; its other axes stay inside a class.
  Group part = group;
  if (group.members.empty()) {
    part.axes = {};
    for (const Axis a : group.axes) {
      if (is_class_axis(*program, a)) part.axes.axis[part.axes.count++] = a;
    }
  }
  const bool meets_all = group.members.empty() && part.axes.count == program->class_axes.count;
  const std::uint32_t members = group_size(part, program->mesh);
  for (std::uint32_t c = 0; c < classes; ++c) {
    auto& list = group_classes[g * classes + c];
    if (meets_all) {
      for (std::uint32_t other = 0; other < classes; ++other) list.push_back(other);
      continue;
    }
    const Rank rank = representative(*program, c);
    for (std::uint32_t i = 0; i < members; ++i) {
      list.push_back(class_of(*program, peer_rank(*program, part, Peer{i}, rank)));
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

void CompiledProgram::compile_block(std::uint32_t rank_class, BlockId id) {
  const Block& block = (*program)[id];
  CompiledBlock& out = blocks[place_of(rank_class, id)];
  out.compiled = true;
  out.local = true;
  out.first_op = static_cast<std::uint32_t>(ops.size());
  out.first_sum = static_cast<std::uint32_t>(sums.size());
  timed_position_.assign(block.ops.size(), UINT32_MAX);
  std::array<bool, lane_count> used{};
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    if (!is_timed(op)) continue;
    timed_position_[i] = static_cast<std::uint32_t>(ops.size()) - out.first_op;
    TimedOp timed;
    timed.duration = prices->of_op(id, i, kind_of_class[rank_class]);
    timed.op = i;
    timed.lane = static_cast<std::uint8_t>(lane_number(op.lane));
    timed.first_wait = static_cast<std::uint32_t>(waits.size());
    for (std::uint32_t w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
      const Wait& wait = block.waits[w];
      if (wait.kind == Wait::Kind::tail) {
        const auto lane = static_cast<std::uint8_t>(lane_number(wait.lane));
        waits.push_back({0, lane, true, used[lane]});
        const auto saved_end = out.saved.begin() + out.saved_count;
        if (used[lane] && std::find(out.saved.begin(), saved_end, lane) == saved_end) {
          out.saved[out.saved_count++] = lane;
        }
      } else if (timed_position_[wait.op] != UINT32_MAX) {  // Alloc and Free end when issued
        const std::uint32_t at = timed_position_[wait.op];
        waits.push_back({at, ops[out.first_op + at].lane, false, false});
      }
    }
    timed.wait_count = static_cast<std::uint32_t>(waits.size()) - timed.first_wait;
    used[timed.lane] = true;

    if (const auto* collective = std::get_if<Collective>(&op.action)) {
      if (group_local[index(collective->group)]) {
        out.sent_bytes += group_sent_bytes(*program, block, op) *
                          (ranks_per_class / group_size((*program)[collective->group], program->mesh));
      } else {
        timed.meeting = TimedOp::Meeting::collective;
        compile_meetings(index(collective->group));
      }
      out.communication += timed.duration;
    } else if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
      timed.meeting = TimedOp::Meeting::exchange;
      timed.first_transfer = prices->first_transfer[index(id)] + exchange->transfers.first;
      timed.transfer_count = static_cast<std::uint16_t>(exchange->transfers.count);
      ORRERY_ASSERT(timed.transfer_count < 32, timed.transfer_count);
    } else if (std::holds_alternative<Copy>(op.action) || op.lane.kind == LaneKind::host) {
      out.communication += timed.duration;
    }
    out.local = out.local && timed.meeting == TimedOp::Meeting::none;
    out.all += timed.duration;
    if (timed.lane == compute_lane) out.busy += timed.duration;
    if (timed.meeting != TimedOp::Meeting::exchange) {
      const Operation operation = operation_of(*program, block, op);
      auto sum = sums.begin() + out.first_sum;
      while (sum != sums.end() && sum->operation != operation) ++sum;
      if (sum == sums.end()) sum = sums.insert(sum, {operation, 0, 0});
      sum->time += timed.duration;
      ++sum->count;
    }
    ops.push_back(timed);
  }
  out.op_count = static_cast<std::uint32_t>(ops.size()) - out.first_op;
  out.sum_count = static_cast<std::uint32_t>(sums.size()) - out.first_sum;
  longest = std::max(longest, out.op_count);
  if (!out.local || out.op_count == 0) return;

  find_gate(out);
  watch_lanes(out);
}

void CompiledProgram::find_gate(CompiledBlock& block) {
  const TimedOp* const begin = &ops[block.first_op];
  const TimedOp* const end = begin + block.op_count;
  const auto waits_for_tail = [&](const TimedOp& op, std::size_t lane) {
    for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
      if (waits[w].tail && waits[w].lane == lane) return true;
    }
    return false;
  };
  const std::size_t lane = begin->lane;
  if (lane != compute_lane) {
    // The op is a collective that waits for compute, and it passes the gate in place of the compute op behind it.
    if (is_transfer_lane(lane) || !waits_for_tail(*begin, compute_lane)) return;
    const TimedOp* compute = begin;
    while (compute != end && compute->lane == lane) ++compute;
    if (compute == end || compute->lane != compute_lane) return;
    bool follows = false;
    for (std::uint32_t w = compute->first_wait; w < compute->first_wait + compute->wait_count; ++w) {
      const std::size_t on = waits[w].lane;
      follows = follows || (!waits[w].tail && on == lane);
      // Any other op that holds the compute op up must be at the gate too, because of two causes only the later one
      // exposes.
      if (waits[w].tail && on != compute_lane && on != lane && !waits_for_tail(*begin, on)) return;
    }
    if (!follows) return;
  }
  std::array<std::uint8_t, lane_count> gate;
  std::uint8_t count = 0;
  for (std::uint8_t l = 0; l < lane_count; ++l) {
    if (l != compute_lane && l != lane && waits_for_tail(*begin, l)) gate[count++] = l;
  }
  // Passing the gate moves the compute lane's end. An op of another lane that waits for that end must not notice the
  // move: it passes the same gate itself.
  for (const TimedOp* op = begin; op != end; ++op) {
    if (op->lane == compute_lane || op->lane == lane || !waits_for_tail(*op, compute_lane)) continue;
    for (std::uint8_t g = 0; g < count; ++g) {
      if (!waits_for_tail(*op, gate[g])) return;
    }
  }
  block.gate = gate;
  block.gate_count = count;
  block.gate_lane = static_cast<std::uint8_t>(lane);
}

void CompiledProgram::watch_lanes(CompiledBlock& block) {
  // Walks the block as early as it can ever run: only the compute lane's end, at 0, delays it.
  std::array<Picoseconds, lane_count> tail;
  std::array<Picoseconds, lane_count> free_until;
  std::array<bool, lane_count> used{};
  std::array<bool, lane_count> watched{};
  tail.fill(CompiledBlock::never);
  free_until.fill(INT64_MAX);
  tail[compute_lane] = 0;
  const std::array<Picoseconds, lane_count> entry = tail;
  ends_.resize(block.op_count);
  for (std::uint32_t i = 0; i < block.op_count; ++i) {
    const TimedOp& op = ops[block.first_op + i];
    Picoseconds start = tail[op.lane];
    for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
      start = std::max(start, waits[w].tail ? entry[waits[w].lane] : ends_[waits[w].op]);
    }
    if (!used[op.lane]) free_until[op.lane] = std::min(free_until[op.lane], start);
    used[op.lane] = watched[op.lane] = true;
    for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
      if (!waits[w].tail) continue;
      watched[waits[w].lane] = true;
      free_until[waits[w].lane] = std::min(free_until[waits[w].lane], start);
    }
    tail[op.lane] = ends_[i] = start + op.duration;
  }
  std::size_t count = 0;
  for (std::size_t lane = 0; lane < lane_count; ++lane) count += lane != compute_lane && watched[lane] ? 1 : 0;
  block.keeps_outcomes = count <= CompiledBlock::max_watched && block.op_count > 2;
  if (!block.keeps_outcomes) return;
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    if (lane == compute_lane || !watched[lane]) continue;
    block.watched[block.watched_count] = static_cast<std::uint8_t>(lane);
    block.used[block.watched_count] = used[lane];
    block.free_until[block.watched_count++] = free_until[lane];
  }
}

void CompiledProgram::compile_transfers(std::uint32_t rank_class, BlockId id) {
  const Block& block = (*program)[id];
  const Rank rank = representative(*program, rank_class);
  const std::size_t row = std::size_t{rank_class} * prices->transfers + prices->first_transfer[index(id)];
  for (const Op& op : block.ops) {
    const auto* exchange = std::get_if<Exchange>(&op.action);
    if (exchange == nullptr) continue;
    for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count; ++t) {
      const Transfer& from = block.transfers[t];
      const View& view = block.views[op.views.first + from.view];
      TimedTransfer& to = transfers[row + t];
      const Rank other = peer_rank(*program, (*program)[from.group], from.peer, rank);
      to.partner = class_of(*program, other);
      ORRERY_ASSERT(to.partner != rank_class, rank_class, block.name);
      to.channel = from.channel;
      to.send = from.send;
      to.duration = prices->transfer[row + t];
      to.bytes = view.count * size_of((*program)[view.buffer].dtype);
    }
  }
}

void CompiledProgram::compile(const Program& p, const Prices& q, std::vector<std::uint32_t> kinds) {
  program = &p;
  prices = &q;
  ranks_per_class = p.mesh.size() / std::max<std::size_t>(1, p.classes.size());
  kind_of_class = std::move(kinds);
  kind_of_class.resize(p.classes.size(), 0);
  blocks.resize(std::size_t{q.kinds} * p.blocks.size());
  for (CompiledBlock& b : blocks) {
    b.compiled = b.local = b.keeps_outcomes = false;
    b.gate_lane = compute_lane;
    b.watched_count = b.gate_count = b.saved_count = b.outcome_count = b.next_outcome = b.last_outcome = 0;
    b.op_count = b.sum_count = 0;
    b.busy = b.all = b.communication = 0;
    b.sent_bytes = 0;
  }
  ops.clear();
  waits.clear();
  sums.clear();
  longest = receives_ahead = 0;
  for (const RankClass& c : p.classes) {
    for (const Slot& slot : c.step) receives_ahead = std::max(receives_ahead, slot.receives_ahead);
  }
  transfers.resize(std::size_t{q.transfers} * p.classes.size());
  compile_groups();
  for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
    for (const BlockId id : q.blocks_of(c)) {
      if (!blocks[place_of(c, id)].compiled) compile_block(c, id);
      if (!p[id].transfers.empty()) compile_transfers(c, id);
    }
  }
}

Exposed walk_local(const CompiledProgram& program, const CompiledBlock& block, LaneTails& lanes,
                   std::vector<Ending>& ends) {
  LaneTails entry;  // of the saved lanes
  for (std::size_t i = 0; i < block.saved_count; ++i) entry[block.saved[i]] = lanes[block.saved[i]];
  Exposed exposed;
  for (std::uint32_t i = 0; i < block.op_count; ++i) {
    const TimedOp& op = program.ops[block.first_op + i];
    Ending latest = lanes[op.lane];
    for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
      const TimedWait& wait = program.waits[w];
      latest.wait(!wait.tail ? ends[wait.op] : wait.saved ? entry[wait.lane] : lanes[wait.lane]);
    }
    const bool computes = op.lane == compute_lane;
    if (computes) exposed.add_gap(latest, lanes[compute_lane].end);
    latest.end += op.duration;
    if (computes) latest.from = latest.collective_from = latest.end;
    lanes[op.lane] = ends[i] = latest;
  }
  return exposed;
}

}  // namespace orrery
