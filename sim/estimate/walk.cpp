#include "sim/estimate/walk.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/record/traffic.hpp"

namespace orrery {

Picoseconds Walk::step_time() const {
  Picoseconds step = 0;
  for (const ClassTimes& t : times_) step = std::max(step, t.end);
  return step;
}

BlockId Walk::block_of(std::uint32_t c) const {
  return compiled_->program->classes[c].step[classes_[c].slot].block;
}

void Walk::run(CompiledProgram& compiled) {
  compiled_ = &compiled;
  serial_ = !compiled.prices->concurrent_lanes;
  const std::size_t count = compiled.program->classes.size();
  classes_.resize(count);
  times_.assign(count, {});
  runs_.assign(compiled.blocks.size(), 0);
  ends_.resize(compiled.longest);
  sent_ = 0;
  runnable_.clear();
  for (std::size_t c = 0; c < count; ++c) {
    Class& k = classes_[c];
    k.lanes = {};
    k.slot = k.run = k.op = 0;
    k.pending = Pending::none;
    k.open = 0;
    k.ends.resize(compiled.longest);
    k.begins.resize(compiled.longest);
    runnable_.push_back(static_cast<std::uint32_t>(count - 1 - c));
  }
  std::size_t finished = 0;
  while (!runnable_.empty()) {
    const std::uint32_t c = runnable_.back();
    runnable_.pop_back();
    advance(c);
    finished += classes_[c].slot == compiled.program->classes[c].step.size() ? 1 : 0;
  }
  if (finished != count) stuck();

  for (std::size_t c = 0; c < count; ++c) {
    const LaneTails& lanes = classes_[c].lanes;
    ClassTimes& t = times_[c];
    // The end of the step waits for every lane, like an op of no length on the compute lane.
    Latest last;
    for (std::size_t lane = 0; lane < lane_count; ++lane) last.wait(lane, lanes.end[lane], lanes.begin[lane]);
    t.end = last.end();
    if (!serial_) t.exposed += last.exposed(lanes.end[compute_lane]);
  }
}

void Walk::advance(std::uint32_t c) {
  Class& k = classes_[c];
  ClassTimes& times = times_[c];
  const std::vector<Slot>& slots = compiled_->program->classes[c].step;
  for (; k.slot < slots.size(); ++k.slot, k.run = 0) {
    const Slot& slot = slots[k.slot];
    CompiledBlock& block = compiled_->blocks[index(slot.block)];
    if (block.local) {
      runs_[index(slot.block)] += slot.repeat;
      times.busy += block.busy * slot.repeat;
      sent_ += block.sent_bytes * slot.repeat;
      if (serial_) {
        k.lanes.end[compute_lane] += block.all * slot.repeat;
        times.exposed += block.communication * slot.repeat;
      } else {
        run_local(k, times, block, slot.repeat);
      }
      continue;
    }
    for (; k.run < slot.repeat; ++k.run, k.op = 0) {
      if (k.op == 0) k.entry = k.lanes;
      for (; k.op < block.op_count; ++k.op) {
        const TimedOp& op = compiled_->ops[block.first_op + k.op];
        const std::size_t lane = serial_ ? compute_lane : op.lane;
        Picoseconds start = k.lanes.end[lane];
        if (!serial_) {
          Latest latest;
          for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
            const TimedWait& wait = compiled_->waits[w];
            if (wait.tail) {
              latest.wait(wait.lane, k.entry.end[wait.lane], k.entry.begin[wait.lane]);
            } else {
              latest.wait(wait.lane, k.ends[wait.op], k.begins[wait.op]);
            }
          }
          if (lane == compute_lane) times.exposed += latest.exposed(start);
          start = std::max(start, latest.end());
        }
        if (op.meeting == TimedOp::Meeting::none) {
          if (serial_ && op.lane != compute_lane) times.exposed += op.duration;
          k.begins[k.op] = k.lanes.begin[lane] = start;
          k.ends[k.op] = k.lanes.end[lane] = start + op.duration;
          continue;
        }
        k.ready = start;
        const bool met = op.meeting == TimedOp::Meeting::exchange ? post_exchange(c, op) : post_collective(c, op);
        if (!met) return;  // goes on when the last partner arrives: finish_meeting counts the op
        --k.op;            // finish_meeting has counted it
      }
      ++runs_[index(slot.block)];
      times.busy += block.busy;
      sent_ += block.sent_bytes;
    }
  }
}

void Walk::finish_meeting(std::uint32_t c, Picoseconds start, Picoseconds end) {
  Class& k = classes_[c];
  ClassTimes& times = times_[c];
  const TimedOp& op = compiled_->ops[compiled_->blocks[index(block_of(c))].first_op + k.op];
  const std::size_t lane = serial_ ? compute_lane : op.lane;
  if (k.pending == Pending::exchange) {
    times.exchange += end - start;
    ++times.exchanges;
    if (serial_) times.exposed += end - start;
  } else if (serial_) {
    times.exposed += end - k.ready;
  }
  k.begins[k.op] = k.lanes.begin[lane] = start;
  k.ends[k.op] = k.lanes.end[lane] = end;
  k.pending = Pending::none;
  ++k.op;
}

bool Walk::post_exchange(std::uint32_t c, const TimedOp& op) {
  Class& k = classes_[c];
  const Program& program = *compiled_->program;
  const BlockId id = block_of(c);
  const Block& block = program[id];
  const Range mine = std::get<Exchange>(block.ops[op.op].action).transfers;
  ORRERY_ASSERT(mine.count < 32, mine.count);
  k.pending = Pending::exchange;
  k.open = (std::uint32_t{1} << mine.count) - 1;
  k.began = k.ended = k.ready;
  bool first = true;
  const Prices& prices = *compiled_->prices;
  const std::size_t row = std::size_t{c} * prices.transfers + prices.first_transfer[index(id)];
  for (std::uint32_t i = 0; i < mine.count; ++i) {
    const std::uint32_t t = mine.first + i;
    const Transfer& transfer = block.transfers[t];
    const std::uint32_t p = compiled_->partner[row + t];
    ORRERY_ASSERT(p != c, p);
    Class& other = classes_[p];
    if (other.pending != Pending::exchange) continue;
    const BlockId other_id = block_of(p);
    const Block& other_block = program[other_id];
    const TimedOp& other_op = compiled_->ops[compiled_->blocks[index(other_id)].first_op + other.op];
    const Range theirs = std::get<Exchange>(other_block.ops[other_op.op].action).transfers;
    const std::size_t other_row = std::size_t{p} * prices.transfers + prices.first_transfer[index(other_id)];
    for (std::uint32_t j = 0; j < theirs.count; ++j) {
      if ((other.open >> j & 1U) == 0) continue;
      const std::uint32_t u = theirs.first + j;
      const Transfer& match = other_block.transfers[u];
      if (match.send == transfer.send || match.channel != transfer.channel) continue;
      if (compiled_->partner[other_row + u] != c) continue;
      const Picoseconds start = std::max(k.ready, other.ready);
      const Picoseconds end = start + (transfer.send ? prices.of_transfer(c, id, t) : prices.of_transfer(p, other_id, u));
      const auto met = [&](Class& side, bool is_first) {
        side.began = is_first ? start : std::min(side.began, start);
        side.ended = is_first ? end : std::max(side.ended, end);
      };
      const bool other_first = other.open == (std::uint32_t{1} << theirs.count) - 1;
      met(k, first);
      met(other, other_first);
      first = false;
      k.open &= ~(std::uint32_t{1} << i);
      other.open &= ~(std::uint32_t{1} << j);
      const Block& sender = transfer.send ? block : other_block;
      const Op& send_op = transfer.send ? block.ops[op.op] : other_block.ops[other_op.op];
      const View& view = sender.views[send_op.views.first + (transfer.send ? transfer : match).view];
      sent_ += view.count * size_of(program[view.buffer].dtype) * compiled_->ranks_per_class;
      if (other.open == 0) {
        finish_meeting(p, other.began, other.ended);
        runnable_.push_back(p);
      }
      break;
    }
  }
  if (k.open != 0) return false;
  finish_meeting(c, k.began, k.ended);
  return true;
}

bool Walk::post_collective(std::uint32_t c, const TimedOp& op) {
  Class& k = classes_[c];
  const Program& program = *compiled_->program;
  const Block& block = program[block_of(c)];
  const Op& source = block.ops[op.op];
  k.pending = Pending::collective;
  k.group = index(std::get<Collective>(source.action).group);
  const auto& members = compiled_->group_classes[k.group * program.classes.size() + c];
  Picoseconds start = k.ready;
  for (const std::uint32_t m : members) {
    if (classes_[m].pending != Pending::collective || classes_[m].group != k.group) return false;
    start = std::max(start, classes_[m].ready);
  }
  const std::uint64_t size = group_size(program.groups[k.group], program.mesh);
  sent_ += group_sent_bytes(program, block, source) * (compiled_->ranks_per_class * members.size() / size);
  for (const std::uint32_t m : members) {
    finish_meeting(m, start, start + op.duration);
    if (m != c) runnable_.push_back(m);
  }
  return true;
}

Picoseconds Walk::run_once(Class& k, CompiledBlock& block, bool& repeats) {
  LaneTails& lanes = k.lanes;
  repeats = false;
  if (!block.keeps_outcomes) return walk_local(*compiled_, block, lanes, ends_.data());
  Picoseconds gap = 0;
  if (block.gate_count > 0) {
    Latest gate;
    for (std::size_t i = 0; i < block.gate_count; ++i) {
      gate.wait(block.gate[i], lanes.end[block.gate[i]], lanes.begin[block.gate[i]]);
    }
    gap = gate.exposed(lanes.end[compute_lane]);
    lanes.end[compute_lane] = std::max(lanes.end[compute_lane], gate.end());
  }
  const Picoseconds origin = lanes.end[compute_lane];
  std::array<Picoseconds, CompiledBlock::max_watched> key;
  bool storable = true;
  for (std::size_t i = 0; i < block.watched_count; ++i) {
    const Picoseconds d = lanes.end[block.watched[i]] - origin;
    const bool delays = d > block.free_until[i];
    key[i] = delays ? d : CompiledBlock::never;
    // What a transfer's end exposes depends on its beginning too.
    storable = storable && !(delays && is_transfer_lane(block.watched[i]));
  }
  if (!storable) return gap + walk_local(*compiled_, block, lanes, ends_.data());

  const auto matches = [&](const CompiledBlock::Outcome& o) {
    for (std::size_t i = 0; i < block.watched_count; ++i) {
      if (o.entry[i] != key[i]) return false;
    }
    return true;
  };
  std::uint8_t found = block.last_outcome;
  if (found >= block.outcome_count || !matches(block.outcomes[found])) {
    for (found = 0; found < block.outcome_count && !matches(block.outcomes[found]); ++found) {
    }
  } else {
    repeats = true;  // the caller knows whether the last use was the run before
  }
  if (found == block.outcome_count) {
    LaneTails after = lanes;
    const Picoseconds exposed = walk_local(*compiled_, block, after, ends_.data());
    found = block.next_outcome;
    block.next_outcome = static_cast<std::uint8_t>((block.next_outcome + 1) % CompiledBlock::max_outcomes);
    block.outcome_count = std::max<std::uint8_t>(block.outcome_count, static_cast<std::uint8_t>(found + 1));
    CompiledBlock::Outcome& o = block.outcomes[found];
    for (std::size_t i = 0; i < block.watched_count; ++i) {
      o.entry[i] = key[i];
      o.exit[i] = after.end[block.watched[i]] - origin;
    }
    o.compute = after.end[compute_lane] - origin;
    o.exposed = exposed;
  }
  block.last_outcome = found;
  const CompiledBlock::Outcome& o = block.outcomes[found];
  lanes.end[compute_lane] = origin + o.compute;
  for (std::size_t i = 0; i < block.watched_count; ++i) {
    if (block.used[i]) lanes.end[block.watched[i]] = origin + o.exit[i];
  }
  return gap + o.exposed;
}

void Walk::run_local(Class& k, ClassTimes& times, CompiledBlock& block, std::uint32_t repeat) {
  for (std::uint32_t r = 0; r < repeat; ++r) {
    const Picoseconds before = k.lanes.end[compute_lane];
    bool same_outcome = false;
    const Picoseconds exposed = run_once(k, block, same_outcome);
    times.exposed += exposed;
    // Gates that the block itself does not move can delay its first run only.  From the second on the
    // state after a run follows from its outcome alone, so equal outcomes go on being equal.
    if (r < 2 || !same_outcome) continue;
    const Picoseconds left = static_cast<Picoseconds>(repeat - 1 - r);
    const Picoseconds move = (k.lanes.end[compute_lane] - before) * left;
    times.exposed += exposed * left;
    k.lanes.end[compute_lane] += move;
    for (std::size_t i = 0; i < block.watched_count; ++i) {
      if (block.used[i]) k.lanes.end[block.watched[i]] += move;
    }
    return;
  }
}

void Walk::stuck() const {
  std::string text = "the program's ranks wait for each other forever:";
  for (std::uint32_t c = 0; c < classes_.size(); ++c) {
    const Class& k = classes_[c];
    if (k.pending == Pending::none) continue;
    const Block& block = (*compiled_->program)[block_of(c)];
    const std::uint32_t op = compiled_->ops[compiled_->blocks[index(block_of(c))].first_op + k.op].op;
    text += fmt::format("\n  rank {}: slot {}, block {}, op {}: {}", index(representative(*compiled_->program, c)), k.slot,
                        block.name, op, k.pending == Pending::exchange ? "exchange" : "collective");
    if (k.pending == Pending::collective) text += fmt::format(" on group {}", k.group);
  }
  throw Error(text);
}

}  // namespace orrery
