#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/program/verify_holders.hpp"
#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

// A lost or repeated weight-gradient op leaves a list that is sound in every other respect, so gradients are counted.
// Within a step every microbatch adds to the same elements equally often, no op adds the same operands twice, and no
// parameter of a buffer that compute ops fill is left out. Where several classes hold a module, each microbatch adds on
// one of them.

/// Elements of one instance that ops add to.
using Region = std::tuple<Instance, std::uint64_t, std::uint64_t>;  ///< instance, offset, count

/// The kernel's kind, the microbatch, and the operands that one run uses.
using Contribution = std::tuple<std::uint8_t, std::uint32_t, std::vector<Region>>;

/// How often each microbatch adds to a region by one kind of kernel. Further entries count sums from one buffer, or
/// words from one buffer.
using Counts = std::map<std::pair<Region, std::size_t>, std::vector<std::uint32_t>>;

/// Elements [low, high) that ops add to.
using Covered = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

class Gradients {
 public:
  Gradients(Findings& f, const Holders& holders, std::uint32_t rank_class)
      : f_(f), p_(f.program()), holders_(holders), class_(rank_class), rank_(representative(p_, rank_class)) {}

  /// Adds to `shared` the counts of modules that other classes hold too.
  void check(Counts& shared) {
    for_each_op(p_, p_.classes[class_].step, [&](const OpRun& run) {
      collected(run);
      const auto* compute = std::get_if<Compute>(&run.op->action);
      if (run.op_index == 0) made_.clear();
      if (compute == nullptr) return;
      const KernelKind kind = run.block->kernels[compute->kernel].kind;
      if (kind == KernelKind::fill) return cleared(run);
      if (kind == KernelKind::gemm) ++made_[instance(run, run.block->views[run.op->views.first + 2])];
      const View* added = nullptr;
      for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
        const View& v = run.block->views[run.op->views.first + i];
        if (v.use == View::Use::read || p_[v.buffer].role != Role::gradient) continue;
        add(run, v, source(run, run.block->kernels[compute->kernel]));
        if (v.use == View::Use::accumulate) added = &v;
      }
      if (added != nullptr) once(run, *compute, *added);
    });
    for (const auto& [key, counts] : regions_) {
      const Region& region = key.first;
      if (holders_.of(std::get<0>(region)).size() < 2) {
        balanced(f_, region, counts, fmt::format("class {}", class_));
        continue;
      }
      std::vector<std::uint32_t>& all = shared[key];
      all.resize(p_.microbatches, 0);
      for (std::uint32_t m = 0; m < p_.microbatches; ++m) {
        if (counts[m] > 0 && all[m] > 0) {
          f_.add("program.gradient",
                 fmt::format("microbatch {} adds to {} of layer {} on more than one class (class {})", m,
                             name(std::get<0>(region).buffer), std::get<0>(region).layer, class_));
        }
        all[m] += counts[m];
      }
    }
    // Several copies may share one table's elements between them.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<Instance, Covered>> tables;  // by table and layer
    for (const auto& [instance, covered] : covered_) {
      const Buffer& b = p_[instance.buffer];
      if (!b.parameters || !b.flat_split.empty()) continue;
      Covered& all = tables.try_emplace({*b.parameters, instance.layer}, instance, Covered{}).first->second.second;
      all.insert(all.end(), covered.begin(), covered.end());
    }
    for (const auto& [table, covered] : tables) complete(covered.first, covered.second);
  }

  static void balanced(Findings& f, const Region& region, const std::vector<std::uint32_t>& counts,
                       const std::string& where) {
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    if (*least == *most) return;
    const auto& [instance, offset, count] = region;
    f.add("program.gradient",
          fmt::format("microbatch {} adds {} times to elements {} to {} of {} (layer {}), microbatch {} adds {} times "
                      "({})",
                      least - counts.begin(), *least, offset, offset + count, f.program()[instance.buffer].name,
                      instance.layer, most - counts.begin(), *most, where));
  }

 private:
  [[nodiscard]] Instance instance(const OpRun& run, const View& v) const {
    return instance_of(p_, v.buffer, v.layer_shift, run.layer, run.microbatch);
  }

  /// The head's rank takes words of the table for prediction modules; the first rank takes the model's own words from
  /// the same table.
  [[nodiscard]] std::size_t source(const OpRun& run, const Kernel& k) const {
    if (k.kind != KernelKind::embed_backward) return index(k.kind);
    return kernel_kind_count + p_.buffers.size() + index(run.block->views[run.op->views.first].buffer);
  }

  void add(const OpRun& run, const View& target, std::size_t source) {
    const std::uint64_t offset = offset_on(p_.mesh, target, rank_);
    auto& counts = regions_[{{instance(run, target), offset, target.count}, source}];
    counts.resize(p_.microbatches, 0);
    ++counts[run.microbatch];
    covered_[instance(run, target)].emplace_back(offset, offset + target.count);
  }

  /// A buffer that is cleared in a step must be added to later.
  void cleared(const OpRun& run) {
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = run.block->views[run.op->views.first + i];
      if (p_[v.buffer].role == Role::gradient) covered_[instance(run, v)];
    }
  }

  /// Products made in workspaces on several ranks come as a sum over those ranks.
  void collected(const OpRun& run) {
    const auto* c = std::get_if<Collective>(&run.op->action);
    if (c == nullptr || !is_paired(*run.block, *run.op, *c)) return;
    for (std::uint32_t i = 0; i + 1 < run.op->views.count; i += 2) {
      const View& from = run.block->views[run.op->views.first + i];
      const View& to = run.block->views[run.op->views.first + i + 1];
      if (to.use == View::Use::accumulate && p_[to.buffer].role == Role::gradient &&
          p_[from.buffer].role != Role::gradient) {
        add(run, to, kernel_kind_count + index(from.buffer));
      }
    }
  }

  void once(const OpRun& run, const Compute& compute, const View& target) {
    // Buffers that all microbatches share look alike, so the microbatch is part of the key.
    Contribution c{index(run.block->kernels[compute.kernel].kind), run.microbatch, {}};
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& v = run.block->views[run.op->views.first + i];
      std::get<2>(c).emplace_back(instance(run, v), offset_on(p_.mesh, v, rank_), v.count);
      // The gradient of the head's bias is made of pieces of logits that all lie in one place.
      const bool of_bias = run.block->kernels[compute.kernel].kind == KernelKind::bias_backward;
      if (of_bias && v.use == View::Use::read)
        std::get<2>(c).emplace_back(instance(run, v), made_[instance(run, v)], 0);
    }
    if (!seen_.insert(std::move(c)).second) {
      f_.add_run("program.gradient", fmt::format("{} is added to twice with the same operands", name(target.buffer)),
                 rank_, false, run);
    }
  }

  [[nodiscard]] const std::string& name(BufferId id) const { return p_[id].name; }

  /// Tests that every parameter of the table gets a contribution.
  void complete(const Instance& instance, Covered covered) {
    const Buffer& b = p_[instance.buffer];
    std::sort(covered.begin(), covered.end());
    for (const ParameterSlice& s : p_.parameter_tables[*b.parameters].slices) {
      const std::uint64_t end = s.offset + local_count(s.shard, p_.mesh);
      std::uint64_t at = s.offset;
      for (const auto& [low, high] : covered) {
        if (low <= at) at = std::max(at, high);
      }
      if (at >= end) continue;
      f_.add("program.gradient", fmt::format("nothing adds to the gradient of {} in {} (layer {}, class {})", s.name,
                                             b.name, instance.layer, class_));
    }
  }

  Findings& f_;
  const Program& p_;
  const Holders& holders_;
  std::uint32_t class_;
  Rank rank_;
  Counts regions_;
  std::map<Instance, Covered> covered_;
  std::map<Instance, std::uint64_t> made_;  ///< how often products of the block at hand have made it
  std::set<Contribution> seen_;
};

}  // namespace

void check_gradients(Findings& f) {
  const Holders holders(f.program());
  Counts shared;
  for (std::uint32_t c = 0; c < f.program().classes.size() && !f.full(); ++c) {
    f.reached(c, f.program().classes.size());
    Gradients(f, holders, c).check(shared);
  }
  for (const auto& [key, counts] : shared) Gradients::balanced(f, key.first, counts, "all classes");
}

}  // namespace orrery::verifying
