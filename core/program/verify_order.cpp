#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/program/program_text.hpp"
#include "core/program/tail_history.hpp"
#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

// Checks matching and deadlock between ranks, without times.
//
// Who takes part: One actor per class of ranks is enough when every transfer's group and every group that keeps only
// some members lie along the class axes. Then partners of a rank differ from it along class axes only, or are ranks of
// whole groups. What a rank's op waits for, projected to classes, is therefore the same for all ranks of its class. A
// wait-for cycle among ranks projects to a cycle among classes; and a cycle among classes lifts to a path of any length
// among finitely many ranks, so to a cycle. Within a whole group along other axes the ranks of a class run the same
// list and meet op by op. Where the condition fails, every rank is an actor.
//
// What is simulated: Matching is fixed by list order (the k-th collective on a group meets the k-th, the k-th send the
// k-th receive), so nothing is left to choose: an op starts when what it waits for has ended, and ends when its
// partners' ops have started. Advancing in any order reaches the same end.
//
// One op at a time implies lanes side by side: every lane edge and every wait
// goes from an earlier op of the list to a later one, so a wait-for cycle with
// lanes is also one in list order.  The second simulation runs only to say
// which of the two fails.

/// One Collective or Exchange of an actor's list.
struct Meeting {
  OpRun run{};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> partners;  ///< (actor, index into its meetings)
};

struct Actor {
  Rank rank{};
  std::vector<Meeting> meetings;
};

/// A send or receive that waits for its counterpart.
struct End {
  std::uint32_t actor = 0, meeting = 0;
  std::uint64_t bytes = 0;
  Instance what;
};

bool along_class_axes(const Program& p, const AxisList& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](Axis a) {
    return p.mesh.size(a) == 1 || std::find(p.class_axes.begin(), p.class_axes.end(), a) != p.class_axes.end();
  });
}

bool one_actor_per_class(const Program& p) {
  for (const Block& block : p.blocks) {
    for (const Transfer& t : block.transfers) {
      if (!along_class_axes(p, p[t.group].axes)) return false;
    }
    for (const Op& op : block.ops) {
      const auto* c = std::get_if<Collective>(&op.action);
      if (c != nullptr && !p[c->group].members.empty() && !along_class_axes(p, p[c->group].axes)) return false;
    }
  }
  return true;
}

class Order {
 public:
  Order(Findings& f, bool setup) : f_(f), p_(f.program()), setup_(setup), folded_(one_actor_per_class(p_)) {}

  void check() {
    if (!gather()) return;
    match_collectives();
    match_transfers();
    if (!f_.empty()) return;
    simulate();
  }

 private:
  [[nodiscard]] const std::vector<Slot>& slots(Rank rank) const {
    const RankClass& c = p_.classes[class_of(p_, rank)];
    return setup_ ? c.setup : c.step;
  }
  [[nodiscard]] std::uint32_t actor_of(Rank rank) const { return folded_ ? class_of(p_, rank) : index(rank); }

  bool gather() {
    const std::uint64_t count = folded_ ? p_.classes.size() : p_.mesh.size();
    std::uint64_t ops = 0;
    for (const RankClass& c : p_.classes) {
      for (const Slot& s : setup_ ? c.setup : c.step) ops += s.repeat * p_[s.block].ops.size();
    }
    // Ranks that do not fold into classes are walked one by one.
    if (!folded_ && (count > 1'000'000 || count * (ops / p_.classes.size() + 1) > 100'000'000)) {
      f_.add("program.size", fmt::format("{} ranks whose transfers cross classes are too many to check", count));
      return false;
    }
    actors_.resize(count);
    for (std::uint32_t a = 0; a < count; ++a) {
      Actor& actor = actors_[a];
      actor.rank = folded_ ? representative(p_, a) : Rank{a};
      for_each_op(p_, slots(actor.rank), [&](const OpRun& run) {
        if (std::holds_alternative<Collective>(run.op->action) || std::holds_alternative<Exchange>(run.op->action)) {
          actor.meetings.push_back({run, {}});
        }
      });
    }
    return true;
  }

  void wrong(std::string code, const std::string& what, std::uint32_t actor, std::uint32_t meeting) {
    f_.add_run(std::move(code), what, actors_[actor].rank, setup_, actors_[actor].meetings[meeting].run);
  }

  // --- collectives ---------------------------------------------------------

  static const Collective& collective(const Meeting& m) { return std::get<Collective>(m.run.op->action); }

  /// Tells why two members' ops are not the same collective; empty when they are.
  std::string difference(const Meeting& a, const Meeting& b) const {
    const Collective& x = collective(a);
    const Collective& y = collective(b);
    if (x.kind != y.kind) return fmt::format("{} meets {}", name_of(x.kind), name_of(y.kind));
    if (x.reduction != y.reduction) {
      return x.reduction == Collective::Reduction::sum ? "sum meets max" : "max meets sum";
    }
    if (x.width != y.width) return fmt::format("width {} meets width {}", x.width, y.width);
    if (x.root != y.root) return fmt::format("root {} meets root {}", index(x.root), index(y.root));
    if (a.run.op->views.count != b.run.op->views.count) {
      return fmt::format("{} operands meet {}", a.run.op->views.count, b.run.op->views.count);
    }
    for (std::uint32_t i = 0; i < a.run.op->views.count; ++i) {
      const View& v = a.run.block->views[a.run.op->views.first + i];
      const View& w = b.run.block->views[b.run.op->views.first + i];
      if (v.count != w.count) return fmt::format("{} elements meet {} in operand {}", v.count, w.count, i);
      if (p_[v.buffer].dtype != p_[w.buffer].dtype) {
        return fmt::format("{} meets {} in operand {}", name_of(p_[v.buffer].dtype), name_of(p_[w.buffer].dtype), i);
      }
    }
    return {};
  }

  void match_collectives() {
    // For each actor, its collectives on each group in list order.
    std::vector<std::map<std::uint32_t, std::vector<std::uint32_t>>> sequences(actors_.size());
    for (std::uint32_t a = 0; a < actors_.size(); ++a) {
      for (std::uint32_t m = 0; m < actors_[a].meetings.size(); ++m) {
        const auto* c = std::get_if<Collective>(&actors_[a].meetings[m].run.op->action);
        if (c != nullptr) sequences[a][index(c->group)].push_back(m);
      }
    }
    static const std::vector<std::uint32_t> none;
    for (std::uint32_t a = 0; a < actors_.size(); ++a) {
      for (const auto& [g, mine] : sequences[a]) {
        const Group& group = p_.groups[g];
        if (!peer_of(group, p_.mesh, actors_[a].rank)) {
          wrong("program.collective", "the rank is not a member of the group", a, mine[0]);
          continue;
        }
        std::vector<std::uint32_t> partners;
        for (const Rank r : group_ranks(group, p_.mesh, actors_[a].rank)) partners.push_back(actor_of(r));
        std::sort(partners.begin(), partners.end());
        partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
        for (const std::uint32_t b : partners) {
          if (b == a) continue;
          const auto found = sequences[b].find(g);
          const auto& theirs = found == sequences[b].end() ? none : found->second;
          compare(a, mine, b, theirs);
          if (f_.full()) return;
        }
      }
    }
  }

  void compare(std::uint32_t a, const std::vector<std::uint32_t>& mine, std::uint32_t b,
               const std::vector<std::uint32_t>& theirs) {
    for (std::size_t k = 0; k < std::min(mine.size(), theirs.size()); ++k) {
      Meeting& m = actors_[a].meetings[mine[k]];
      const std::string what = difference(m, actors_[b].meetings[theirs[k]]);
      if (!what.empty()) {
        // Both sides find the mistake; only the first reports it.
        if (a < b) {
          wrong("program.collective",
                fmt::format("{}: collective {} of the group here and on rank {}", what, k, index(actors_[b].rank)), a,
                mine[k]);
        }
        return;
      }
      m.partners.emplace_back(b, theirs[k]);
    }
    if (mine.size() > theirs.size()) {
      wrong("program.collective",
            fmt::format("rank {} issues {} collectives on this group, this rank {}", index(actors_[b].rank),
                        theirs.size(), mine.size()),
            a, mine[theirs.size()]);
    }
  }

  // --- transfers -----------------------------------------------------------

  void match_transfers() {
    // Keys are (channel, from, to) in ranks: the folded actors are closed under partners.
    std::map<std::tuple<std::uint8_t, std::uint32_t, std::uint32_t>, std::pair<std::vector<End>, std::vector<End>>> all;
    for (std::uint32_t a = 0; a < actors_.size(); ++a) {
      const Rank here = actors_[a].rank;
      for (std::uint32_t m = 0; m < actors_[a].meetings.size(); ++m) {
        const OpRun& run = actors_[a].meetings[m].run;
        const auto* e = std::get_if<Exchange>(&run.op->action);
        if (e == nullptr) continue;
        for (std::uint32_t i = 0; i < e->transfers.count; ++i) {
          const Transfer& t = run.block->transfers[e->transfers.first + i];
          if (!peer_of(p_[t.group], p_.mesh, here)) {
            wrong("program.transfer", "the rank is not a member of the group", a, m);
            continue;
          }
          const Rank there = group_ranks(p_[t.group], p_.mesh, here)[index(t.peer)];
          if (there == here) {
            wrong("program.transfer", "the rank sends to itself", a, m);
            continue;
          }
          const View& v = run.block->views[run.op->views.first + t.view];
          const std::uint32_t x = index(here), y = index(there);
          auto& ends = all[t.send ? std::tuple(t.channel, x, y) : std::tuple(t.channel, y, x)];
          (t.send ? ends.first : ends.second)
              .push_back({a, m, v.count * size_of(p_[v.buffer].dtype),
                          instance_of(p_, v.buffer, v.layer_shift, run.layer, run.microbatch)});
        }
        if (f_.full()) return;
      }
    }
    for (const auto& [key, ends] : all) {
      const auto& [sends, receives] = ends;
      const auto& [channel, from, to] = key;
      for (std::size_t k = 0; k < std::min(sends.size(), receives.size()); ++k) {
        const End& s = sends[k];
        const End& r = receives[k];
        if (s.bytes != r.bytes) {
          wrong("program.transfer",
                fmt::format("message {} from rank {} to {} on channel {} is sent with {} bytes and received with {}", k,
                            from, to, channel, s.bytes, r.bytes),
                s.actor, s.meeting);
        } else if (s.what.buffer == r.what.buffer && s.what != r.what) {
          // A declaration stands for one tensor of the model: its instance is the same wherever it lies.
          wrong(
              "program.transfer",
              fmt::format("message {} from rank {} to {} on channel {} is sent as {} of layer {} and microbatch {} and "
                          "received as that of layer {} and microbatch {}",
                          k, from, to, channel, p_[s.what.buffer].name, s.what.layer, s.what.microbatch, r.what.layer,
                          r.what.microbatch),
              s.actor, s.meeting);
        }
        actors_[s.actor].meetings[s.meeting].partners.emplace_back(r.actor, r.meeting);
        actors_[r.actor].meetings[r.meeting].partners.emplace_back(s.actor, s.meeting);
      }
      if (sends.size() != receives.size()) {
        const bool more_sends = sends.size() > receives.size();
        const End& e = more_sends ? sends[receives.size()] : receives[sends.size()];
        wrong("program.transfer",
              fmt::format("rank {} sends {} messages to rank {} on channel {}, which receives {}", from, sends.size(),
                          to, channel, receives.size()),
              e.actor, e.meeting);
      }
      if (f_.full()) return;
    }
  }

  // --- deadlock ------------------------------------------------------------

  void simulate() {
    // at[a] is the meeting that a has started and not ended; all meetings before it have ended.
    std::vector<std::uint32_t> at(actors_.size(), 0);
    std::vector<std::vector<std::uint32_t>> sleepers(actors_.size());  ///< who waits for an actor to move on
    std::vector<std::uint32_t> awake(actors_.size());
    for (std::uint32_t a = 0; a < actors_.size(); ++a) awake[a] = a;
    while (!awake.empty()) {
      const std::uint32_t a = awake.back();
      awake.pop_back();
      bool moved = false;
      while (at[a] < actors_[a].meetings.size()) {
        const auto blocker = blocked_by(a, at[a], at);
        if (blocker) {
          sleepers[*blocker].push_back(a);
          break;
        }
        ++at[a];
        moved = true;
      }
      if (moved) {
        awake.insert(awake.end(), sleepers[a].begin(), sleepers[a].end());
        sleepers[a].clear();
      }
    }
    for (std::uint32_t a = 0; a < actors_.size(); ++a) {
      if (at[a] < actors_[a].meetings.size()) {
        report(a, at);
        return;
      }
    }
  }

  /// An actor whose part of the meeting has not started; empty when all have.
  [[nodiscard]] std::optional<std::uint32_t> blocked_by(std::uint32_t a, std::uint32_t meeting,
                                                        const std::vector<std::uint32_t>& at) const {
    for (const auto& [actor, theirs] : actors_[a].meetings[meeting].partners) {
      if (at[actor] < theirs) return actor;
    }
    return std::nullopt;
  }

  void report(std::uint32_t a, const std::vector<std::uint32_t>& at) {
    // Every stuck actor waits for one that is stuck as well, so the walk ends in a cycle.
    std::vector<std::uint32_t> path;
    while (std::find(path.begin(), path.end(), a) == path.end()) {
      path.push_back(a);
      a = *blocked_by(a, at[a], at);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), a));
    std::string cycle;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Actor& actor = actors_[path[i]];
      const OpRun& run = actor.meetings[at[path[i]]].run;
      cycle += fmt::format("{}rank {} stands at '{}' (block {}, op {}, layer {}, microbatch {}) and waits for rank {}",
                           i == 0 ? "" : "; ", index(actor.rank), op_text(p_, *run.block, *run.op), run.block->name,
                           run.op_index, run.layer, run.microbatch, index(actors_[path[(i + 1) % path.size()]].rank));
    }
    const bool lanes = lanes_deadlock();
    wrong(
        lanes ? "program.deadlock" : "program.deadlock-serial",
        fmt::format("{}: {}",
                    lanes ? "the ranks wait for each other" : "one op at a time, the ranks wait for each other", cycle),
        path[0], at[path[0]]);
  }

  /// Whether it also happens when lanes run side by side.
  [[nodiscard]] bool lanes_deadlock() const {
    // Each timed op has two nodes: started, ended. pending counts what each still waits for.
    std::vector<std::uint32_t> pending;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  ///< (node, node that waits for it)
    std::vector<std::vector<std::uint32_t>> meeting_nodes(actors_.size());
    const auto edge = [&](std::uint32_t from, std::uint32_t to) {
      edges.emplace_back(from, to);
      ++pending[to];
    };
    for (std::uint32_t a = 0; a < actors_.size(); ++a) {
      constexpr std::uint32_t none = ~0U;
      TailHistory<std::uint32_t> tails(none);
      std::vector<std::uint32_t> in_block;
      std::uint32_t run_number = none;
      for_each_op(p_, slots(actors_[a].rank), [&](const OpRun& run) {
        if (run.block_run != run_number) {
          run_number = run.block_run;
          tails.enter(run.receives_ahead);
          in_block.assign(run.block->ops.size(), none);
        }
        if (!is_timed(*run.op)) return;
        const auto node = static_cast<std::uint32_t>(pending.size());
        pending.resize(pending.size() + 2, 0);
        edge(node, node + 1);
        const auto after = [&](std::uint32_t earlier) {
          if (earlier != none) edge(earlier + 1, node);
        };
        const std::size_t lane = lane_number(run.op->lane);
        after(tails.last(lane));
        for (std::uint32_t i = 0; i < run.op->waits.count; ++i) {
          const Wait& w = run.block->waits[run.op->waits.first + i];
          after(w.kind == Wait::Kind::op ? in_block[w.op] : tails.at_entry(lane_number(w.lane)));
        }
        tails.issued(lane, node);
        in_block[run.op_index] = node;
        if (!std::holds_alternative<Compute>(run.op->action) && !std::holds_alternative<Copy>(run.op->action)) {
          meeting_nodes[a].push_back(node);
        }
      });
    }
    for (std::uint32_t a = 0; a < actors_.size(); ++a) {
      for (std::size_t m = 0; m < actors_[a].meetings.size(); ++m) {
        for (const auto& [b, theirs] : actors_[a].meetings[m].partners) {
          edge(meeting_nodes[b][theirs], meeting_nodes[a][m] + 1);
        }
      }
    }
    std::sort(edges.begin(), edges.end());
    std::vector<std::uint32_t> ready;
    for (std::uint32_t n = 0; n < pending.size(); ++n) {
      if (pending[n] == 0) ready.push_back(n);
    }
    std::size_t done = 0;
    while (!ready.empty()) {
      const std::uint32_t n = ready.back();
      ready.pop_back();
      ++done;
      for (auto e = std::lower_bound(edges.begin(), edges.end(), std::pair(n, 0U)); e != edges.end() && e->first == n;
           ++e) {
        if (--pending[e->second] == 0) ready.push_back(e->second);
      }
    }
    return done < pending.size();
  }

  Findings& f_;
  const Program& p_;
  bool setup_;
  bool folded_;
  std::vector<Actor> actors_;
};

}  // namespace

void check_order(Findings& f) {
  Order(f, true).check();
  f.reached(1, 2);
  if (f.empty()) Order(f, false).check();
}

}  // namespace orrery::verifying
