#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/program/tail_history.hpp"
#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

// Checks lifetimes, first writes and hazards of one rank, in one walk over its list.
//
// Happens-before: For every op we keep, per lane, how many of that lane's ops have ended when it starts. This is the
// elementwise maximum over the op before it on its lane and the ops it waits for. Lanes are FIFO, so the set of ops
// known to have ended is a prefix of each lane, and the prefix lengths say all: a happens before b exactly when b's
// count for a's lane reaches past a.
//
// Choice of ranks: Ranks of a class run the same list, so they have the same lifetimes and the same happens-before.
// They differ only in where a view with `member_of` lies, and in who is the root of a broadcast or reduce. One rank of
// each class is walked in full. For buffers that such views name, one rank is walked for every coordinate along those
// axes.

using Counts = std::array<std::uint32_t, lane_count>;

void raise(Counts& counts, const Counts& other) {
  for (std::size_t i = 0; i < lane_count; ++i) counts[i] = std::max(counts[i], other[i]);
}

struct Interval {
  std::uint64_t low = 0, high = 0;  ///< [low, high)
};

/// Elements written since Alloc, as sorted disjoint intervals.
class Written {
 public:
  void remove(Interval gone) {
    std::vector<Interval> left;
    for (const Interval& i : list_) {
      if (i.low < std::min(i.high, gone.low)) left.push_back({i.low, std::min(i.high, gone.low)});
      if (std::max(i.low, gone.high) < i.high) left.push_back({std::max(i.low, gone.high), i.high});
    }
    list_ = std::move(left);
  }
  [[nodiscard]] bool covers(Interval wanted) const {
    for (const Interval& i : list_) {
      if (i.low <= wanted.low && wanted.high <= i.high) return true;
    }
    return false;
  }
  void add(Interval fresh) {
    std::size_t at = 0;
    while (at < list_.size() && list_[at].high < fresh.low) ++at;
    std::size_t end = at;
    while (end < list_.size() && list_[end].low <= fresh.high) {
      fresh.low = std::min(fresh.low, list_[end].low);
      fresh.high = std::max(fresh.high, list_[end].high);
      ++end;
    }
    if (end == at) {
      list_.insert(list_.begin() + static_cast<std::ptrdiff_t>(at), fresh);
    } else {
      list_[at] = fresh;
      list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                  list_.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }

 private:
  std::vector<Interval> list_;
};

struct Access {
  Interval where;
  bool writes = false;
  std::uint32_t lane = 0;
  std::uint32_t position = 0;  ///< on the lane
  const Block* block = nullptr;
  std::uint32_t op = 0;
  std::uint32_t layer = 0, microbatch = 0;
};

struct Live {
  bool live = false;
  Written written;
  std::vector<Access> accesses;  ///< accesses since Alloc, except those that a later access stands for
};

class RankWalk {
 public:
  /// `only` restricts the walk to some buffers (indexed by BufferId); empty walks all.
  RankWalk(Findings& f, Rank rank, const std::vector<bool>& only) : f_(f), p_(f.program()), rank_(rank), only_(only) {
    for (std::uint32_t b = 0; b < p_.buffers.size(); ++b) {
      if (const auto& memory = p_.buffers[b].reuses) shared_[index(*memory)] = BufferId{b};
    }
  }

  void walk() {
    const RankClass& c = p_.classes[class_of(p_, rank_)];
    list(c.setup, true);
    const auto kept = live();
    list(c.step, false);
    if (f_.full()) return;
    for (const Instance& i : live()) {
      if (!kept.contains(i)) leftover(i, "is still live after the step, but was not before");
    }
    const auto after = live();
    for (const Instance& i : kept) {
      if (!after.contains(i)) leftover(i, "was live before the step, but no longer is");
    }
  }

 private:
  void list(const std::vector<Slot>& slots, bool setup) {
    setup_ = setup;
    // Order on lanes does not carry over from one list to the next.
    tails_ = TailHistory<Counts>();
    position_ = {};
    run_ = ~0U;
    for (auto& [key, state] : states_) state.accesses.clear();
    for_each_op(p_, slots, [&](const OpRun& run) {
      if (f_.full()) return;
      if (run.block_run != run_) {
        run_ = run.block_run;
        tails_.enter(run.receives_ahead);
        ended_.assign(run.block->ops.size(), Counts{});
      }
      op(run);
    });
  }

  [[nodiscard]] std::set<Instance> live() const {
    std::set<Instance> out;
    for (const auto& [key, state] : states_) {
      if (state.live) out.insert(state_instances_.at(key));
    }
    return out;
  }

  void leftover(const Instance& i, std::string_view what) {
    f_.add("program.lifetime", fmt::format("{} {} (class {})", named(i), what, class_of(p_, rank_)));
  }

  [[nodiscard]] std::string named(const Instance& i) const {
    const Buffer& b = p_[i.buffer];
    std::string out = b.name;
    if (per_layer(b.scope)) out += fmt::format(" of layer {}", i.layer);
    if (per_microbatch(b.scope)) out += fmt::format(" of microbatch {}", i.microbatch);
    return out;
  }

  Live& state(const Instance& i) {
    const std::uint64_t key =
        (std::uint64_t{index(i.buffer)} * (std::uint64_t{p_.layers} + 1) + i.layer) * p_.microbatches + i.microbatch;
    const auto [at, fresh] = states_.try_emplace(key);
    if (fresh) state_instances_.emplace(key, i);
    return at->second;
  }

  void op(const OpRun& run) {
    if (const auto* a = std::get_if<Alloc>(&run.op->action)) return memory(run, a->what, a->layer_shift, true);
    if (const auto* a = std::get_if<Free>(&run.op->action)) return memory(run, a->what, a->layer_shift, false);

    const auto lane = static_cast<std::uint32_t>(lane_number(run.op->lane));
    Counts before = tails_.last(lane);
    for (std::uint32_t i = 0; i < run.op->waits.count; ++i) {
      const Wait& w = run.block->waits[run.op->waits.first + i];
      if (w.kind == Wait::Kind::op) {
        raise(before, ended_[w.op]);
      } else {
        raise(before, tails_.at_entry(lane_number(w.lane)));  // nothing issued yet: all zero, nothing to wait for
      }
    }
    const std::uint32_t position = position_[lane]++;
    touched_.clear();
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = run.block->views[run.op->views.first + i];
      if (only_.empty() || only_[index(v.buffer)]) touched_.push_back(touch(run, v));
    }
    for (const Touch& t : touched_) check(run, t, before, lane);
    for (const Touch& t : touched_) record(run, t, lane, position);
    before[lane] = position + 1;
    ended_[run.op_index] = before;
    tails_.issued(lane, before);
  }

  void memory(const OpRun& run, BufferId what, std::int8_t shift, bool alloc) {
    if (!only_.empty() && !only_[index(what)]) return;
    const Instance i = instance_of(p_, what, shift, run.layer, run.microbatch);
    Live& s = state(i);
    if (s.live == alloc) {
      f_.add_run("program.lifetime", fmt::format("{} {}", named(i), alloc ? "is live already" : "is not live"), rank_,
                 setup_, run);
    }
    s = Live{};
    s.live = alloc;
    if (const auto other = sharing(i); other && state(*other).live != p_[what].reuses.has_value()) {
      f_.add_run("program.lifetime",
                 p_[what].reuses
                     ? fmt::format("{} lives in the memory of {}, which is not live", named(i), named(*other))
                     : fmt::format("{} still lives in the memory of {}", named(*other), named(i)),
                 rank_, setup_, run);
    }
  }

  /// The instance that has the same memory.
  [[nodiscard]] std::optional<Instance> sharing(Instance i) const {
    const auto taker = shared_.find(index(i.buffer));
    if (taker == shared_.end() && !p_[i.buffer].reuses) return std::nullopt;
    i.buffer = taker != shared_.end() ? taker->second : *p_[i.buffer].reuses;
    return i;
  }
  /// The instance that owns the memory.
  [[nodiscard]] Instance memory_of(Instance i) const {
    if (const auto& memory = p_[i.buffer].reuses) i.buffer = *memory;
    return i;
  }

  [[nodiscard]] Interval interval(const View& v) const {
    const std::uint64_t low = offset_on(p_.mesh, v, rank_);
    return {low, low + v.count};
  }
  /// What the op does with its view on this rank.  In a broadcast that all
  /// members share, the root reads and the others write.
  [[nodiscard]] View::Use use(const OpRun& run, const View& v) const {
    const auto* c = std::get_if<Collective>(&run.op->action);
    if (c != nullptr && c->kind == Collective::Kind::broadcast && v.use == View::Use::accumulate) {
      return peer_of(p_[c->group], p_.mesh, rank_) == c->root ? View::Use::read : View::Use::write;
    }
    return v.use;
  }

  /// What an op's view is on this rank.
  struct Touch {
    Instance instance;
    Live* own;
    std::vector<Access>* accesses;  ///< of the one whose memory it is in
    Interval where;
    View::Use how;
  };
  [[nodiscard]] Touch touch(const OpRun& run, const View& v) {
    const Instance instance = instance_of(p_, v.buffer, v.layer_shift, run.layer, run.microbatch);
    Live& own = state(instance);
    Live& memory = p_[v.buffer].reuses ? state(memory_of(instance)) : own;
    return {instance, &own, &memory.accesses, interval(v), use(run, v)};
  }

  void check(const OpRun& run, const Touch& t, const Counts& before, std::uint32_t lane) {
    const auto& [instance, own, accesses, where, how] = t;
    Live& s = *own;
    if (!s.live) {
      f_.add_run("program.lifetime", fmt::format("{} is used while it is not live", named(instance)), rank_, setup_,
                 run);
      s.live = true;  // once is enough
      s.written.add({0, p_[instance.buffer].count});
    }
    if (how != View::Use::write && !s.written.covers(where)) {
      f_.add_run("program.uninitialized",
                 fmt::format("elements {} to {} of {} are read, but not all were ever written", where.low, where.high,
                             named(instance)),
                 rank_, setup_, run);
      s.written.add(where);
    }
    for (const Access& a : *accesses) {
      const bool overlap = a.where.low < where.high && where.low < a.where.high;
      if (!overlap || (!a.writes && how == View::Use::read)) continue;
      if (a.lane == lane || before[a.lane] > a.position) continue;
      f_.add_run("program.hazard",
                 fmt::format("elements {} to {} of {} are {} without waiting for op {} of block {} (layer {}, "
                             "microbatch {}), which {} them",
                             std::max(a.where.low, where.low), std::min(a.where.high, where.high), named(instance),
                             how == View::Use::read ? "read" : "written", a.op, a.block->name, a.layer, a.microbatch,
                             a.writes ? "writes" : "reads"),
                 rank_, setup_, run);
      return;
    }
  }

  void record(const OpRun& run, const Touch& t, std::uint32_t lane, std::uint32_t position) {
    const Interval where = t.where;
    const bool writes = t.how != View::Use::read;
    // An op that is ordered after this write is also ordered after everything before the write, so the write stands for
    // all of it. A read stands for the reads before it on its lane.
    std::erase_if(*t.accesses, [&](const Access& a) {
      const bool inside = where.low <= a.where.low && a.where.high <= where.high;
      return inside && (writes || (!a.writes && a.lane == lane));
    });
    t.accesses->push_back({where, writes, lane, position, run.block, run.op_index, run.layer, run.microbatch});
    if (!writes) return;
    t.own->written.add(where);
    if (const auto other = sharing(t.instance)) state(*other).written.remove(where);
  }

  Findings& f_;
  const Program& p_;
  Rank rank_;
  const std::vector<bool>& only_;
  bool setup_ = false;
  std::uint32_t run_ = ~0U;
  TailHistory<Counts> tails_;  ///< after the last op of each lane
  Counts position_{};
  std::vector<Counts> ended_;                           ///< of the current run's ops
  std::unordered_map<std::uint32_t, BufferId> shared_;  ///< buffers that reuse the memory of others
  std::unordered_map<std::uint64_t, Live> states_;      ///< its elements stay where they are
  std::vector<Touch> touched_;                          ///< by the op at hand
  std::unordered_map<std::uint64_t, Instance> state_instances_;
};

/// Axes along which ranks of one class can differ in what they touch, and the
/// buffers concerned.
struct Parts {
  AxisList axes;
  std::vector<bool> buffers;
};

Parts parts_of(const Program& p) {
  Parts out;
  out.buffers.assign(p.buffers.size(), false);
  const auto add = [&](const AxisList& axes) {
    for (const Axis axis : axes) {
      const auto listed = [&](const AxisList& list) { return std::find(list.begin(), list.end(), axis) != list.end(); };
      if (!listed(out.axes) && !listed(p.class_axes)) out.axes.axis[out.axes.count++] = axis;
    }
  };
  for (const Block& block : p.blocks) {
    for (const Op& op : block.ops) {
      const auto* c = std::get_if<Collective>(&op.action);
      const bool rooted =
          c != nullptr && (c->kind == Collective::Kind::broadcast || c->kind == Collective::Kind::reduce);
      if (rooted) add(p[c->group].axes);
      for (std::uint32_t i = 0; i < op.views.count; ++i) {
        const View& v = block.views[op.views.first + i];
        if (!v.member_of.empty() || rooted) out.buffers[index(v.buffer)] = true;
        add(v.member_of);
      }
    }
  }
  return out;
}

std::uint64_t ops_of(const Program& p, const RankClass& c) {
  std::uint64_t ops = 0;
  for (const auto* slots : {&c.setup, &c.step}) {
    for (const Slot& s : *slots) ops += s.repeat * p[s.block].ops.size();
  }
  return ops;
}

}  // namespace

void check_data(Findings& f) {
  const Program& p = f.program();
  const Parts parts = parts_of(p);
  const std::vector<bool> all;
  for (std::uint32_t c = 0; c < p.classes.size() && !f.full(); ++c) {
    const Rank first = representative(p, c);
    RankWalk(f, first, all).walk();
    // Then the other places of the parts are walked. Beyond some millions of ops only evenly spaced places are: the
    // last one, and as many before it as the budget allows.
    constexpr std::uint64_t budget = 20'000'000;
    constexpr std::uint64_t most = 4096;
    const std::uint64_t places = size(p.mesh, parts.axes);
    const std::uint64_t ops = std::max<std::uint64_t>(1, ops_of(p, p.classes[c]));
    const std::uint64_t fit = std::clamp<std::uint64_t>(budget / ops, 2, most);
    const std::uint64_t walks = std::min(places, fit);
    for (std::uint64_t i = 1; i < walks && f.empty(); ++i) {
      std::uint64_t at = walks == places ? i : i * (places - 1) / (walks - 1);
      Rank rank = first;
      for (std::size_t a = parts.axes.count; a-- > 0;) {
        const std::uint32_t extent = p.mesh.size(parts.axes.axis[a]);
        rank = p.mesh.moved(rank, parts.axes.axis[a], static_cast<std::uint32_t>(at % extent));
        at /= extent;
      }
      RankWalk(f, rank, parts.buffers).walk();
      f.reached(c * walks + i, p.classes.size() * walks);
    }
  }
}

}  // namespace orrery::verifying
