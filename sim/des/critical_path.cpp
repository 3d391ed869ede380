#include "sim/des/critical_path.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "core/base/diagnostics.hpp"
#include "sim/des/simulate.hpp"
#include "sim/des/step_list.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

/// Goes back from the last op, always to the op that ended last among those that an op waited for.
class Walk {
 public:
  Walk(const Program& program, const Prices& prices, const RankClasses& classes, const Trace& trace)
      : program_(program), classes_(classes), trace_(trace), lists_(step_lists(program, prices)) {
    previous_.resize(lists_.size());
    collectives_.resize(lists_.size());
    for (std::size_t c = 0; c < lists_.size(); ++c) {
      previous_[c].assign(lists_[c].ops.size(), none);
      for (const auto& lane : lists_[c].lanes) {
        for (std::size_t i = 1; i < lane.size(); ++i) previous_[c][lane[i]] = lane[i - 1];
      }
      for (std::uint32_t i = 0; i < lists_[c].ops.size(); ++i) {
        const StepOp& op = lists_[c].ops[i];
        if (op.kind == StepOp::Kind::collective) collectives_[c].emplace(std::pair(op.group, op.ordinal), i);
      }
    }
  }

  CriticalPath path() {
    CriticalPath out;
    std::optional<Place> at = last();
    std::int64_t explained = at ? span(*at).end : 0;
    while (at) {
      const Because because = reason(*at);
      const StepOp& op = list(*at).ops[at->op];
      const Block& block = program_[op.block];
      out.waiting += explained - span(*at).end;
      out.steps.push_back({trace_.ranks[at->actor].rank, OpId{at->op},
                           operation_of(program_, block, block.ops[op.op_index]), because.begun, span(*at).end});
      explained = because.begun;
      at = because.before;
    }
    out.waiting += explained;
    std::reverse(out.steps.begin(), out.steps.end());
    return out;
  }

 private:
  struct Place {
    std::uint32_t actor, op;
  };
  /// When an op began to move, and for which op it waited until then.
  struct Because {
    std::int64_t begun = 0;
    std::optional<Place> before;
  };
  struct Ready {
    std::int64_t time = 0;
    std::optional<Place> before;  ///< ended then; none: nothing stood before
  };

  std::uint32_t class_of_actor(std::uint32_t actor) const { return class_of(program_, trace_.ranks[actor].rank); }
  const StepList& list(const Place& p) const { return lists_[class_of_actor(p.actor)]; }
  const Span& span(const Place& p) const { return trace_.ranks[p.actor].spans[p.op]; }

  std::optional<Place> last() const {
    std::optional<Place> found;
    for (std::uint32_t a = 0; a < trace_.ranks.size(); ++a) {
      const StepList& steps = lists_[class_of_actor(a)];
      for (std::uint32_t i = 0; i < steps.ops.size(); ++i) {
        if (steps.ops[i].kind == StepOp::Kind::untimed) continue;
        if (!found || span({a, i}).end > span(*found).end) found = Place{a, i};
      }
    }
    return found;
  }

  /// The op that ended last, among the op before on the lane and the ops that this one waits for.
  Ready ready(const Place& p) const {
    Ready r;
    const StepList& steps = list(p);
    const auto take = [&](std::uint32_t op) {
      const std::int64_t end = trace_.ranks[p.actor].spans[op].end;
      if (!r.before || end > r.time) r = {end, Place{p.actor, op}};
    };
    const StepOp& op = steps.ops[p.op];
    if (const std::uint32_t before = previous_[class_of_actor(p.actor)][p.op]; before != none) take(before);
    for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) take(steps.waits[w]);
    return r;
  }

  Because reason(const Place& p) const {
    const StepList& steps = list(p);
    const StepOp& op = steps.ops[p.op];
    Ready mine = ready(p);
    switch (op.kind) {
      case StepOp::Kind::collective: {
        for (const std::uint32_t actor : members(p.actor, op.group)) {
          const auto found = collectives_[class_of_actor(actor)].find({op.group, op.ordinal});
          ORRERY_ASSERT(found != collectives_[class_of_actor(actor)].end(), actor, op.group);
          const Ready other = ready({actor, found->second});
          if (other.time > mine.time) mine = other;
        }
        return {span(p).start, mine.before};
      }
      case StepOp::Kind::exchange: {
        // Among several messages the one that ends last counts.
        Because last{span(p).start, mine.before};
        std::int64_t end = -1;
        const Rank rank = trace_.ranks[p.actor].rank;
        for (std::uint32_t t = op.first_transfer; t < op.first_transfer + op.transfer_count; ++t) {
          const StepTransfer& transfer = steps.transfers[t];
          const Rank peer = peer_rank(program_, program_[transfer.group], transfer.peer, rank);
          const Ready other = ready({classes_.of_rank[index(peer)], transfer.partner_op});
          const Ready& later = other.time > mine.time ? other : mine;
          if (later.time + transfer.duration <= end) continue;
          end = later.time + transfer.duration;
          last = {later.time, later.before};
        }
        return last;
      }
      default: return {span(p).start, mine.before};
    }
  }

  /// The simulated ranks of a group's instance.
  const std::vector<std::uint32_t>& members(std::uint32_t actor, std::uint32_t group) const {
    std::vector<std::uint32_t>& known = members_[{actor, group}];
    if (known.empty()) {
      for (const Rank r : group_ranks(program_.groups[group], program_.mesh, trace_.ranks[actor].rank)) {
        known.push_back(classes_.of_rank[index(r)]);
      }
      std::sort(known.begin(), known.end());
      known.erase(std::unique(known.begin(), known.end()), known.end());
    }
    return known;
  }

  const Program& program_;
  const RankClasses& classes_;
  const Trace& trace_;
  std::vector<StepList> lists_;
  std::vector<std::vector<std::uint32_t>> previous_;  ///< [class][op]: the op before it on its lane
  std::vector<std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t>> collectives_;  ///< by group, ordinal
  mutable std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> members_;
};

Picoseconds tenth_less(Picoseconds t) { return t - t / 10; }

/// The prices with the ops of one kind, or all kernels, a tenth shorter.
Prices faster(const Program& program, const Prices& prices, std::optional<Operation> kind) {
  Prices out = prices;
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      const Op& op = block.ops[i];
      if (!is_timed(op)) continue;
      const bool chosen = kind ? operation_of(program, block, op) == *kind : std::holds_alternative<Compute>(op.action);
      if (!chosen) continue;
      for (std::uint32_t k = 0; k < out.kinds; ++k) {
        Picoseconds& p = out.op[std::size_t{k} * out.ops + out.first_op[b] + i];
        p = tenth_less(p);
      }
      const auto* exchange = std::get_if<Exchange>(&op.action);
      for (std::size_t c = 0; exchange != nullptr && c < program.classes.size(); ++c) {
        for (std::uint32_t t = 0; t < exchange->transfers.count; ++t) {
          Picoseconds& sent = out.transfer[c * out.transfers + out.first_transfer[b] + exchange->transfers.first + t];
          sent = tenth_less(sent);
        }
      }
    }
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> CriticalPath::by_operation() const {
  std::vector<std::int64_t> out(operation_count, 0);
  for (const CriticalStep& s : steps) out[static_cast<std::size_t>(s.operation)] += s.end - s.start;
  return out;
}

CriticalPath critical_path(const Program& program, const Prices& prices, const RankClasses& classes,
                           const Trace& trace) {
  ORRERY_ASSERT(trace.ranks.size() == classes.count(), trace.ranks.size(), classes.count());
  return Walk(program, prices, classes, trace).path();
}

std::vector<Gain> gains(const Program& program, const Prices& prices, const CriticalPath& path, std::int64_t step,
                        std::span<const LinkKind> links, const Replay& replay) {
  std::vector<Gain> out;
  const std::vector<std::int64_t> on_path = path.by_operation();
  Gain compute;
  compute.all_compute = true;
  for (std::size_t i = 0; i < on_path.size(); ++i) {
    if (on_path[i] == 0) continue;
    const Operation operation{static_cast<std::uint8_t>(i)};
    out.push_back({operation, false, {}, on_path[i], 0});
    if (!is_communication(operation) && operation != copy_operation) compute.on_path += on_path[i];
  }
  if (compute.on_path > 0) out.push_back(compute);
  std::stable_sort(out.begin(), out.end(), [](const Gain& a, const Gain& b) { return a.on_path > b.on_path; });
  for (const LinkKind kind : links) out.push_back({{}, false, kind, 0, 0});
  for (std::size_t i = 0; i < out.size(); ++i) {
    Gain& g = out[i];
    try {
      g.saved =
          step - (g.links
                      ? replay(prices, g.links)
                      : replay(faster(program, prices, g.all_compute ? std::nullopt : std::optional(g.operation)), {}));
    } catch (const SimulationCancelled&) {
      out.resize(i);
    }
  }
  return out;
}

}  // namespace orrery
