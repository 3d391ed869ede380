#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

// Checks which tokens a loss is for. The model predicts the next token, and prediction module k the token k further on.
// Each loss is the mean over its own targets, and the means are added to one. A list that takes another module's
// targets or count trains something else and is sound in every other respect.
//
// Logits may be made in pieces. Every target then counts once, forward and backward, and meets the logits of its own
// row.

class Targets {
 public:
  Targets(Findings& f, std::uint32_t rank_class) : f_(f), p_(f.program()), class_(rank_class) {}

  void check() {
    for_each_op(p_, p_.classes[class_].step, [&](const OpRun& run) {
      const auto* compute = std::get_if<Compute>(&run.op->action);
      if (compute == nullptr || f_.full()) return;
      see(run, run.block->kernels[compute->kernel]);
    });
    for (const auto& [instance, targets] : loaded_) {
      whole(instance, targets.count, targets.lost, "count in no loss");
      whole(instance, targets.count, targets.turned, "take no gradient");
    }
    if (means_.size() > 1) {
      f_.add("program.targets",
             fmt::format("the means of {} losses are never added (class {})", means_.size(), class_));
    }
  }

 private:
  using Element = std::pair<std::uint32_t, std::uint64_t>;             ///< of a buffer
  using Parts = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  ///< from one element to another
  /// Targets, and the parts of them that a loss counts and whose logits turn into gradients.
  struct Loaded {
    std::uint64_t count = 0;
    Parts lost, turned;
  };

  static const View& view(const OpRun& run, std::uint32_t i) { return run.block->views[run.op->views.first + i]; }
  static Element element(const View& v) { return {index(v.buffer), v.offset}; }
  [[nodiscard]] Instance instance(const OpRun& run, const View& v) const {
    return instance_of(p_, v.buffer, v.layer_shift, run.layer, run.microbatch);
  }
  void wrong(const OpRun& run, std::string what) {
    f_.add_run("program.targets", std::move(what), representative(p_, class_), false, run);
  }

  void see(const OpRun& run, const Kernel& k) {
    switch (k.kind) {
      case KernelKind::load_tokens: given_.emplace(run.microbatch, k.site); return;
      case KernelKind::load_targets:
        targets_[instance(run, view(run, 0))] = k.site;
        loaded_[instance(run, view(run, 0))] = {view(run, 0).count, {}, {}};
        return;
      case KernelKind::gemm:
        if (k.pass == Pass::forward && k.depth > 0) rows_[instance(run, view(run, 2))] = view(run, 0).offset / k.depth;
        return;
      case KernelKind::cross_entropy_sum: return own_rows(run, view(run, 0), view(run, 2));
      case KernelKind::count_targets: counts_[element(view(run, 0))] = k.site; return;
      case KernelKind::cross_entropy_loss: {
        const std::uint32_t ahead = targets_[instance(run, view(run, 3))];
        take(run, view(run, 3), &Loaded::lost);
        if (ahead > 0 && !given_.contains({run.microbatch, ahead})) {
          wrong(run, fmt::format("tokens {} further ahead are asked for, but none are given", ahead));
        }
        const auto [at, first] = losses_.try_emplace(element(view(run, 4)), ahead);
        if (!first && at->second != ahead) {
          wrong(run, fmt::format("one loss sums targets {} and {} further ahead", at->second, ahead));
        }
        return;
      }
      case KernelKind::cross_entropy_backward:
        own_rows(run, view(run, 0), view(run, 3));
        take(run, view(run, 3), &Loaded::turned);
        return same(run, targets_[instance(run, view(run, 3))], element(view(run, 4)));
      case KernelKind::mean_loss:
        means_.insert(element(view(run, 0)));
        return same(run, losses_[element(view(run, 0))], element(view(run, 1)));
      case KernelKind::add_losses:
        for (std::uint64_t i = 0; i < view(run, 0).count; ++i) {
          means_.erase({index(view(run, 0).buffer), view(run, 0).offset + i});
        }
        return;
      default: return;
    }
  }

  /// No part of the targets may come twice.
  void take(const OpRun& run, const View& v, Parts Loaded::*taken) {
    const auto at = loaded_.find(instance(run, v));
    if (at == loaded_.end()) return;
    Parts& parts = at->second.*taken;
    const std::uint64_t low = v.offset, high = v.offset + v.count;
    for (const auto& [from, to] : parts) {
      if (from >= high || low >= to) continue;
      wrong(run, fmt::format("elements {} to {} of {} count twice", std::max(from, low), std::min(to, high),
                             p_[v.buffer].name));
    }
    parts.emplace_back(low, high);
  }
  void whole(const Instance& instance, std::uint64_t count, const Parts& parts, const char* what) {
    std::uint64_t taken = 0;
    for (const auto& [from, to] : parts) taken += to - from;
    if (taken >= count) return;
    f_.add("program.targets", fmt::format("{} of {} elements of {} {} (microbatch {}, class {})", count - taken, count,
                                          p_[instance.buffer].name, what, instance.microbatch, class_));
  }
  /// Where the targets come in parts, the logits are those of the same rows.
  void own_rows(const OpRun& run, const View& logits, const View& targets) {
    const auto at = rows_.find(instance(run, logits));
    if (at == rows_.end() || targets.count == p_[targets.buffer].count || at->second == targets.offset) return;
    wrong(run, fmt::format("targets from element {} on meet the logits of row {} and those that follow", targets.offset,
                           at->second));
  }

  void same(const OpRun& run, std::uint32_t ahead, const Element& count) {
    const auto at = counts_.find(count);
    if (at == counts_.end() || at->second == ahead) return;
    wrong(run, fmt::format("a loss of targets {} further ahead is divided by the number of those {} ahead", ahead,
                           at->second));
  }

  Findings& f_;
  const Program& p_;
  std::uint32_t class_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> given_;  ///< (microbatch, positions ahead) of tokens
  std::map<Instance, std::uint32_t> targets_;                ///< positions ahead
  std::map<Element, std::uint32_t> counts_, losses_;         ///< the same
  std::set<Element> means_;                                  ///< of losses, not added to another
  std::map<Instance, Loaded> loaded_;
  std::map<Instance, std::uint64_t> rows_;  ///< the first row of x of which a product is made
};

}  // namespace

void check_targets(Findings& f) {
  for (std::uint32_t c = 0; c < f.program().classes.size() && !f.full(); ++c) Targets(f, c).check();
}

}  // namespace orrery::verifying
