#include "sim/estimate/compiled_program.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/record/traffic.hpp"

namespace orrery {

namespace {

Rank member_at(const Group& group, const Mesh& mesh, Rank rank, std::uint64_t peer) {
  std::uint64_t at = group.members.empty() ? peer : group.members[peer];
  for (std::size_t i = group.axes.count; i-- > 0;) {
    const Axis axis = group.axes.axis[i];
    const std::uint32_t n = mesh.size(axis);
    rank = mesh.moved(rank, axis, static_cast<std::uint32_t>(at % n));
    at /= n;
  }
  return rank;
}

}  // namespace

void CompiledProgram::compile_groups() {
  const std::size_t classes = program->classes.size();
  group_local.assign(program->groups.size(), true);
  group_classes.resize(program->groups.size() * classes);
  for (std::size_t g = 0; g < program->groups.size(); ++g) {
    const Group& group = program->groups[g];
    for (const Axis a : group.axes) {
      const bool crosses = std::find(program->class_axes.begin(), program->class_axes.end(), a) != program->class_axes.end();
      if (crosses && program->mesh.size(a) > 1) group_local[g] = false;
    }
    if (group_local[g]) continue;
    // Which classes meet: the members along the class axes; the other axes stay inside a class.
    const std::uint32_t members = group_size(group, program->mesh);
    for (std::uint32_t c = 0; c < classes; ++c) {
      auto& list = group_classes[g * classes + c];
      list.clear();
      const Rank rank = representative(*program, c);
      bool all = group.members.empty();
      if (all) {
        // Walk the class axes of the group only: a whole group meets every class along them.
        AxisList axes;
        for (const Axis a : group.axes) {
          if (std::find(program->class_axes.begin(), program->class_axes.end(), a) != program->class_axes.end()) {
            axes.axis[axes.count++] = a;
          }
        }
        const Group part{axes, {}};
        const std::uint32_t n = group_size(part, program->mesh);
        for (std::uint32_t i = 0; i < n; ++i) list.push_back(class_of(*program, member_at(part, program->mesh, rank, i)));
      } else {
        for (std::uint32_t i = 0; i < members; ++i) {
          list.push_back(class_of(*program, member_at(group, program->mesh, rank, i)));
        }
      }
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }
}

void CompiledProgram::compile_block(BlockId id) {
  const Block& block = (*program)[id];
  CompiledBlock& out = blocks[index(id)];
  out.compiled = true;
  out.local = true;
  out.first_op = static_cast<std::uint32_t>(ops.size());
  out.first_sum = static_cast<std::uint32_t>(sums.size());
  timed_position_.assign(block.ops.size(), UINT32_MAX);
  bool waits_for_compute_tail = false;
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    if (!is_timed(op)) continue;
    timed_position_[i] = static_cast<std::uint32_t>(ops.size()) - out.first_op;
    TimedOp timed;
    timed.duration = prices->of_op(id, i);
    timed.op = i;
    timed.lane = static_cast<std::uint8_t>(lane_number(op.lane));
    timed.first_wait = static_cast<std::uint32_t>(waits.size());
    for (std::uint32_t w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
      const Wait& wait = block.waits[w];
      if (wait.kind == Wait::Kind::tail) {
        const auto lane = static_cast<std::uint8_t>(lane_number(wait.lane));
        waits_for_compute_tail = waits_for_compute_tail || (lane == compute_lane && timed.lane != compute_lane);
        waits.push_back({0, lane, true});
      } else if (timed_position_[wait.op] != UINT32_MAX) {  // Alloc and Free end when issued
        const std::uint32_t at = timed_position_[wait.op];
        waits.push_back({at, ops[out.first_op + at].lane, false});
      }
    }
    timed.wait_count = static_cast<std::uint32_t>(waits.size()) - timed.first_wait;

    if (const auto* collective = std::get_if<Collective>(&op.action)) {
      if (group_local[index(collective->group)]) {
        out.sent_bytes += group_sent_bytes(*program, block, op) *
                          (ranks_per_class / group_size((*program)[collective->group], program->mesh));
      } else {
        timed.meeting = TimedOp::Meeting::collective;
      }
      out.communication += timed.duration;
    } else if (std::holds_alternative<Exchange>(op.action)) {
      timed.meeting = TimedOp::Meeting::exchange;
    } else if (std::holds_alternative<Copy>(op.action)) {
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

  // A first op that waits only for other lanes moves the compute lane's end before anything else happens.
  const TimedOp& first = ops[out.first_op];
  if (first.lane == compute_lane && !waits_for_compute_tail) {
    for (std::uint32_t w = first.first_wait; w < first.first_wait + first.wait_count && out.gate_count < lane_count; ++w) {
      if (waits[w].lane != compute_lane) out.gate[out.gate_count++] = waits[w].lane;
    }
  }
  watch_lanes(out);
}

void CompiledProgram::watch_lanes(CompiledBlock& block) {
  // Walk the block as early as it can ever run: only the compute lane's end, at 0, delays it.
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

void CompiledProgram::compile_partners(std::uint32_t rank_class, BlockId id) {
  const Block& block = (*program)[id];
  const Rank rank = representative(*program, rank_class);
  for (std::uint32_t t = 0; t < block.transfers.size(); ++t) {
    const Transfer& transfer = block.transfers[t];
    const Rank other = member_at((*program)[transfer.group], program->mesh, rank, index(transfer.peer));
    partner[std::size_t{rank_class} * prices->transfers + prices->first_transfer[index(id)] + t] =
        class_of(*program, other);
  }
}

void CompiledProgram::compile(const Program& p, const Prices& q) {
  program = &p;
  prices = &q;
  ranks_per_class = p.mesh.size() / std::max<std::size_t>(1, p.classes.size());
  blocks.resize(p.blocks.size());
  for (CompiledBlock& b : blocks) {
    b.compiled = b.local = b.keeps_outcomes = false;
    b.watched_count = b.gate_count = b.outcome_count = b.next_outcome = b.last_outcome = 0;
    b.op_count = b.sum_count = 0;
    b.busy = b.all = b.communication = 0;
    b.sent_bytes = 0;
  }
  ops.clear();
  waits.clear();
  sums.clear();
  longest = 0;
  partner.assign(std::size_t{q.transfers} * p.classes.size(), UINT32_MAX);
  compile_groups();
  for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
    for (const Slot& slot : p.classes[c].step) {
      if (!blocks[index(slot.block)].compiled) compile_block(slot.block);
      const Block& block = p[slot.block];
      if (block.transfers.empty()) continue;
      const std::size_t at = std::size_t{c} * q.transfers + q.first_transfer[index(slot.block)];
      if (partner[at] == UINT32_MAX) compile_partners(c, slot.block);
    }
  }
}

Picoseconds walk_local(const CompiledProgram& program, const CompiledBlock& block, LaneTails& lanes,
                       Picoseconds* ends) {
  const std::array<Picoseconds, lane_count> entry = lanes.end;
  Picoseconds exposed = 0;
  for (std::uint32_t i = 0; i < block.op_count; ++i) {
    const TimedOp& op = program.ops[block.first_op + i];
    Picoseconds start = lanes.end[op.lane];
    if (op.lane == compute_lane) {
      Latest latest;
      for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
        const TimedWait& wait = program.waits[w];
        latest.wait(wait.lane, wait.tail ? entry[wait.lane] : ends[wait.op], lanes.begin[wait.lane]);
      }
      exposed += latest.exposed(start);
      start = std::max(start, latest.end());
    } else {
      for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
        const TimedWait& wait = program.waits[w];
        start = std::max(start, wait.tail ? entry[wait.lane] : ends[wait.op]);
      }
      lanes.begin[op.lane] = start;
    }
    ends[i] = lanes.end[op.lane] = start + op.duration;
  }
  return exposed;
}

}  // namespace orrery
