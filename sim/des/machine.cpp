#include "sim/des/machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"

namespace orrery {

Machine::Machine(const Program& program, const Prices& prices, const RankClasses& classes,
                 const Perturbation& perturbation, const std::vector<std::uint32_t>& node_of_rank,
                 SharedNetwork* shared)
    : program_(program),
      prices_(prices),
      classes_(classes),
      noise_(perturbation.noise),
      lists_(step_lists(program, prices)),
      shares_cores_(prices.core_count > 0),
      shared_(shared),
      network_(shared != nullptr ? static_cast<Network&>(*shared) : unshared_) {
  const std::uint64_t ranks = program.mesh.size();
  ORRERY_ASSERT(classes.of_rank.size() == ranks, classes.of_rank.size(), ranks);
  ORRERY_ASSERT(!shares_cores_ || (classes.count() == ranks && node_of_rank.size() == ranks), node_of_rank.size());
  actors_.resize(classes.count());
  const std::vector<double> slow = slowdowns(perturbation, static_cast<std::uint32_t>(ranks));
  std::uint32_t nodes = 1;
  for (std::uint32_t i = 0; i < actors_.size(); ++i) {
    Actor& a = actors_[i];
    a.rank = classes.representative[i];
    a.rank_class = class_of(program, a.rank);
    a.node = shares_cores_ ? node_of_rank[i] : 0;
    a.kind = prices.kind_of(a.rank);
    if (!slow.empty()) a.slowdown = slow[index(a.rank)];
    nodes = std::max(nodes, a.node + 1);
    const StepList& steps = list(a);
    a.moving.assign(steps.ops.size(), 0);
    for (const auto& lane : steps.lanes) total_ += lane.size();
  }
  for (std::uint32_t r = 0; prices.kinds > 1 && r < ranks; ++r) {
    ORRERY_ASSERT(prices.kind_of(Rank{r}) == actors_[actor_of(Rank{r})].kind, r);
  }
  nodes_.assign(nodes, shares_cores_ ? Cores(prices.core_count, actors_.size()) : Cores());
  build_meetings();
}

void Machine::build_meetings() {
  const std::size_t groups = program_.groups.size();
  meeting_of_.assign(actors_.size() * groups, UINT32_MAX);
  for (std::uint32_t g = 0; g < groups; ++g) {
    for (std::uint32_t i = 0; i < actors_.size(); ++i) {
      if (meeting_of_[i * groups + g] != UINT32_MAX) continue;
      if (!peer_of(program_.groups[g], program_.mesh, actors_[i].rank)) continue;
      Meeting meeting;
      for (const Rank r : group_ranks(program_.groups[g], program_.mesh, actors_[i].rank)) {
        meeting.actors.push_back(actor_of(r));
      }
      std::sort(meeting.actors.begin(), meeting.actors.end());
      meeting.actors.erase(std::unique(meeting.actors.begin(), meeting.actors.end()), meeting.actors.end());
      for (const std::uint32_t a : meeting.actors) {
        meeting_of_[a * groups + g] = static_cast<std::uint32_t>(meetings_.size());
      }
      meetings_.push_back(std::move(meeting));
    }
  }
}

Picoseconds Machine::with_noise(Picoseconds duration, const Actor& actor, std::uint32_t op) const {
  if (!noise_) return duration;
  // The first step draws the same noise as a step alone.
  const std::uint64_t seed = repetition_ == 0 ? noise_->seed : mix(noise_->seed ^ repetition_);
  const double z = std::abs(random_normal(seed, index(actor.rank), op));
  return duration + static_cast<Picoseconds>(std::llround(static_cast<double>(duration) * noise_->spread * z));
}

/// Duration of a straggler's compute op.
Picoseconds Machine::slowed(Picoseconds duration, const Actor& actor) const {
  if (actor.slowdown == 1.0) return duration;
  return static_cast<Picoseconds>(std::llround(static_cast<double>(duration) * actor.slowdown));
}

bool Machine::is_ready(const Actor& actor, const StepOp& op) const {
  const StepList& steps = list(actor);
  for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
    if (actor.state[steps.waits[w]] != State::done) return false;
  }
  return true;
}

void Machine::try_lanes(std::uint32_t number) {
  Actor& actor = actors_[number];
  const StepList& steps = list(actor);
  for (std::size_t lane = 0; lane < steps.lanes.size(); ++lane) {
    const auto& queue = steps.lanes[lane];
    if (actor.head[lane] == queue.size()) continue;
    const std::uint32_t op = queue[actor.head[lane]];
    if (actor.state[op] == State::waiting && is_ready(actor, steps.ops[op])) begin_op(number, op);
  }
}

void Machine::begin_op(std::uint32_t number, std::uint32_t op) {
  Actor& actor = actors_[number];
  actor.state[op] = State::posted;
  actor.spans[op].start = now_;
  const StepOp& step = list(actor).ops[op];
  switch (step.kind) {
    case StepOp::Kind::compute:
      nodes_[actor.node].start(now_, with_noise(slowed(duration(actor, step), actor), actor, op), {number, op});
      note_starts(nodes_[actor.node]);
      break;
    case StepOp::Kind::copy: copies_.push(now_ + with_noise(duration(actor, step), actor, op), {number, op}); break;
    case StepOp::Kind::exchange: begin_exchange(number, op); break;
    case StepOp::Kind::collective: begin_collective(number, op); break;
    case StepOp::Kind::untimed: ORRERY_ASSERT(false, op);
  }
}

void Machine::note_starts(Cores& node) {
  for (const Cores::Job& job : node.started()) {
    Actor& actor = actors_[job.actor];
    if (list(actor).ops[job.op].kind == StepOp::Kind::compute) actor.spans[job.op].start = now_;
  }
  node.started().clear();
}

void Machine::start(const std::vector<MemberOp>& members, Picoseconds alone, std::uint32_t traffic) {
  // Numbers and their places are reused, so storage grows only with what is under way at once.
  std::uint32_t number = 0;
  if (!free_numbers_.empty() && running_[free_numbers_.back()].capacity >= members.size()) {
    number = free_numbers_.back();
    free_numbers_.pop_back();
  } else {
    number = static_cast<std::uint32_t>(running_.size());
    running_.push_back({static_cast<std::uint32_t>(member_ops_.size()), 0, static_cast<std::uint32_t>(members.size())});
    member_ops_.resize(member_ops_.size() + members.size());
  }
  Running& r = running_[number];
  r.members = static_cast<std::uint32_t>(members.size());
  std::copy(members.begin(), members.end(), member_ops_.begin() + r.first_member);
  const MemberOp& first = members.front();
  network_.start(now_, {number, with_noise(alone, actors_[first.actor], first.op), traffic});
}

void Machine::begin_exchange(std::uint32_t number, std::uint32_t op) {
  Actor& actor = actors_[number];
  const StepList& steps = list(actor);
  const StepOp& step = steps.ops[op];
  actor.moving[op] = step.transfer_count;
  actor.spans[op] = {INT64_MAX, now_};
  if (step.transfer_count == 0) {
    actor.spans[op].start = now_;
    copies_.push(now_, {number, op});
    return;
  }
  for (std::uint32_t t = step.first_transfer; t < step.first_transfer + step.transfer_count; ++t) {
    const StepTransfer& transfer = steps.transfers[t];
    if (transfer.partner_op == StepTransfer::none) continue;
    const Rank peer = peer_rank(program_, program_[transfer.group], transfer.peer, actor.rank);
    const std::uint32_t other = actor_of(peer);
    if (actors_[other].state[transfer.partner_op] != State::posted) continue;
    actor.spans[op].start = std::min(actor.spans[op].start, now_);
    actors_[other].spans[transfer.partner_op].start = std::min(actors_[other].spans[transfer.partner_op].start, now_);
    const MemberOp me{number, op};
    const MemberOp partner{other, transfer.partner_op};
    const std::vector<MemberOp> both =
        transfer.send ? std::vector<MemberOp>{me, partner} : std::vector<MemberOp>{partner, me};
    std::uint32_t traffic = 0;
    if (shared_ != nullptr) {
      traffic = shared_->message(transfer.send ? actor.rank : peer, transfer.send ? peer : actor.rank,
                                 Bytes::of(static_cast<double>(transfer.bytes)));
    }
    start(both, transfer.duration, traffic);
  }
}

void Machine::begin_collective(std::uint32_t number, std::uint32_t op) {
  const StepOp& step = list(actors_[number]).ops[op];
  const std::uint32_t at = meeting_of_[number * program_.groups.size() + step.group];
  ORRERY_ASSERT(at != UINT32_MAX, number, step.group);
  Meeting& meeting = meetings_[at];
  auto open = std::find_if(meeting.open.begin(), meeting.open.end(),
                           [&](const Meeting::Open& o) { return o.ordinal == step.ordinal; });
  if (open == meeting.open.end()) open = meeting.open.insert(meeting.open.end(), {step.ordinal, {}});
  open->arrived.push_back({number, op});
  if (open->arrived.size() < meeting.actors.size()) return;
  std::vector<MemberOp> members = std::move(open->arrived);
  meeting.open.erase(open);
  std::sort(members.begin(), members.end(), [](const MemberOp& a, const MemberOp& b) { return a.actor < b.actor; });
  for (const MemberOp& m : members) actors_[m.actor].spans[m.op].start = now_;
  std::uint32_t traffic = 0;
  if (shared_ != nullptr) {
    const Rank first = actors_[members.front().actor].rank;
    traffic = shared_->collective(at, first, step.block, step.op_index);
  }
  start(members, duration(actors_[number], step), traffic);
}

void Machine::end(std::uint32_t number, std::uint32_t op) {
  Actor& actor = actors_[number];
  const StepOp& step = list(actor).ops[op];
  actor.state[op] = State::done;
  actor.spans[op].end = now_;
  ++actor.head[step.lane];
  --left_;
}

void Machine::end_communication(std::uint32_t number) {
  const Running running = running_[number];
  for (std::uint32_t m = running.first_member; m < running.first_member + running.members; ++m) {
    const MemberOp done = member_ops_[m];
    Actor& actor = actors_[done.actor];
    if (list(actor).ops[done.op].kind == StepOp::Kind::exchange && --actor.moving[done.op] > 0) continue;
    if (shares_cores_) {
      // A rank notices the end only when it has a core again.
      nodes_[actor.node].start(now_, 0, {done.actor, done.op});
      note_starts(nodes_[actor.node]);
    } else {
      end(done.actor, done.op);
    }
  }
  if (!shares_cores_) {
    for (std::uint32_t m = running.first_member; m < running.first_member + running.members; ++m) {
      try_lanes(member_ops_[m].actor);
    }
  }
  free_numbers_.push_back(number);
}

void Machine::look_up(const SimulationProgress& progress) const {
  if (progress.report) progress.report(total_ - left_, total_);
  if (progress.cancelled != nullptr && progress.cancelled->load(std::memory_order_relaxed)) {
    throw SimulationCancelled(total_ - left_, total_, now_);
  }
}

void Machine::begin(Picoseconds now, std::uint64_t repetition) {
  now_ = begun_ = now;
  repetition_ = repetition;
  left_ = total_;
  for (Actor& a : actors_) {
    a.head.assign(list(a).lanes.size(), 0);
    a.state.assign(list(a).ops.size(), State::waiting);
    a.spans.resize(list(a).ops.size());
  }
  for (std::uint32_t i = 0; i < actors_.size(); ++i) try_lanes(i);
}

Picoseconds Machine::next_own() const {
  Picoseconds next = copies_.empty() ? INT64_MAX : copies_.next_time();
  for (const Cores& node : nodes_) {
    if (!node.idle()) next = std::min(next, node.next_end());
  }
  return next;
}

void Machine::advance_own() {
  // At one instant cores, ordered by node, come before copies.
  Cores* cores = nullptr;
  Picoseconds next = INT64_MAX;
  for (Cores& node : nodes_) {
    if (!node.idle() && node.next_end() < next) {
      next = node.next_end();
      cores = &node;
    }
  }
  const bool copy = !copies_.empty() && copies_.next_time() < next;
  now_ = copy ? copies_.next_time() : next;
  ++events_;
  MemberOp done{};
  if (copy) {
    done = copies_.pop();
  } else {
    const Cores::Job job = cores->finish();
    done = {job.actor, job.op};
  }
  end(done.actor, done.op);
  try_lanes(done.actor);
  Cores& node = nodes_[actors_[done.actor].node];
  node.rest(now_, done.actor);
  note_starts(node);
}

void Machine::arrive(Picoseconds now, std::uint32_t number) {
  now_ = now;
  ++events_;
  end_communication(number);
}

void Machine::run(const SimulationProgress& progress) {
  // Looks are so seldom that they cost nothing: a few milliseconds apart.
  constexpr std::uint64_t between_looks = 1U << 14U;
  std::uint64_t looks = 0;
  left_ = total_;
  look_up(progress);
  begin(0);
  // A node's cores, the copies and the network each know when their next op ends; at one instant the network comes
  // last.
  for (;;) {
    const Picoseconds own = next_own();
    const Picoseconds arrival = network_.idle() ? INT64_MAX : network_.next_event();
    if (own == INT64_MAX && arrival == INT64_MAX) break;
    now_ = std::min(own, arrival);
    if (++looks % between_looks == 0) look_up(progress);
    if (arrival < own) {
      arrived_.clear();
      network_.advance(arrived_);
      for (const std::uint32_t number : arrived_) arrive(arrival, number);
    } else {
      advance_own();
    }
  }
  if (left_ > 0) throw Error(describe_deadlock());
  if (progress.report) progress.report(total_, total_);
}

Trace Machine::take_trace() {
  Trace trace;
  trace.origin = "simulate";
  trace.ranks.reserve(actors_.size());
  for (Actor& actor : actors_) {
    const StepList& steps = list(actor);
    for (Span& s : actor.spans) s = {s.start - begun_, s.end - begun_};
    std::int64_t passed = 0;  // end of the last op so far on the compute lane (or on the only lane)
    for (std::size_t i = 0; i < steps.ops.size(); ++i) {
      if (steps.ops[i].kind == StepOp::Kind::untimed) {
        actor.spans[i] = {passed, passed};
      } else if (steps.ops[i].lane == 0) {
        passed = actor.spans[i].end;
      }
    }
    trace.ranks.push_back({actor.rank, std::exchange(actor.spans, {}), 0, 0});
  }
  return trace;
}

}  // namespace orrery
