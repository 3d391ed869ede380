#include "tests/property/core/program_oracle.hpp"

#include <algorithm>
#include <array>
#include <boost/dynamic_bitset.hpp>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

namespace orrery::test {

namespace {

struct Touch {
  Instance instance;
  int generation = 0;  ///< how often the instance was allocated before
  std::uint64_t low = 0, high = 0;
  bool reads = false, writes = false;
};

/// One timed op of one rank.
struct Step {
  OpRun run{};
  std::vector<std::size_t> before;  ///< steps that end before it starts: lane and waits
  std::vector<Touch> touches;
};

struct RankList {
  std::vector<Step> steps;
  std::string fault;
};

/// Lifetimes, first writes, and the steps of one rank's setup or step list.
class Expand {
 public:
  Expand(const Program& p, Rank rank) : p_(p), rank_(rank) {}

  RankList list(const std::vector<Slot>& slots) {
    RankList out;
    std::map<std::size_t, std::vector<std::size_t>> issued, issued_at_start;  // by lane
    std::vector<std::size_t> in_block;
    std::uint32_t run_number = ~0U;
    const auto fault = [&](const char* what) {
      if (out.fault.empty()) out.fault = what;
    };
    for_each_op(p_, slots, [&](const OpRun& run) {
      if (run.block_run != run_number) {
        run_number = run.block_run;
        issued_at_start = issued;
        in_block.assign(run.block->ops.size(), ~std::size_t{0});
      }
      if (const auto* a = std::get_if<Alloc>(&run.op->action)) {
        const Instance i = instance_of(p_, a->what, a->layer_shift, run.layer, run.microbatch);
        if (written_.contains(i)) fault("allocated twice");
        written_[i].assign(p_[a->what].count, 0);
        ++generation_[i];
        return;
      }
      if (const auto* a = std::get_if<Free>(&run.op->action)) {
        const Instance i = instance_of(p_, a->what, a->layer_shift, run.layer, run.microbatch);
        if (written_.erase(i) == 0) fault("freed while not live");
        return;
      }
      Step step;
      step.run = run;
      const std::size_t lane = lane_number(run.op->lane);
      if (issued.contains(lane)) step.before.push_back(issued[lane].back());
      for (std::uint32_t w = 0; w < run.op->waits.count; ++w) {
        const Wait& wait = run.block->waits[run.op->waits.first + w];
        if (wait.kind == Wait::Kind::tail) {
          const std::size_t other = lane_number(wait.lane);
          const std::vector<std::size_t>& there = issued_at_start[other];
          const std::size_t over = is_receive(wait.lane) ? run.receives_ahead : 0;
          if (over > there.size()) fault("bad wait");
          if (over < there.size()) step.before.push_back(there[there.size() - 1 - over]);
        } else if (wait.op >= run.op_index || in_block[wait.op] == ~std::size_t{0}) {
          fault("bad wait");
        } else {
          step.before.push_back(in_block[wait.op]);
        }
      }
      for (std::uint32_t v = 0; v < run.op->views.count; ++v) {
        const View& view = run.block->views[run.op->views.first + v];
        Touch t;
        t.instance = instance_of(p_, view.buffer, view.layer_shift, run.layer, run.microbatch);
        t.low = offset_on(p_.mesh, view, rank_);
        t.high = t.low + view.count;
        t.reads = view.use != View::Use::write;
        t.writes = view.use != View::Use::read;
        t.generation = generation_[t.instance];
        const auto at = written_.find(t.instance);
        if (at == written_.end()) {
          fault("used while not live");
          continue;
        }
        const auto part = part_of(at->second, t);
        if (t.reads && std::find(part.begin(), part.end(), 0) != part.end()) fault("read before written");
        step.touches.push_back(t);
      }
      for (const Touch& t : step.touches) {
        const auto part = part_of(written_.at(t.instance), t);
        if (t.writes) std::fill(part.begin(), part.end(), std::uint8_t{1});
      }
      issued[lane].push_back(in_block[run.op_index] = out.steps.size());
      out.steps.push_back(std::move(step));
    });
    return out;
  }

  [[nodiscard]] std::set<Instance> live() const {
    std::set<Instance> out;
    for (const auto& [i, w] : written_) out.insert(i);
    return out;
  }

 private:
  const Program& p_;
  Rank rank_;
  static std::span<std::uint8_t> part_of(std::vector<std::uint8_t>& all, const Touch& t) {
    return std::span(all).subspan(t.low, t.high - t.low);
  }

  std::map<Instance, std::vector<std::uint8_t>> written_;  ///< by element, whether
  std::map<Instance, int> generation_;
};

/// Whether two conflicting steps have no path between them.
bool has_hazard(const RankList& list) {
  const std::size_t n = list.steps.size();
  std::vector<boost::dynamic_bitset<>> after(n, boost::dynamic_bitset<>(n));  // after[i][j]: j ends before i starts
  for (std::size_t i = 0; i < n; ++i) {
    for (const std::size_t j : list.steps[i].before) {
      after[i] |= after[j];
      after[i].set(j);
    }
  }
  std::map<std::pair<Instance, int>, std::vector<std::pair<std::size_t, const Touch*>>> by_instance;
  for (std::size_t i = 0; i < n; ++i) {
    for (const Touch& t : list.steps[i].touches) by_instance[{t.instance, t.generation}].emplace_back(i, &t);
  }
  for (const auto& [instance, touches] : by_instance) {
    for (std::size_t a = 0; a < touches.size(); ++a) {
      for (std::size_t b = a + 1; b < touches.size(); ++b) {
        const auto& [i, t] = touches[a];
        const auto& [j, u] = touches[b];
        const bool conflict = (t->writes || u->writes) && t->low < u->high && u->low < t->high;
        if (i != j && conflict && !after[j][i]) return true;
      }
    }
  }
  return false;
}

/// What the members of a group must agree on.
using Signature = std::tuple<int, int, std::uint32_t, std::vector<std::pair<std::uint64_t, int>>>;

std::string matching_fault(const Program& p, const std::vector<RankList>& ranks) {
  std::map<std::pair<std::uint32_t, std::vector<Rank>>, std::map<std::uint32_t, std::vector<Signature>>> groups;
  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, std::array<std::vector<std::uint64_t>, 2>> messages;
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    for (const Step& s : ranks[r].steps) {
      const auto view = [&](std::uint32_t i) { return s.run.block->views[s.run.op->views.first + i]; };
      if (const auto* c = std::get_if<Collective>(&s.run.op->action)) {
        if (!peer_of(p[c->group], p.mesh, Rank{r})) return "no member";
        Signature signature{static_cast<int>(c->kind), static_cast<int>(c->reduction), index(c->root), {}};
        for (std::uint32_t i = 0; i < s.run.op->views.count; ++i) {
          std::get<3>(signature).emplace_back(view(i).count, static_cast<int>(p[view(i).buffer].dtype));
        }
        groups[{index(c->group), group_ranks(p[c->group], p.mesh, Rank{r})}][r].push_back(signature);
      }
      if (const auto* e = std::get_if<Exchange>(&s.run.op->action)) {
        for (std::uint32_t i = 0; i < e->transfers.count; ++i) {
          const Transfer& t = s.run.block->transfers[e->transfers.first + i];
          const auto members = group_ranks(p[t.group], p.mesh, Rank{r});
          const std::uint32_t other = index(members[index(t.peer)]);
          if (other == r) return "sends to itself";
          messages[{t.channel, t.send ? r : other, t.send ? other : r}][t.send ? 0 : 1].push_back(
              view(t.view).count * size_of(p[view(t.view).buffer].dtype));
        }
      }
    }
  }
  for (const auto& [key, sequences] : groups) {
    for (const Rank member : key.second) {
      const auto found = sequences.find(index(member));
      if (found == sequences.end() || found->second != sequences.begin()->second) return "collectives differ";
    }
  }
  for (const auto& [key, ends] : messages) {
    if (ends[0] != ends[1]) return "messages differ";
  }
  return {};
}

/// One op at a time in list order; requires that everything matches.
bool deadlocks(const Program& p, const std::vector<RankList>& ranks) {
  // The k-th op on a rendezvous point, per rank.
  using Point = std::tuple<int, std::uint32_t, std::uint32_t, std::uint32_t>;  // (channel or -1, a or group, b or 0, k)
  std::vector<std::map<Point, std::size_t>> places(ranks.size());
  std::vector<std::vector<std::vector<std::pair<std::uint32_t, Point>>>> needs(ranks.size());
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    std::map<std::tuple<int, std::uint32_t, std::uint32_t, bool>, std::uint32_t> counts;
    for (std::size_t i = 0; i < ranks[r].steps.size(); ++i) {
      const OpRun& run = ranks[r].steps[i].run;
      needs[r].emplace_back();
      if (const auto* c = std::get_if<Collective>(&run.op->action)) {
        const Point point{-1, index(c->group), 0, counts[{-1, index(c->group), 0, true}]++};
        places[r][point] = i;
        for (const Rank m : group_ranks(p[c->group], p.mesh, Rank{r})) needs[r][i].emplace_back(index(m), point);
      }
      if (const auto* e = std::get_if<Exchange>(&run.op->action)) {
        for (std::uint32_t t = 0; t < e->transfers.count; ++t) {
          const Transfer& x = run.block->transfers[e->transfers.first + t];
          const std::uint32_t other = index(group_ranks(p[x.group], p.mesh, Rank{r})[index(x.peer)]);
          const std::uint32_t from = x.send ? r : other, to = x.send ? other : r;
          const Point point{x.channel, from, to, counts[{x.channel, from, to, x.send}]++};
          places[r][point] = i;
          needs[r][i].emplace_back(other, point);
        }
      }
    }
  }
  std::vector<std::size_t> at(ranks.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t r = 0; r < ranks.size(); ++r) {
      if (at[r] == ranks[r].steps.size()) continue;
      const bool ready = std::all_of(needs[r][at[r]].begin(), needs[r][at[r]].end(), [&](const auto& need) {
        return at[need.first] >= places[need.first].at(need.second);
      });
      if (!ready) continue;
      ++at[r];
      moved = true;
    }
  }
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    if (at[r] < ranks[r].steps.size()) return true;
  }
  return false;
}

/// How often each microbatch adds to a region, on all ranks of a pipeline together: a stage may be on several.
using Contributions = std::map<std::tuple<Instance, std::uint64_t, std::uint64_t>, std::map<std::uint32_t, int>>;

bool unbalanced(const Program& p, const Contributions& counts) {
  for (const auto& [region, by_microbatch] : counts) {
    for (std::uint32_t m = 0; m < p.microbatches; ++m) {
      const auto found = by_microbatch.find(m);
      if (found == by_microbatch.end() || found->second != by_microbatch.begin()->second) return true;
    }
  }
  return false;
}

/// Whether contributions to gradients are wrong: each is made once, and no parameter is left out.
bool gradients_wrong(const Program& p, const RankList& list, Rank rank, Contributions& counts) {
  std::set<std::tuple<int, std::uint32_t, std::vector<std::tuple<Instance, std::uint64_t, std::uint64_t>>>> seen;
  std::map<Instance, std::vector<bool>> covered;
  for (const Step& s : list.steps) {
    if (std::holds_alternative<Collective>(s.run.op->action)) {
      // Ranks have made these sums of products in workspaces.
      for (std::uint32_t i = 1; i < s.run.op->views.count; i += 2) {
        const View& from = s.run.block->views[s.run.op->views.first + i - 1];
        const View& to = s.run.block->views[s.run.op->views.first + i];
        if (from.use != View::Use::read || to.use != View::Use::accumulate || p[from.buffer].role == Role::gradient ||
            p[to.buffer].role != Role::gradient) {
          continue;
        }
        const Instance instance = instance_of(p, to.buffer, to.layer_shift, s.run.layer, s.run.microbatch);
        const std::uint64_t low = offset_on(p.mesh, to, rank);
        ++counts[{instance, low, to.count}][s.run.microbatch];
        auto& elements = covered[instance];
        elements.resize(p[to.buffer].count);
        for (std::uint64_t e = low; e < low + to.count; ++e) elements[e] = true;
      }
    }
    const auto* compute = std::get_if<Compute>(&s.run.op->action);
    if (compute == nullptr) continue;
    if (s.run.block->kernels[compute->kernel].kind == KernelKind::fill) {
      // A cleared buffer must be added to.
      for (std::uint32_t i = 0; i < s.run.op->views.count; ++i) {
        const View& v = s.run.block->views[s.run.op->views.first + i];
        if (p[v.buffer].role != Role::gradient) continue;
        covered[instance_of(p, v.buffer, v.layer_shift, s.run.layer, s.run.microbatch)].resize(p[v.buffer].count,
                                                                                               false);
      }
      continue;
    }
    std::vector<std::tuple<Instance, std::uint64_t, std::uint64_t>> operands;
    bool adds = false;
    for (std::uint32_t i = 0; i < s.run.op->views.count; ++i) {
      const View& v = s.run.block->views[s.run.op->views.first + i];
      const Instance instance = instance_of(p, v.buffer, v.layer_shift, s.run.layer, s.run.microbatch);
      const std::uint64_t low = offset_on(p.mesh, v, rank);
      operands.emplace_back(instance, low, v.count);
      if (v.use == View::Use::read || p[v.buffer].role != Role::gradient) continue;
      adds = adds || v.use == View::Use::accumulate;
      ++counts[operands.back()][s.run.microbatch];
      auto& elements = covered[instance];
      elements.resize(p[v.buffer].count);
      for (std::uint64_t e = low; e < low + v.count; ++e) elements[e] = true;
    }
    const auto kind = static_cast<int>(s.run.block->kernels[compute->kernel].kind);
    if (adds && !seen.emplace(kind, s.run.microbatch, operands).second) return true;
  }
  // Copies may share out the elements of a layer's table.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<bool>> tables;
  for (const auto& [instance, elements] : covered) {
    const Buffer& b = p[instance.buffer];
    if (!b.parameters || !b.flat_split.empty()) continue;
    std::vector<bool>& all = tables[{*b.parameters, instance.layer}];
    all.resize(p.parameter_tables[*b.parameters].count, false);
    for (std::size_t e = 0; e < elements.size(); ++e) all[e] = all[e] || elements[e];
  }
  for (const auto& [table, elements] : tables) {
    for (const ParameterSlice& s : p.parameter_tables[table.first].slices) {
      for (std::uint64_t e = s.offset; e < s.offset + local_count(s.shard, p.mesh); ++e) {
        if (!elements[e]) return true;
      }
    }
  }
  return false;
}

}  // namespace

std::string brute_force_fault(const Program& p) {
  std::vector<RankList> setup, step;
  std::map<Rank, Contributions> counts;  // by the first rank of each pipeline
  for (std::uint32_t r = 0; r < p.mesh.size(); ++r) {
    const RankClass& c = p.classes[class_of(p, Rank{r})];
    Expand expand(p, Rank{r});
    setup.push_back(expand.list(c.setup));
    const auto kept = expand.live();
    step.push_back(expand.list(c.step));
    for (const RankList* list : {&setup.back(), &step.back()}) {
      if (!list->fault.empty()) return list->fault;
      if (has_hazard(*list)) return "hazard";
    }
    if (expand.live() != kept) return "leaves other buffers live";
    const Rank first = p.mesh.moved(Rank{r}, Axis::pipeline, 0);
    if (gradients_wrong(p, step.back(), Rank{r}, counts[first])) return "gradients";
  }
  for (const auto& [first, of_pipeline] : counts) {
    if (unbalanced(p, of_pipeline)) return "gradients";
  }
  for (const auto* lists : {&setup, &step}) {
    if (const std::string fault = matching_fault(p, *lists); !fault.empty()) return fault;
    if (deadlocks(p, *lists)) return "deadlock";
  }
  return {};
}

}  // namespace orrery::test
