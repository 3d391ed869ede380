#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "sim/des/machine.hpp"

namespace orrery {

namespace {

/// The n-th op of a class's step, as its slots say.
OpRun find_op(const Program& program, std::uint32_t rank_class, std::uint32_t op) {
  OpRun found{};
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& r) {
    if (index(r.id) == op) found = r;
  });
  return found;
}

std::string group_text(const Program& program, std::uint32_t group) {
  std::string axes;
  for (const Axis a : program.groups[group].axes) {
    if (!axes.empty()) axes += '+';
    axes += name_of(a);
  }
  return fmt::format("group {} ({})", group, axes);
}

}  // namespace

std::string Machine::name(const Blame& at) const {
  const Actor& actor = actors_[at.actor];
  const StepOp& step = list(actor).ops[at.op];
  const OpRun run = find_op(program_, actor.rank_class, at.op);
  std::string text = fmt::format("rank {} op {} ({}, layer {}, microbatch {})", index(actor.rank), at.op,
                                 run.block->name, run.layer, run.microbatch);
  if (step.kind == StepOp::Kind::collective) {
    text +=
        fmt::format(" {} on {}", name_of(std::get<Collective>(run.op->action).kind), group_text(program_, step.group));
  } else if (step.kind == StepOp::Kind::exchange) {
    for (std::uint32_t t = step.first_transfer; t < step.first_transfer + step.transfer_count; ++t) {
      const StepTransfer& transfer = list(actor).transfers[t];
      text += fmt::format(" {} rank {} channel {}", transfer.send ? "send to" : "receive from",
                          index(peer_rank(program_, program_[transfer.group], transfer.peer, actor.rank)),
                          transfer.channel);
    }
  }
  return text;
}

/// The op or rank that `at`, which has not ended, waits for first of all.
Machine::Blame Machine::blame(const Blame& at, std::string& why) const {
  const Actor& actor = actors_[at.actor];
  const StepList& steps = list(actor);
  const StepOp& step = steps.ops[at.op];
  if (actor.state[at.op] == State::waiting) {
    for (std::uint32_t w = step.first_wait; w < step.first_wait + step.wait_count; ++w) {
      if (actor.state[steps.waits[w]] == State::done) continue;
      why = "waits for";
      return {at.actor, steps.waits[w]};
    }
    why = "queues behind";
    return {at.actor, steps.lanes[step.lane][actor.head[step.lane]]};
  }
  if (step.kind == StepOp::Kind::exchange) {
    for (std::uint32_t t = step.first_transfer; t < step.first_transfer + step.transfer_count; ++t) {
      const StepTransfer& transfer = steps.transfers[t];
      const std::uint32_t other = actor_of(peer_rank(program_, program_[transfer.group], transfer.peer, actor.rank));
      if (transfer.partner_op == StepTransfer::none) {
        why = fmt::format("waits for a matching {} that rank {} never issues", transfer.send ? "receive" : "send",
                          index(actors_[other].rank));
        return {other, 0, false};
      }
      if (actors_[other].state[transfer.partner_op] != State::waiting) continue;
      why = "waits for its partner";
      return {other, transfer.partner_op};
    }
  }
  ORRERY_ASSERT(step.kind == StepOp::Kind::collective, at.actor, at.op);
  const Meeting& meeting = meetings_[meeting_of_[at.actor * program_.groups.size() + step.group]];
  for (const std::uint32_t other : meeting.actors) {
    const StepList& theirs = list(actors_[other]);
    for (std::uint32_t i = 0; i < theirs.ops.size(); ++i) {
      const StepOp& op = theirs.ops[i];
      if (op.kind != StepOp::Kind::collective || op.group != step.group || op.ordinal != step.ordinal) continue;
      if (actors_[other].state[i] != State::waiting) break;
      why = "waits for its partner";
      return {other, i};
    }
    const bool issues = std::any_of(theirs.ops.begin(), theirs.ops.end(), [&](const StepOp& op) {
      return op.kind == StepOp::Kind::collective && op.group == step.group && op.ordinal == step.ordinal;
    });
    if (!issues) {
      why = fmt::format("waits for collective {} on {}, which rank {} never issues", step.ordinal,
                        group_text(program_, step.group), index(actors_[other].rank));
      return {other, 0, false};
    }
  }
  ORRERY_ASSERT(false, at.actor, at.op);
  return at;
}

std::string Machine::describe_deadlock() const {
  // Following the blame from any op that has not ended leads into a cycle or to an op that does not exist.
  Blame at{0, 0};
  for (std::uint32_t a = 0; a < actors_.size(); ++a) {
    const StepList& steps = list(actors_[a]);
    for (std::size_t lane = 0; lane < steps.lanes.size(); ++lane) {
      if (actors_[a].head[lane] == steps.lanes[lane].size()) continue;
      at = {a, steps.lanes[lane][actors_[a].head[lane]]};
      a = static_cast<std::uint32_t>(actors_.size()) - 1;
      break;
    }
  }
  std::vector<Blame> path;
  std::vector<std::string> reasons;
  for (;;) {
    const auto seen =
        std::find_if(path.begin(), path.end(), [&](const Blame& b) { return b.actor == at.actor && b.op == at.op; });
    if (seen != path.end()) {
      reasons.erase(reasons.begin(), reasons.begin() + (seen - path.begin()));
      path.erase(path.begin(), seen);
      break;
    }
    std::string why;
    path.push_back(at);
    at = blame(at, why);
    reasons.push_back(why);
    if (!at.exists) break;
  }
  std::string text = fmt::format("deadlock after {} ps: ", now_);
  text += at.exists ? "these ops wait for each other" : "an op waits for one that is not there";
  for (std::size_t i = 0; i < path.size(); ++i) {
    text += fmt::format("\n  {}\n    {}", name(path[i]), reasons[i]);
  }
  if (at.exists) text += fmt::format(" rank {} op {}, above", index(actors_[at.actor].rank), at.op);
  return text;
}

}  // namespace orrery
