#include "sim/estimate/walk.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/record/traffic.hpp"

namespace orrery {

namespace {

constexpr std::array<std::size_t, 2> receive_lanes = {
    lane_number({LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::forward_receive)}),
    lane_number({LaneKind::transfer, static_cast<std::uint8_t>(TransferLane::backward_receive)})};

}  // namespace

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
    for (auto& ends : k.received) ends.resize(compiled.receives_ahead > 0 ? compiled.receives_ahead + 1 : 0);
    k.receives = {};
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
    // The end of the step waits for every lane, like a compute op of no length.
    Ending last = CompiledBlock::free;
    for (const Ending& lane : lanes) last.wait(lane);
    t.end = last.end;
    if (!serial_) t.exposed.add_gap(last, lanes[compute_lane].end);
  }
}

void Walk::advance(std::uint32_t c) {
  Class& k = classes_[c];
  ClassTimes& times = times_[c];
  const std::vector<Slot>& slots = compiled_->program->classes[c].step;
  for (; k.slot < slots.size(); ++k.slot, k.run = 0) {
    const Slot& slot = slots[k.slot];
    const std::size_t place = compiled_->place_of(c, slot.block);
    CompiledBlock& block = compiled_->blocks[place];
    if (slot.receives_ahead > 0 && k.run == 0 && k.op == 0) pass_over(k, slot.receives_ahead);
    if (block.local) {
      runs_[place] += slot.repeat;
      times.busy += block.busy * slot.repeat;
      sent_ += block.sent_bytes * slot.repeat;
      if (serial_) {
        k.lanes[compute_lane].end += block.all * slot.repeat;
        times.exposed.add({block.communication, block.communication}, slot.repeat);
      } else {
        run_local(k, times, block, slot.repeat);
      }
      if (slot.receives_ahead > 0) come_back(k);
      continue;
    }
    for (; k.run < slot.repeat; ++k.run, k.op = 0) {
      if (k.op == 0) {
        for (std::size_t i = 0; i < block.saved_count; ++i) k.entry[block.saved[i]] = k.lanes[block.saved[i]];
      }
      for (; k.op < block.op_count; ++k.op) {
        const TimedOp& op = compiled_->ops[block.first_op + k.op];
        const std::size_t lane = serial_ ? compute_lane : op.lane;
        Ending latest = k.lanes[lane];
        if (!serial_) {
          for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
            const TimedWait& wait = compiled_->waits[w];
            latest.wait(!wait.tail ? k.ends[wait.op] : wait.saved ? k.entry[wait.lane] : k.lanes[wait.lane]);
          }
          if (lane == compute_lane) times.exposed.add_gap(latest, k.lanes[compute_lane].end);
        }
        if (op.meeting == TimedOp::Meeting::none) {
          if (serial_ && op.lane != compute_lane) times.exposed.add({op.duration, op.duration});
          latest.end += op.duration;
          if (op.lane == compute_lane) latest.from = latest.collective_from = latest.end;
          k.lanes[lane] = k.ends[k.op] = latest;
          continue;
        }
        k.ready = latest;
        k.at = &op;
        const bool met = op.meeting == TimedOp::Meeting::exchange ? post_exchange(c, op) : post_collective(c, op);
        if (!met) return;  // the class goes on when the last partner arrives: finish_meeting counts the op
        --k.op;            // finish_meeting has counted it
      }
      ++runs_[place];
      times.busy += block.busy;
      sent_ += block.sent_bytes;
    }
    if (slot.receives_ahead > 0) come_back(k);
  }
}

/// While a slot that passes over receives runs, its receive lanes end with the op before those.
void Walk::pass_over(Class& k, std::uint32_t receives) {
  for (std::size_t i = 0; i < receive_lanes.size(); ++i) {
    Ending& lane = k.lanes[receive_lanes[i]];
    k.tails[i] = lane;
    lane = receives < k.receives[i] ? k.received[i][(k.receives[i] - 1 - receives) % k.received[i].size()] : Ending{};
  }
}

void Walk::come_back(Class& k) {
  for (std::size_t i = 0; i < receive_lanes.size(); ++i) k.lanes[receive_lanes[i]] = k.tails[i];
}

void Walk::finish_meeting(std::uint32_t c, Picoseconds start, Picoseconds end) {
  Class& k = classes_[c];
  ClassTimes& times = times_[c];
  const std::size_t lane = serial_ ? compute_lane : k.at->lane;
  if (k.pending == Pending::exchange) {
    times.exchange += end - start;
    ++times.exchanges;
    if (serial_) times.exposed.all += end - start;
    k.ready = {end, start, end};
  } else {
    if (serial_) times.exposed.add({end - k.ready.end, end - k.ready.end});
    k.ready.end = end;
  }
  k.lanes[lane] = k.ends[k.op] = k.ready;
  for (std::size_t i = 0; compiled_->receives_ahead > 0 && i < receive_lanes.size(); ++i) {
    if (lane == receive_lanes[i]) k.received[i][k.receives[i]++ % k.received[i].size()] = k.ready;
  }
  k.pending = Pending::none;
  ++k.op;
}

bool Walk::post_exchange(std::uint32_t c, const TimedOp& op) {
  Class& k = classes_[c];
  k.pending = Pending::exchange;
  k.transfers = &compiled_->transfers[std::size_t{c} * compiled_->prices->transfers + op.first_transfer];
  k.transfer_count = op.transfer_count;
  k.open = (std::uint32_t{1} << k.transfer_count) - 1;
  k.began = k.ended = k.ready.end;
  for (std::uint32_t i = 0; i < k.transfer_count; ++i) {
    const TimedTransfer& mine = k.transfers[i];
    Class& other = classes_[mine.partner];
    if (other.pending != Pending::exchange) continue;
    for (std::uint32_t j = 0; j < other.transfer_count; ++j) {
      const TimedTransfer& theirs = other.transfers[j];
      if ((other.open >> j & 1U) == 0 || theirs.partner != c) continue;
      if (theirs.send == mine.send || theirs.channel != mine.channel) continue;
      const TimedTransfer& sent = mine.send ? mine : theirs;
      const Picoseconds start = std::max(k.ready.end, other.ready.end);
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
  Picoseconds start = k.ready.end;
  for (const std::uint32_t m : members) {
    if (classes_[m].pending != Pending::collective || classes_[m].group != k.group) return false;
    start = std::max(start, classes_[m].ready.end);
  }
  const std::uint64_t size = group_size(program.groups[k.group], program.mesh);
  sent_ += group_sent_bytes(program, block, source) * (compiled_->ranks_per_class * members.size() / size);
  for (const std::uint32_t m : members) {
    finish_meeting(m, start, start + op.duration);
    if (m != c) runnable_.push_back(m);
  }
  return true;
}

/// One run of a local block. `outcome` is the outcome that it had; null when the block has been walked instead.
Exposed Walk::run_once(LaneTails& lanes, CompiledBlock& block, CompiledBlock::Outcome*& outcome) {
  outcome = nullptr;
  if (!block.keeps_outcomes) return walk_local(*compiled_, block, lanes, ends_);
  Picoseconds origin = lanes[compute_lane].end;
  Exposed gap;
  if (block.gate_count > 0) {
    Ending gate = CompiledBlock::free;
    for (std::size_t i = 0; i < block.gate_count; ++i) gate.wait(lanes[block.gate[i]]);
    const std::size_t lane = block.gate_lane;
    // Its own lane may hold a collective at the gate up for longer; then that lane is watched instead.
    if (lane == compute_lane || lanes[lane].end <= std::max(origin, gate.end)) {
      if (lane != compute_lane) gate.wait(lanes[lane]);
      // Communication before the new origin exposes nothing but this gap, because all later gaps begin after it.
      gap.add_gap(gate, origin);
      origin = std::max(origin, gate.end);
      lanes[compute_lane] = {origin, origin, origin};
    }
  }
  std::array<Ending, CompiledBlock::max_watched> key;
  for (std::size_t i = 0; i < block.watched_count; ++i) {
    const std::size_t lane = block.watched[i];
    key[i] = CompiledBlock::free;
    const Picoseconds d = lanes[lane].end - origin;
    if (d <= block.free_until[i]) continue;
    key[i] = {d, std::max<Picoseconds>(0, lanes[lane].from - origin),
              std::max<Picoseconds>(0, lanes[lane].collective_from - origin)};
  }
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
  }
  if (found == block.outcome_count) {
    LaneTails after = lanes;
    const Exposed exposed = walk_local(*compiled_, block, after, ends_);
    found = block.next_outcome;
    // The next run may still be compared with the run before, so its outcome is kept.
    if (found == block.last_outcome && block.outcome_count > 0) {
      found = static_cast<std::uint8_t>((found + 1) % CompiledBlock::max_outcomes);
    }
    block.next_outcome = static_cast<std::uint8_t>((found + 1) % CompiledBlock::max_outcomes);
    block.outcome_count = std::max<std::uint8_t>(block.outcome_count, static_cast<std::uint8_t>(found + 1));
    CompiledBlock::Outcome& o = block.outcomes[found];
    for (std::size_t i = 0; i < block.watched_count; ++i) {
      o.entry[i] = key[i];
      o.exit[i] = after[block.watched[i]];
      o.exit[i].move(-origin);
    }
    o.compute = after[compute_lane].end - origin;
    o.exposed = exposed;
    o.steady = false;
  }
  block.last_outcome = found;
  CompiledBlock::Outcome& o = block.outcomes[found];
  const Picoseconds end = origin + o.compute;
  lanes[compute_lane] = {end, end, end};
  for (std::size_t i = 0; i < block.watched_count; ++i) {
    if (!block.used[i]) continue;
    Ending& lane = lanes[block.watched[i]];
    lane = o.exit[i];
    lane.move(origin);
  }
  gap.add(o.exposed);
  outcome = &o;
  return gap;
}

void Walk::run_local(Class& k, ClassTimes& times, CompiledBlock& block, std::uint32_t repeat) {
  CompiledBlock::Outcome* before = nullptr;
  for (std::uint32_t r = 0; r < repeat; ++r) {
    const Picoseconds end = k.lanes[compute_lane].end;
    CompiledBlock::Outcome* outcome = nullptr;
    const Exposed exposed = run_once(k.lanes, block, outcome);
    times.exposed.add(exposed);
    if (outcome == nullptr) {
      before = nullptr;
      continue;
    }
    // Lanes that the block waits for but does not use can delay only its first run, and their state cannot be part of
    // an outcome that follows itself.
    if (outcome == before && !outcome->steady) {
      outcome->steady = true;
      outcome->steady_move = k.lanes[compute_lane].end - end;
      outcome->steady_exposed = exposed;
    }
    before = outcome;
    if (!outcome->steady) continue;
    const Picoseconds left = static_cast<Picoseconds>(repeat - 1 - r);
    times.exposed.add(outcome->steady_exposed, left);
    const Picoseconds move = outcome->steady_move * left;
    k.lanes[compute_lane].move(move);
    for (std::size_t i = 0; i < block.watched_count; ++i) {
      if (block.used[i]) k.lanes[block.watched[i]].move(move);
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
    const std::uint32_t op = compiled_->ops[compiled_->blocks[compiled_->place_of(c, block_of(c))].first_op + k.op].op;
    text += fmt::format("\n  rank {}: slot {}, block {}, op {}: {}", index(representative(*compiled_->program, c)),
                        k.slot, block.name, op, k.pending == Pending::exchange ? "exchange" : "collective");
    if (k.pending == Pending::collective) text += fmt::format(" on group {}", k.group);
  }
  throw Error(text);
}

}  // namespace orrery
