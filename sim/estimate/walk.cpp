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

BlockId Walk::block_of(std::uint32_t c) const { return compiled_->program->classes[c].step[classes_[c].slot].block; }

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
    for (std::size_t lane = 0; lane < lane_count; ++lane) last.wait(lanes.end[lane], lanes.from[lane]);
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
      if (k.op == 0 && block.has_tails && block.op_count > 1) k.entry = k.lanes;
      for (; k.op < block.op_count; ++k.op) {
        const TimedOp& op = compiled_->ops[block.first_op + k.op];
        const std::size_t lane = serial_ ? compute_lane : op.lane;
        Latest latest(k.lanes.end[lane], k.lanes.from[lane]);
        if (!serial_) {
          const LaneTails& entry = k.op == 0 ? k.lanes : k.entry;
          for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
            const TimedWait& wait = compiled_->waits[w];
            if (wait.tail) {
              latest.wait(entry.end[wait.lane], entry.from[wait.lane]);
            } else {
              latest.wait(k.ends[wait.op].end(), k.ends[wait.op].from());
            }
          }
          if (lane == compute_lane) times.exposed += latest.exposed(k.lanes.end[compute_lane]);
        }
        if (op.meeting == TimedOp::Meeting::none) {
          if (serial_ && op.lane != compute_lane) times.exposed += op.duration;
          const Picoseconds end = latest.end() + op.duration;
          k.lanes.end[lane] = end;
          k.lanes.from[lane] = op.lane == compute_lane ? end : latest.from();
          k.ends[k.op] = Latest(end, k.lanes.from[lane]);
          continue;
        }
        k.ready = latest.end();
        k.from = latest.from();
        k.at = &op;
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
  const std::size_t lane = serial_ ? compute_lane : k.at->lane;
  if (k.pending == Pending::exchange) {
    times.exchange += end - start;
    ++times.exchanges;
    if (serial_) times.exposed += end - start;
  } else if (serial_) {
    times.exposed += end - k.ready;
  }
  k.lanes.from[lane] = k.pending == Pending::exchange ? start : k.from;
  k.lanes.end[lane] = end;
  k.ends[k.op] = Latest(end, k.lanes.from[lane]);
  k.pending = Pending::none;
  ++k.op;
}

bool Walk::post_exchange(std::uint32_t c, const TimedOp& op) {
  Class& k = classes_[c];
  k.pending = Pending::exchange;
  k.transfers = &compiled_->transfers[std::size_t{c} * compiled_->prices->transfers + op.first_transfer];
  k.transfer_count = op.transfer_count;
  k.open = (std::uint32_t{1} << k.transfer_count) - 1;
  k.began = k.ended = k.ready;
  for (std::uint32_t i = 0; i < k.transfer_count; ++i) {
    const TimedTransfer& mine = k.transfers[i];
    Class& other = classes_[mine.partner];
    if (other.pending != Pending::exchange) continue;
    for (std::uint32_t j = 0; j < other.transfer_count; ++j) {
      const TimedTransfer& theirs = other.transfers[j];
      if ((other.open >> j & 1U) == 0 || theirs.partner != c) continue;
      if (theirs.send == mine.send || theirs.channel != mine.channel) continue;
      const TimedTransfer& sent = mine.send ? mine : theirs;
      const Picoseconds start = std::max(k.ready, other.ready);
      const Picoseconds end = start + sent.duration;
      sent_ += sent.bytes * compiled_->ranks_per_class;
      for (Class* side : {&k, &other}) {
        const bool first = side->open == (std::uint32_t{1} << side->transfer_count) - 1;
        side->began = first ? start : std::min(side->began, start);
        side->ended = first ? end : std::max(side->ended, end);
      }
      k.open &= ~(std::uint32_t{1} << i);
      other.open &= ~(std::uint32_t{1} << j);
      if (other.open == 0) {
        finish_meeting(mine.partner, other.began, other.ended);
        runnable_.push_back(mine.partner);
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

Picoseconds Walk::run_once(LaneTails& lanes, CompiledBlock& block, bool& repeats) {
  repeats = false;
  if (!block.keeps_outcomes) return walk_local(*compiled_, block, lanes, ends_);
  Picoseconds origin = lanes.end[compute_lane];
  Picoseconds gap = 0;
  if (block.gate_count > 0) {
    Latest gate;
    for (std::size_t i = 0; i < block.gate_count; ++i) gate.wait(lanes.end[block.gate[i]], lanes.from[block.gate[i]]);
    const std::size_t lane = block.gate_lane;
    // A collective that stands at the gate may be held up longer by its own lane: then that is watched instead.
    if (lane == compute_lane || lanes.end[lane] <= std::max(origin, gate.end())) {
      if (lane != compute_lane) gate.wait(lanes.end[lane], lanes.from[lane]);
      // Communication before the new origin exposes nothing but this gap: all later ones begin after it.
      gap = gate.exposed(origin);
      origin = std::max(origin, gate.end());
      lanes.end[compute_lane] = lanes.from[compute_lane] = origin;
    }
  }
  std::array<Picoseconds, CompiledBlock::max_watched> key;
  std::array<Picoseconds, CompiledBlock::max_watched> key_from;
  for (std::size_t i = 0; i < block.watched_count; ++i) {
    const std::size_t lane = block.watched[i];
    key[i] = key_from[i] = CompiledBlock::never;
    const Picoseconds d = lanes.end[lane] - origin;
    if (d <= block.free_until[i]) continue;
    // Ends of messages hardly ever come twice at the same distance.
    if (is_transfer_lane(lane)) return gap + walk_local(*compiled_, block, lanes, ends_);
    key[i] = d;
    key_from[i] = std::max<Picoseconds>(0, lanes.from[lane] - origin);
  }
  const auto matches = [&](const CompiledBlock::Outcome& o) {
    for (std::size_t i = 0; i < block.watched_count; ++i) {
      if (o.entry[i] != key[i] || o.entry_from[i] != key_from[i]) return false;
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
    const Picoseconds exposed = walk_local(*compiled_, block, after, ends_);
    found = block.next_outcome;
    block.next_outcome = static_cast<std::uint8_t>((block.next_outcome + 1) % CompiledBlock::max_outcomes);
    block.outcome_count = std::max<std::uint8_t>(block.outcome_count, static_cast<std::uint8_t>(found + 1));
    CompiledBlock::Outcome& o = block.outcomes[found];
    for (std::size_t i = 0; i < block.watched_count; ++i) {
      o.entry[i] = key[i];
      o.entry_from[i] = key_from[i];
      o.exit[i] = after.end[block.watched[i]] - origin;
      o.exit_from[i] = after.from[block.watched[i]] - origin;
    }
    o.compute = after.end[compute_lane] - origin;
    o.exposed = exposed;
  }
  block.last_outcome = found;
  const CompiledBlock::Outcome& o = block.outcomes[found];
  lanes.end[compute_lane] = lanes.from[compute_lane] = origin + o.compute;
  for (std::size_t i = 0; i < block.watched_count; ++i) {
    if (!block.used[i]) continue;
    lanes.end[block.watched[i]] = origin + o.exit[i];
    lanes.from[block.watched[i]] = origin + o.exit_from[i];
  }
  return gap + o.exposed;
}

void Walk::run_local(Class& k, ClassTimes& times, CompiledBlock& block, std::uint32_t repeat) {
  for (std::uint32_t r = 0; r < repeat; ++r) {
    const Picoseconds before = k.lanes.end[compute_lane];
    bool same_outcome = false;
    const Picoseconds exposed = run_once(k.lanes, block, same_outcome);
    times.exposed += exposed;
    // Gates that the block itself does not move can delay its first run only.  From the second on the
    // state after a run follows from its outcome alone, so equal outcomes go on being equal.
    if (r < 2 || !same_outcome) continue;
    const Picoseconds left = static_cast<Picoseconds>(repeat - 1 - r);
    const Picoseconds move = (k.lanes.end[compute_lane] - before) * left;
    times.exposed += exposed * left;
    k.lanes.end[compute_lane] += move;
    k.lanes.from[compute_lane] += move;
    for (std::size_t i = 0; i < block.watched_count; ++i) {
      if (!block.used[i]) continue;
      k.lanes.end[block.watched[i]] += move;
      k.lanes.from[block.watched[i]] += move;
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
    text += fmt::format("\n  rank {}: slot {}, block {}, op {}: {}", index(representative(*compiled_->program, c)),
                        k.slot, block.name, op, k.pending == Pending::exchange ? "exchange" : "collective");
    if (k.pending == Pending::collective) text += fmt::format(" on group {}", k.group);
  }
  throw Error(text);
}

}  // namespace orrery
