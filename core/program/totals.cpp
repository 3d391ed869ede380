#include "core/program/totals.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace orrery {

namespace {

/// Bytes that the rank sends for one collective; its views travel as one message.
std::uint64_t ring_sent(const Program& p, const OpRun& run, const Collective& c, Rank rank, std::uint64_t payload) {
  if (run.op->views.count == 0) return 0;
  const std::uint64_t element = size_of(p[run.block->views[run.op->views.first].buffer].dtype);
  const auto peer = peer_of(p[c.group], p.mesh, rank);
  if (!peer) return 0;
  return ring_bytes_sent(c.kind, payload / element, element, group_size(p[c.group], p.mesh), index(*peer),
                         index(c.root));
}

/// One walk over a class's list, setup first.
class Walk {
 public:
  Walk(const Program& p, std::uint32_t rank_class) : p_(p), class_(rank_class), rank_(representative(p, rank_class)) {
    out_.saved.resize(std::size_t{p.layers} + 1);
  }

  ClassTotals result() {
    const RankClass& c = p_.classes[class_];
    for_each_op(p_, c.setup, [&](const OpRun& run) { memory(run, true); });
    for (std::size_t tier = 0; tier < tier_count; ++tier) {
      for (std::size_t role = 0; role < role_count; ++role) out_.state[role] += roles_[tier][role];
    }
    for_each_op(p_, c.step, [&](const OpRun& run) {
      memory(run, false);
      work(run);
    });
    for (auto& [key, total] : collectives_) out_.collectives.push_back(total);
    return std::move(out_);
  }

 private:
  void memory(const OpRun& run, bool setup) {
    const auto* alloc = std::get_if<Alloc>(&run.op->action);
    const auto* free = std::get_if<Free>(&run.op->action);
    if (alloc == nullptr && free == nullptr) return;
    const BufferId id = alloc != nullptr ? alloc->what : free->what;
    const Buffer& b = p_[id];
    const std::size_t tier = index(b.tier);
    std::uint64_t& live = live_[tier];
    std::uint64_t& role = roles_[tier][index(b.role)];
    const Instance instance =
        instance_of(p_, id, alloc != nullptr ? alloc->layer_shift : free->layer_shift, run.layer, run.microbatch);
    if (alloc != nullptr) {
      live += bytes_of(b);
      role += bytes_of(b);
      if (live > out_.peak[tier]) {
        out_.peak[tier] = live;
        if (b.tier == Tier::device) out_.at_peak = roles_[tier];
      }
      if (!setup) born_.insert_or_assign(instance, run.block_run);
    } else {
      live -= bytes_of(b);
      role -= bytes_of(b);
      const auto birth = born_.find(instance);
      if (!setup && birth != born_.end()) {
        if (birth->second != run.block_run) kept(b, instance);
        born_.erase(birth);
      }
    }
  }

  /// Adds an instance that lived past the block run that allocated it; all microbatches are alike.
  void kept(const Buffer& b, const Instance& instance) {
    if (b.tier != Tier::device || !per_microbatch(b.scope) ||
        !seen_.insert({index(instance.buffer), instance.layer}).second)
      return;
    SavedActivations& saved = per_layer(b.scope) ? out_.saved[instance.layer] : out_.saved_outside;
    if (b.role == Role::activation) saved.activations += bytes_of(b);
    if (b.role == Role::statistic) saved.statistics += bytes_of(b);
  }

  void work(const OpRun& run) {
    if (const auto* compute = std::get_if<Compute>(&run.op->action)) {
      const Kernel& k = run.block->kernels[compute->kernel];
      const KernelFlops f = flops_of(k);
      out_.flops[index(k.pass)].counted += f.counted;
      out_.flops[index(k.pass)].executed += f.executed;
    } else if (const auto* c = std::get_if<Collective>(&run.op->action)) {
      CollectiveTotal& total = collectives_[{index(c->kind), index(c->group)}];
      const std::uint64_t payload = payload_bytes(p_, *run.block, *run.op);
      total.kind = c->kind;
      total.group = c->group;
      ++total.count;
      total.payload += payload;
      total.sent += ring_sent(p_, run, *c, rank_, payload);
    } else if (const auto* e = std::get_if<Exchange>(&run.op->action)) {
      for (std::uint32_t i = 0; i < e->transfers.count; ++i) {
        const Transfer& t = run.block->transfers[e->transfers.first + i];
        if (!t.send) continue;
        const View& v = run.block->views[run.op->views.first + t.view];
        ++out_.messages;
        out_.message_bytes += v.count * size_of(p_[v.buffer].dtype);
      }
    }
  }

  const Program& p_;
  std::uint32_t class_;
  Rank rank_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen_;  ///< (buffer, layer) of saved
  ClassTotals out_;
  std::array<std::uint64_t, tier_count> live_{};
  std::array<RoleBytes, tier_count> roles_{};
  std::map<Instance, std::uint32_t> born_;  ///< block run that allocated what the step allocated
  std::map<std::pair<std::uint8_t, std::uint32_t>, CollectiveTotal> collectives_;
};

/// Elements of a table without padding and second copies, over all ranks.
std::uint64_t valid_elements(const ParameterTable& table) {
  std::uint64_t elements = 0;
  for (const ParameterSlice& slice : table.slices) {
    const auto segment = std::find_if(table.segments.begin(), table.segments.end(), [&](const ParameterSegment& s) {
      return s.offset <= slice.offset && slice.offset < s.offset + s.count;
    });
    if (segment != table.segments.end() && !segment->counted) continue;
    std::uint64_t product = 1;
    for (std::size_t i = 0; i < slice.shard.rank; ++i) product *= slice.shard.dims[i].valid;
    elements += product;
  }
  return elements;
}

}  // namespace

ClassTotals totals_of(const Program& program, std::uint32_t rank_class) { return Walk(program, rank_class).result(); }

std::uint64_t parameter_elements(const Program& program) {
  // Instances of weights that setup allocates; several classes may hold the same layer.
  std::set<std::pair<std::uint32_t, std::uint32_t>> seen;  ///< (table, layer)
  std::uint64_t elements = 0;
  for (const RankClass& c : program.classes) {
    for_each_op(program, c.setup, [&](const OpRun& run) {
      const auto* alloc = std::get_if<Alloc>(&run.op->action);
      if (alloc == nullptr) return;
      const Buffer& b = program[alloc->what];
      if (!b.parameters || (b.role != Role::weight && !of_base(program.parameter_tables[*b.parameters]))) return;
      const Instance i = instance_of(program, alloc->what, alloc->layer_shift, run.layer, run.microbatch);
      if (seen.emplace(*b.parameters, i.layer).second)
        elements += valid_elements(program.parameter_tables[*b.parameters]);
    });
  }
  return elements;
}

KernelFlops total_flops(const Program& program) {
  const double ranks_per_class = static_cast<double>(program.mesh.size()) / static_cast<double>(program.classes.size());
  KernelFlops total;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    for (const KernelFlops& f : totals_of(program, c).flops) {
      total.counted += ranks_per_class * f.counted;
      total.executed += ranks_per_class * f.executed;
    }
  }
  return total;
}

}  // namespace orrery
