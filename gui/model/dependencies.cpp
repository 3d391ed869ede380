#include "gui/model/dependencies.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery::gui {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

}  // namespace

const char* name_of(Dependency::Kind kind) {
  switch (kind) {
    case Dependency::Kind::lane: return "same lane";
    case Dependency::Kind::wait: return "its operand";
    case Dependency::Kind::message: return "message";
    case Dependency::Kind::collective: return "same collective";
  }
  return "";
}

Dependencies::Dependencies(const Program& program, const Prices& prices, TimelinePointer timeline)
    : timeline_(std::move(timeline)),
      mesh_(program.mesh),
      groups_(program.groups),
      lists_(step_lists(program, prices)),
      previous_(lists_.size()),
      of_rank_(program.mesh.size(), none) {
  for (std::size_t c = 0; c < lists_.size(); ++c) {
    previous_[c].assign(lists_[c].ops.size(), none);
    for (const auto& lane : lists_[c].lanes) {
      for (std::size_t i = 1; i < lane.size(); ++i) previous_[c][lane[i]] = lane[i - 1];
    }
  }
  std::vector<std::uint32_t> of_class(lists_.size(), none);
  for (std::uint32_t r = 0; r < timeline_->ranks.size(); ++r) {
    const Rank rank = timeline_->ranks[r].rank;
    const std::uint32_t c = class_of(program, rank);
    classes_.push_back(c);
    of_rank_[index(rank)] = r;
    if (of_class[c] == none) of_class[c] = r;
  }
  for (std::uint32_t rank = 0; rank < of_rank_.size(); ++rank) {
    if (of_rank_[rank] == none) of_rank_[rank] = of_class[class_of(program, Rank{rank})];
  }
}

std::uint32_t Dependencies::stand_in(Rank rank) const { return of_rank_[index(rank)]; }

std::int64_t Dependencies::end_of(const OpPlace& p) const {
  const auto place = place_of(*timeline_, p);
  return place ? slice_of(*timeline_, *place).end : -1;
}

void Dependencies::add_partners(const OpPlace& p, bool incoming, std::vector<Dependency>& out) const {
  const StepList& steps = list(p.rank);
  const StepOp& op = steps.ops[index(p.op)];
  const Rank rank = timeline_->ranks[p.rank].rank;
  const auto add = [&](const OpPlace& other, Dependency::Kind kind) {
    if (other == p) return;
    const Dependency d = incoming ? Dependency{other, p, kind} : Dependency{p, other, kind};
    if (std::find(out.begin(), out.end(), d) == out.end()) out.push_back(d);
  };
  if (op.kind == StepOp::Kind::exchange) {
    for (std::uint32_t t = op.first_transfer; t < op.first_transfer + op.transfer_count; ++t) {
      const StepTransfer& transfer = steps.transfers[t];
      if (transfer.send == incoming || transfer.partner_op == StepTransfer::none) continue;
      const Rank peer = group_ranks(groups_[index(transfer.group)], mesh_, rank)[index(transfer.peer)];
      const std::uint32_t other = stand_in(peer);
      if (other != none) add({other, OpId{transfer.partner_op}}, Dependency::Kind::message);
    }
  }
  if (op.kind == StepOp::Kind::collective) {
    for (const Rank member : group_ranks(groups_[op.group], mesh_, rank)) {
      const std::uint32_t other = stand_in(member);
      if (other == none || other == p.rank) continue;
      const std::vector<StepOp>& ops = list(other).ops;
      // In a rank of one class the op has the same number; in other classes it is searched for.
      const auto is_it = [&](const StepOp& o) {
        return o.kind == StepOp::Kind::collective && o.group == op.group && o.ordinal == op.ordinal;
      };
      auto found = ops.begin() + index(p.op);
      if (classes_[other] != classes_[p.rank]) found = std::find_if(ops.begin(), ops.end(), is_it);
      if (found != ops.end()) {
        add({other, OpId{static_cast<std::uint32_t>(found - ops.begin())}}, Dependency::Kind::collective);
      }
    }
  }
}

std::vector<Dependency> Dependencies::waited_for(const OpPlace& p) const {
  std::vector<Dependency> out;
  if (p.rank >= classes_.size() || index(p.op) >= list(p.rank).ops.size()) return out;
  const StepList& steps = list(p.rank);
  const StepOp& op = steps.ops[index(p.op)];
  if (const std::uint32_t before = previous_[classes_[p.rank]][index(p.op)]; before != none) {
    out.push_back({{p.rank, OpId{before}}, p, Dependency::Kind::lane});
  }
  for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w) {
    const OpPlace from{p.rank, OpId{steps.waits[w]}};
    const bool known = std::any_of(out.begin(), out.end(), [&](const Dependency& d) { return d.from == from; });
    if (!known) out.push_back({from, p, Dependency::Kind::wait});
  }
  add_partners(p, true, out);
  const auto latest = std::max_element(out.begin(), out.end(), [&](const Dependency& a, const Dependency& b) {
    const auto end = [&](const Dependency& d) {
      return d.kind == Dependency::Kind::collective || d.kind == Dependency::Kind::message ? -1 : end_of(d.from);
    };
    return end(a) < end(b);
  });
  if (latest != out.end()) latest->last = true;
  return out;
}

std::vector<Dependency> Dependencies::waited_by(const OpPlace& p) const {
  std::vector<Dependency> out;
  if (p.rank >= classes_.size() || index(p.op) >= list(p.rank).ops.size()) return out;
  const StepList& steps = list(p.rank);
  const std::vector<std::uint32_t>& previous = previous_[classes_[p.rank]];
  for (std::uint32_t i = index(p.op) + 1; i < steps.ops.size(); ++i) {
    const StepOp& op = steps.ops[i];
    const OpPlace to{p.rank, OpId{i}};
    if (previous[i] == index(p.op)) {
      out.push_back({p, to, Dependency::Kind::lane});
    } else if (std::find(steps.waits.begin() + op.first_wait, steps.waits.begin() + op.first_wait + op.wait_count,
                         index(p.op)) != steps.waits.begin() + op.first_wait + op.wait_count) {
      out.push_back({p, to, Dependency::Kind::wait});
    }
  }
  add_partners(p, false, out);
  return out;
}

std::vector<PathMark> path_marks(const Timeline& timeline, const CriticalPath& path) {
  std::vector<PathMark> out;
  for (const CriticalStep& s : path.steps) {
    const auto rank = rank_position(timeline, s.rank);
    const auto place = rank ? place_of(timeline, {*rank, s.op}) : std::nullopt;
    if (place) out.push_back({*place, s.start, s.end});
  }
  return out;
}

}  // namespace orrery::gui
